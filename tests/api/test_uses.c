/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "steps.h"
#include "wire.h"

/* "uses":N: one offer, the same metadata, N transfers, of which one that dies costs only its own attempt. */

enum { SMALL = 5000, LARGE = 256 * STEPS_MIB, MANY = 300, TRIES = 100, SEED = 41 };

struct fixture {
        struct pair p;
        struct worker c, d;
};

struct offer {
        struct json_object *operation;
        const char *id, *metadata, *region;
};

static struct offer offer_of(struct worker *w, const char *kind, const char *region, unsigned uses)
{
        struct offer offer = { .region = region };

        offer.operation =
                call_json(w, 201, "POST", "/v1/operations?include=metadata",
                          operation_body(kind, region, text_format(",\"uses\":%u,\"label\":\"again\"", uses)));
        offer.id = json_text(offer.operation, "id");
        offer.metadata = json_object_to_json_string(json_member(offer.operation, "metadata"));
        assert_string_equal(json_text(offer.operation, "label"), "again");
        assert_int_equal(json_number(offer.operation, "uses"), uses);
        return offer;
}

static struct offer offer(struct worker *w, const char *kind, uint64_t size, uint64_t seed, unsigned uses)
{
        return offer_of(w, kind, region_make(w, size, seed), uses);
}

/* The peer knows of the end first. */
static void assert_offer(struct worker *w, const struct offer *offer, uint64_t done, const char *status)
{
        struct json_object *now = operation_json(w, offer->id);

        while (json_number(now, "uses_done") < done) {
                now = call_json(w, 200, "GET",
                                text_format("/v1/operations/%s?wait_ms=%d&revision=%llu", offer->id, WAIT_MS,
                                            (unsigned long long)json_number(now, "revision")),
                                NULL);
        }
        assert_int_equal(json_number(now, "uses_done"), done);
        assert_string_equal(json_text(now, "status"), status);
}

/* Who came is in the operation and in the log, for each use; the last line follows the end that clients see. */
static void assert_peer(struct pair *p, const struct offer *offer)
{
        struct json_object *now = operation_json(&p->a, offer->id);
        const char *log, *line = text_format("peer=b peer_epoch=%s", p->b.epoch);
        uint64_t lines = json_number(now, "uses") + 1;

        assert_string_equal(json_text(json_member(now, "peer"), "worker"), "b");
        assert_string_equal(json_text(json_member(now, "peer"), "epoch"), p->b.epoch);
        WAIT_UNTIL(text_count(log = worker_log(&p->a), line) >= lines);
        assert_int_equal(text_count(log, line), lines);
        assert_non_null(strstr(log, json_text(now, "request_id")));
        assert_non_null(strstr(log, "label=again"));
}

/* Each write begins when the one before is complete where it was asked for. */
#define CASE(name) SCENE(struct fixture, f, name, (void)0)

ON_EACH_PAIR(writes_follow_each_other_at_once)
{
        struct offer target = offer(&p->a, "writable", SMALL, 0, MANY);
        const char *source[] = { region_make(&p->b, SMALL, SEED), region_make(&p->b, SMALL, SEED + 1) };

        for (int i = 0; i < MANY; i++) {
                OPERATION write;

                begin_make(&p->b, FERRY_WRITE, source[i % 2], target.metadata, &write);
                operation_assert_end(&p->b, write.id, FERRY_COMPLETE, NULL);
                if (i < 2)
                        region_assert_pattern(&p->a, target.region, SEED + (uint64_t)i, 0, SMALL);
        }
        operation_assert_end(&p->a, target.id, FERRY_COMPLETE, NULL);
        assert_offer(&p->a, &target, MANY, "COMPLETE");
}

/* A buffer that is filled again and again is offered once. */
ON_PAIR(what_is_read_is_what_the_memory_holds_each_time)
{
        struct offer source = offer(&p->a, "readable", SMALL, SEED, 10);
        uint8_t bytes[SMALL];

        const char *target = region_make(&p->b, SMALL, 0);
        for (uint64_t i = 0; i < 10; i++) {
                OPERATION read;

                assert_offer(&p->a, &source, i, i ? "IN_PROGRESS" : "INITIALIZED");
                pattern_fill(SEED + i, 0, bytes, SMALL);
                assert_int_equal(ferry_put_region_content(p->a.client, source.region, 0, bytes, SMALL), 0);
                begin_make(&p->b, FERRY_READ, target, source.metadata, &read);
                operation_assert_end(&p->b, read.id, FERRY_COMPLETE, NULL);
                region_assert_pattern(&p->b, target, SEED + i, 0, SMALL);
        }
        assert_offer(&p->a, &source, 10, "COMPLETE");
        assert_peer(p, &source);
}

