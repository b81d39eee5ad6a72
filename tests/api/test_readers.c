/* SPDX-License-Identifier: Apache-2.0 */
#include "steps.h"

/* "readers":N: one readable for N peers, of which one that dies costs only its own attempt. */

enum { SIZE = 64 * STEPS_MIB, SMALL = 5000, READERS = 3, SEED = 11 };

static const char *const network_flags[] = { "--data-listen", "127.0.0.1:0", "--local", "off",
                                             "--transports",  "tcp,self",    NULL };

struct fixture {
        struct pair p;
        struct worker c, d;
};

static void fixture_start(struct fixture *f, bool network)
{
        pair_start(&f->p, network);
        worker_start(&f->c, "c", network ? network_flags : NULL);
        worker_start(&f->d, "d", network ? network_flags : NULL);
        pair_expect_failures(&f->p);
        worker_expect(&f->c, "operation ended");
        worker_expect(&f->d, "operation ended");
}

static void offer(struct worker *w, const char *region, uint32_t readers, struct ferry_operation *ret_operation)
{
        struct ferry_descriptor descriptor = { .region = region };
        struct ferry_operation_spec spec = { .kind = FERRY_READABLE,
                                             .descriptors = &descriptor,
                                             .n_descriptors = 1,
                                             .readers = readers,
                                             .include_metadata = true };

        assert_int_equal(ferry_create_operation(w->client, &spec, ret_operation), 0);
        assert_int_equal(ret_operation->readers, readers);
        assert_int_equal(ret_operation->readers_done, 0);
}

static void assert_readers(struct worker *w, const char *id, uint64_t done, enum ferry_status status)
{
        OPERATION now;

        assert_int_equal(ferry_get_operation(w->client, id, 0, 0, &now), 0);
        assert_int_equal(now.readers_done, done);
        assert_int_equal(now.status, status);
}

#define CASE(name) SCENE(struct fixture, f, name, (void)0)

CASE(many_readers_read_at_the_same_time)
{
        for (int network = 0; network < 2; network++) {
                struct worker *workers[READERS] = { &f->p.b, &f->c, &f->d };
                struct ferry_operation passive, active[READERS], late;
                const char *local[READERS];

                fixture_start(f, network);
                const char *offered = region_make(&f->p.a, SIZE, SEED);
                for (int i = 0; i < READERS; i++)
                        local[i] = region_make(workers[i], SIZE, 0);
                offer(&f->p.a, offered, READERS, &passive);
                for (int i = 0; i < READERS; i++)
                        begin_make(workers[i], FERRY_READ, local[i], passive.metadata, &active[i]);
                for (int i = 0; i < READERS; i++) {
                        operation_assert_end(workers[i], active[i].id, FERRY_COMPLETE, NULL);
                        region_assert_pattern(workers[i], local[i], SEED, 0, SIZE);
                        ferry_operation_clear(&active[i]);
                }
                operation_assert_end(&f->p.a, passive.id, FERRY_COMPLETE, NULL);
                assert_readers(&f->p.a, passive.id, READERS, FERRY_COMPLETE);
                begin_make(&f->c, FERRY_READ, local[1], passive.metadata, &late);
                operation_assert_error(&f->c, late.id, FERRY_ERRORED, FERRY_E_ALREADY_CLAIMED);
                ferry_operation_clear(&late);
                ferry_operation_clear(&passive);
                worker_stop(&f->c);
                worker_stop(&f->d);
                pair_stop(&f->p);
        }
}

/* Waits until the offer tells of an end, which the reader knows first. Returns how many it tells of. */
static uint64_t await_end(struct worker *w, const char *id)
{
        OPERATION now;

        assert_int_equal(ferry_get_operation(w->client, id, 0, 0, &now), 0);
        while (now.readers_done == 0) {
                uint64_t revision = now.revision;

                ferry_operation_clear(&now);
                assert_int_equal(ferry_get_operation(w->client, id, WAIT_MS, revision, &now), 0);
        }
        return now.readers_done;
}

/*
 * Begins a read on b, stops b in its middle, and lets c read: both places are taken, as d is told. false: b has read
 * all, because it was faster.
 */
