/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "steps.h"
#include "wire.h"

/* "uses":N: one offer, the same metadata, N transfers, of which one that dies costs only its own attempt. */

enum { SMALL = 5000, LARGE = 256 * STEPS_MIB, MANY = 300, TRIES = 100, SEED = 41 };

struct fixture {
        struct pair p;
        struct worker c;
};

struct offer {
        struct json_object *operation;
        const char *id;
        char metadata[4096];
        const char *region;
};

static struct offer offer(struct worker *w, const char *kind, uint64_t size, uint64_t seed, unsigned uses)
{
        struct offer offer;
        const char *more = text_format(",\"uses\":%u,\"label\":\"again\"", uses), *body;

        offer.region = region_make(w, size, seed);
        body = operation_body(kind, offer.region, more);
        offer.operation = call_json(w, 201, "POST", "/v1/operations?include=metadata", body);
        offer.id = json_text(offer.operation, "id");
        (void)snprintf(offer.metadata, sizeof(offer.metadata), "%s",
                       json_object_to_json_string(json_member(offer.operation, "metadata")));
        assert_string_equal(json_text(offer.operation, "label"), "again");
        assert_int_equal(json_number(offer.operation, "uses"), uses);
        return offer;
}

/* The peer knows of the end first. */
static void assert_offer(struct worker *w, const struct offer *offer, uint64_t done, const char *status)
{
        struct json_object *now = operation_json(w, offer->id);

        while (json_number(now, "uses_done") < done) {
                const char *path = text_format("/v1/operations/%s?wait_ms=%d&revision=%llu", offer->id, WAIT_MS,
                                               (unsigned long long)json_number(now, "revision"));

                now = call_json(w, 200, "GET", path, NULL);
        }
        assert_int_equal(json_number(now, "uses_done"), done);
        assert_string_equal(json_text(now, "status"), status);
}

static void offer_drop(struct worker *w, struct offer *offer)
{
        region_drop(w, offer->region);
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

CASE(writes_follow_each_other_at_once)
{
        struct pair *p = &((struct fixture *)f)->p;

        for (int network = 0; network < 2; network++) {
                struct offer target;
                const char *source[2];
                struct ferry_operation write;

                pair_start(p, network);
                target = offer(&p->a, "writable", SMALL, 0, MANY);
                source[0] = region_make(&p->b, SMALL, SEED);
                source[1] = region_make(&p->b, SMALL, SEED + 1);
                for (int i = 0; i < MANY; i++) {
                        begin_make(&p->b, FERRY_WRITE, source[i % 2], target.metadata, &write);
                        operation_assert_end(&p->b, write.id, FERRY_COMPLETE, NULL);
                        ferry_operation_clear(&write);
                        if (i < 2)
                                region_assert_pattern(&p->a, target.region, SEED + (uint64_t)i, 0, SMALL);
                }
                operation_assert_end(&p->a, target.id, FERRY_COMPLETE, NULL);
                assert_offer(&p->a, &target, MANY, "COMPLETE");
                offer_drop(&p->a, &target);
                pair_stop(p);
        }
}

/* A buffer that is filled again and again is offered once. */
CASE(what_is_read_is_what_the_memory_holds_each_time)
{
        struct pair *p = &((struct fixture *)f)->p;
        struct offer source;
        struct ferry_operation read;
        uint8_t bytes[SMALL];

        pair_start(p, false);
        source = offer(&p->a, "readable", SMALL, SEED, 10);
        const char *target = region_make(&p->b, SMALL, 0);
        for (uint64_t i = 0; i < 10; i++) {
                assert_offer(&p->a, &source, i, i ? "IN_PROGRESS" : "INITIALIZED");
                pattern_fill(SEED + i, 0, bytes, SMALL);
                assert_int_equal(ferry_put_region_content(p->a.client, source.region, 0, bytes, SMALL), 0);
                begin_make(&p->b, FERRY_READ, target, source.metadata, &read);
                operation_assert_end(&p->b, read.id, FERRY_COMPLETE, NULL);
                region_assert_pattern(&p->b, target, SEED + i, 0, SMALL);
                ferry_operation_clear(&read);
        }
        assert_offer(&p->a, &source, 10, "COMPLETE");
        assert_peer(p, &source);
        offer_drop(&p->a, &source);
}

/* One write of c. false: it found the only place taken. */
static bool write_by_c(struct fixture *f, const struct offer *target, const char *source)
{
        OPERATION write, end;

        begin_make(&f->c, FERRY_WRITE, source, target->metadata, &write);
        assert_int_equal(ferry_wait_operation(f->c.client, write.id, WAIT_MS, &end), 0);
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
                if (!write_by_c(f, target, other) && !write_by_c(f, target, other))
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
        WAIT_UNTIL(write_by_c(f, &target, other));
        assert_offer(&p->a, &target, n + 1, "IN_PROGRESS");
        region_assert_pattern(&p->a, target.region, SEED + 1, 0, LARGE);
        assert_int_equal(ferry_cancel_operation(p->a.client, target.id, NULL), 0);
        offer_drop(&p->a, &target);
}