/* One transfer of a worker. false: it found every place taken. */
static bool take_place(struct worker *w, enum ferry_kind kind, const struct offer *target, const char *local)
{
        OPERATION active, end;

        begin_make(w, kind, local, target->metadata, &active);
        assert_int_equal(ferry_wait_operation(w->client, active.id, WAIT_MS, &end), 0);
        if (end.status != FERRY_COMPLETE)
                assert_string_equal(end.error_code, "already-claimed");
        return end.status == FERRY_COMPLETE;
}

/*
 * Begins writes on b until it stands still in the middle of one, and c finds the place taken. Returns how many were
 * complete before: b may come to an end between the look at it and its stop, and c may have overtaken b's last word.
 */
static uint64_t write_halfway(struct fixture *f, const struct offer *target, const char *source, const char *other)
{
        OPERATION write = { 0 };

        for (uint64_t n = 0;; n++) {
                ferry_operation_clear(&write);
                begin_verified(&f->p.b, FERRY_WRITE, source, target->metadata, &write);
                if (!operation_await_middle(&f->p.b, write.id)) {
                        operation_assert_end(&f->p.b, write.id, FERRY_COMPLETE, NULL);
                        continue;
                }
                worker_pause(&f->p.b);
                if (!take_place(&f->c, FERRY_WRITE, target, other) && !take_place(&f->c, FERRY_WRITE, target, other))
                        return n;
                n++;
                worker_resume(&f->p.b);
                operation_assert_end(&f->p.b, write.id, FERRY_COMPLETE, NULL);
        }
}

CASE(a_writer_that_dies_costs_only_its_own_attempt)
{
        struct pair *p = &f->p;
        struct offer target;
        uint64_t n;

        pair_start(p, false);
        worker_start(&f->c, "c", NULL);
        worker_expect(&f->c, "operation ended");
        target = offer(&p->a, "writable", LARGE, 0, TRIES);
        const char *source = region_make(&p->b, LARGE, SEED);
        const char *other = region_make(&f->c, LARGE, SEED + 1);
        n = write_halfway(f, &target, source, other);
        assert_offer(&p->a, &target, n, "IN_PROGRESS");
        worker_kill(&p->b);
        worker_clean(&p->b);
        /* Its place is free again as soon as the offering worker knows. */
        WAIT_UNTIL(take_place(&f->c, FERRY_WRITE, &target, other));
        assert_offer(&p->a, &target, n + 1, "IN_PROGRESS");
        region_assert_pattern(&p->a, target.region, SEED + 1, 0, LARGE);
        assert_int_equal(ferry_cancel_operation(p->a.client, target.id, NULL), 0);
}

/* ---- readers, at the same time ---- */

static void start_readers(struct fixture *f, bool network)
{
        pair_start(&f->p, network);
        worker_start(&f->c, "c", network ? tcp_flags : NULL);
        worker_start(&f->d, "d", network ? tcp_flags : NULL);
        pair_expect_failures(&f->p);
        worker_expect(&f->c, "operation ended");
        worker_expect(&f->d, "operation ended");
}

static void stop_readers(struct fixture *f)
{
        worker_stop(&f->c);
        worker_stop(&f->d);
        worker_stop(&f->p.a);
}