static bool read_halfway(struct fixture *f, const struct ferry_operation *passive, const char *const local[READERS])
{
        OPERATION b, c, d;

        begin_make(&f->p.b, FERRY_READ, local[0], passive->metadata, &b);
        (void)operation_await_middle(&f->p.b, b.id);
        worker_pause(&f->p.b);
        begin_make(&f->c, FERRY_READ, local[1], passive->metadata, &c);
        operation_assert_end(&f->c, c.id, FERRY_COMPLETE, NULL);
        (void)await_end(&f->p.a, passive->id);
        begin_make(&f->d, FERRY_READ, local[2], passive->metadata, &d);
        operation_assert_error(&f->d, d.id, FERRY_ERRORED, FERRY_E_ALREADY_CLAIMED);
        if (await_end(&f->p.a, passive->id) == 1)
                return true;
        worker_resume(&f->p.b);
        operation_assert_end(&f->p.b, b.id, FERRY_COMPLETE, NULL);
        return false;
}

CASE(a_reader_that_dies_costs_only_its_own_attempt)
{
        enum { LARGE = 512 * STEPS_MIB };

        for (int network = 0; network < 2; network++) {
                OPERATION passive = { 0 };
                struct ferry_operation late;
                bool complete = false;

                fixture_start(f, network);
                const char *offered = region_make(&f->p.a, LARGE, 0);
                const char *local[] = { region_make(&f->p.b, LARGE, 0), region_make(&f->c, LARGE, 0),
                                        region_make(&f->d, LARGE, 0) };
                do {
                        ferry_operation_clear(&passive);
                        offer(&f->p.a, offered, 2, &passive);
                } while (!read_halfway(f, &passive, local));
                assert_readers(&f->p.a, passive.id, 1, FERRY_IN_PROGRESS);

                /* It dies: its place is free again, as soon as the offering worker knows. */
                worker_kill(&f->p.b);
                worker_clean(&f->p.b);
                for (uint64_t deadline = now_ms() + WAIT_MS; !complete;) {
                        OPERATION now;

                        begin_make(&f->d, FERRY_READ, local[2], passive.metadata, &late);
                        assert_int_equal(ferry_wait_operation(f->d.client, late.id, WAIT_MS, &now), 0);
                        ferry_operation_clear(&late);
                        complete = now.status == FERRY_COMPLETE;
                        if (!complete)
                                assert_string_equal(now.error_code, "already-claimed");
                        assert_true(now_ms() < deadline);
                }
                operation_assert_end(&f->p.a, passive.id, FERRY_COMPLETE, NULL);
                assert_readers(&f->p.a, passive.id, 2, FERRY_COMPLETE);
                worker_stop(&f->c);
                worker_stop(&f->d);
                worker_stop(&f->p.a);
        }
}

CASE(an_offer_to_many_ends_for_all_when_it_is_cancelled)
{
        OPERATION passive, first, late;

        fixture_start(f, false);
        const char *offered = region_make(&f->p.a, SMALL, SEED);
        const char *local = region_make(&f->p.b, SMALL, 0);
        offer(&f->p.a, offered, 5, &passive);
        begin_make(&f->p.b, FERRY_READ, local, passive.metadata, &first);
        operation_assert_end(&f->p.b, first.id, FERRY_COMPLETE, NULL);
        /* The same peer may read again: places count, not peers. */
        begin_make(&f->p.b, FERRY_READ, local, passive.metadata, &late);
        operation_assert_end(&f->p.b, late.id, FERRY_COMPLETE, NULL);
        ferry_operation_clear(&late);
        assert_int_equal(ferry_cancel_operation(f->p.a.client, passive.id, NULL), 0);
        operation_assert_error(&f->p.a, passive.id, FERRY_CANCELLED, FERRY_E_CANCELLED);
        begin_make(&f->p.b, FERRY_READ, local, passive.metadata, &late);
        operation_assert_error(&f->p.b, late.id, FERRY_CANCELLED, FERRY_E_CANCELLED_BY_PEER);
}