/* "readers" is the older name of "uses". */
CASE(many_readers_read_at_the_same_time)
{
        enum { READERS = 3, SIZE = 64 * STEPS_MIB };

        for (int network = 0; network < 2; network++) {
                struct worker *workers[READERS] = { &f->p.b, &f->c, &f->d };
                struct ferry_operation passive, active[READERS];
                const char *local[READERS];

                start_readers(f, network);
                OFFER(&f->p.a, region_make(&f->p.a, SIZE, SEED), &passive, .kind = FERRY_READABLE, .readers = READERS);
                assert_int_equal(passive.readers, READERS);
                for (int i = 0; i < READERS; i++) {
                        local[i] = region_make(workers[i], SIZE, 0);
                        begin_make(workers[i], FERRY_READ, local[i], passive.metadata, &active[i]);
                }
                for (int i = 0; i < READERS; i++) {
                        operation_assert_end(workers[i], active[i].id, FERRY_COMPLETE, NULL);
                        region_assert_pattern(workers[i], local[i], SEED, 0, SIZE);
                        ferry_operation_clear(&active[i]);
                }
                operation_assert_end(&f->p.a, passive.id, FERRY_COMPLETE, &active[0]);
                assert_int_equal(active[0].readers_done, READERS);
                ferry_operation_clear(&active[0]);
                begin_make(&f->c, FERRY_READ, local[1], passive.metadata, &active[0]);
                operation_assert_error(&f->c, active[0].id, FERRY_ERRORED, FERRY_E_ALREADY_CLAIMED);
                ferry_operation_clear(&active[0]);
                ferry_operation_clear(&passive);
                worker_stop(&f->p.b);
                stop_readers(f);
        }
}

/*
 * Begins a read on b, stops b in its middle, and lets c read: both places are taken, as d is told. false: b has read
 * all, because it was faster.
 */
static bool read_halfway(struct fixture *f, const struct offer *passive, const char *const local[3])
{
        OPERATION b, c, d;

        begin_make(&f->p.b, FERRY_READ, local[0], passive->metadata, &b);
        (void)operation_await_middle(&f->p.b, b.id);
        worker_pause(&f->p.b);
        begin_make(&f->c, FERRY_READ, local[1], passive->metadata, &c);
        operation_assert_end(&f->c, c.id, FERRY_COMPLETE, NULL);
        WAIT_UNTIL(json_number(operation_json(&f->p.a, passive->id), "uses_done") > 0); /* which c knows first */
        begin_make(&f->d, FERRY_READ, local[2], passive->metadata, &d);
        operation_assert_error(&f->d, d.id, FERRY_ERRORED, FERRY_E_ALREADY_CLAIMED);
        if (json_number(operation_json(&f->p.a, passive->id), "uses_done") == 1)
                return true;
        worker_resume(&f->p.b);
        operation_assert_end(&f->p.b, b.id, FERRY_COMPLETE, NULL);
        return false;
}

CASE(a_reader_that_dies_costs_only_its_own_attempt)
{
        enum { HUGE = 512 * STEPS_MIB };

        for (int network = 0; network < 2; network++) {
                struct offer passive;

                start_readers(f, network);
                const char *local[] = { region_make(&f->p.b, HUGE, 0), region_make(&f->c, HUGE, 0),
                                        region_make(&f->d, HUGE, 0) };
                const char *offered = region_make(&f->p.a, HUGE, 0);
                do
                        passive = offer_of(&f->p.a, "readable", offered, 2);
                while (!read_halfway(f, &passive, local));
                assert_offer(&f->p.a, &passive, 1, "IN_PROGRESS");
                /* It dies: its place is free again, as soon as the offering worker knows. */
                worker_kill(&f->p.b);
                worker_clean(&f->p.b);
                WAIT_UNTIL(take_place(&f->d, FERRY_READ, &passive, local[2]));
                assert_offer(&f->p.a, &passive, 2, "COMPLETE");
                stop_readers(f);
        }
}

CASE(an_offer_to_many_ends_for_all_when_it_is_cancelled)
{
        struct offer passive;
        OPERATION late;

        pair_start(&f->p, false);
        pair_expect_failures(&f->p);
        passive = offer(&f->p.a, "readable", SMALL, SEED, 5);
        const char *local = region_make(&f->p.b, SMALL, 0);
        for (int i = 0; i < 2; i++) { /* the same peer may read again: places count, not peers */
                OPERATION read;

                begin_make(&f->p.b, FERRY_READ, local, passive.metadata, &read);
                operation_assert_end(&f->p.b, read.id, FERRY_COMPLETE, NULL);
        }
        assert_int_equal(ferry_cancel_operation(f->p.a.client, passive.id, NULL), 0);
        operation_assert_error(&f->p.a, passive.id, FERRY_CANCELLED, FERRY_E_CANCELLED);
        begin_make(&f->p.b, FERRY_READ, local, passive.metadata, &late);
        operation_assert_error(&f->p.b, late.id, FERRY_CANCELLED, FERRY_E_CANCELLED_BY_PEER);
}
