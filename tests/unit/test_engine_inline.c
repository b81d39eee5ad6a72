/* SPDX-License-Identifier: Apache-2.0 */

#include <ferry/error.h>

#include "engine_fixture.h"
#include "engine_internal.h"
#include "unit.h"

/* Which thread runs the engine: its own, or for a moment the one that waits for a short transfer. */

enum { SMALL = 4096, PATIENT_US = 5000000, SOON_US = 50000 };

TEST(a_short_transfer_runs_inline_on_the_callers_thread)
{
        for (int carrier = 0; carrier < CARRIERS; carrier++) {
                for (int direction = ENGINE_READ; direction <= ENGINE_WRITE; direction++) {
                        struct world *w = world_new_with((enum carrier)carrier, carrier == MAPPED ? 64 << 10 : SMALL,
                                                         (struct world_knobs){ .spin_us = PATIENT_US });

                        int ended = 0;

                        w->may_run_inline = true;
                        world_offer(w, (enum engine_direction)direction);
                        do { /* now and then the engine's thread holds the progress lock */
                                w->active.progress = 0;
                                (void)world_start(w, (enum engine_direction)direction, false);
                                end_wait(&w->active, ++ended);
                                assert_int_equal(w->active.outcome.error, 0);
                        } while (!pthread_equal(w->active.thread, pthread_self()) && ended < 1000);
                        assert_true(pthread_equal(w->active.thread, pthread_self()));
                        end_wait(&w->passive, ended);
                        world_assert_streams_equal(w);
                        world_free(w);
                }
        }
}

static void read_without_inline(struct world *w)
{
        for (int i = 1; i <= 20; i++) {
                w->active.progress = 0;
                (void)world_start(w, ENGINE_READ, false);
                end_wait(&w->active, i);
                assert_int_equal(w->active.outcome.error, 0);
                assert_false(pthread_equal(w->active.thread, pthread_self()));
        }
}

/* With the least that --spin-us takes nothing runs inline, and everything works. */
TEST(what_nobody_awaits_is_long_or_may_not_spin_does_not)
{
        static const struct {
                enum carrier carrier;
                size_t size;
                bool awaited;
                uint32_t spin_us;
        } rows[] = { { BOUNCED, SMALL, false, PATIENT_US },
                     { MAPPED, 8 << 20, true, PATIENT_US },
                     { BOUNCED, SMALL, true, 1 },
                     { NETWORK, SMALL, true, 1 },
                     { MAPPED, SMALL, true, 1 } };

        for (size_t i = 0; i < UNIT_COUNT(rows); i++) {
                struct world *w = world_new_with(rows[i].carrier, rows[i].size,
                                                 (struct world_knobs){ .spin_us = rows[i].spin_us });

                w->may_run_inline = rows[i].awaited;
                world_offer(w, ENGINE_READ);
                read_without_inline(w);
                world_free(w);
        }
}

/* A peer that does not answer: the caller goes on, and the engine's own thread ends what it left. */
TEST(what_inline_progress_leaves_goes_on_without_it)
{
        FOR_EACH_CARRIER (w, MAPPED, SMALL) {
                uint64_t id;

                w->may_run_inline = true;
                world_offer(w, ENGINE_READ);
                pthread_mutex_lock(&w->gate);
                id = world_start(w, ENGINE_READ, false);
                assert_int_equal(w->active.ended, 0);
                engine_transfer_cancel(w->engine[0], id, FERRY_E_CANCELLED);
                end_wait(&w->active, 1);
                assert_int_equal(w->active.outcome.error, FERRY_E_CANCELLED);
                assert_false(pthread_equal(w->active.thread, pthread_self()));
                pthread_mutex_unlock(&w->gate);
        }
}

struct greeting {
        struct end end;
        struct engine_connection connection;
};

static void greeted(void *context, const struct engine_connection *connection)
{
        struct greeting *greeting = context;

        greeting->connection = *connection;
        end_note(&greeting->end, NULL);
}

static bool is_asleep(struct engine *engine)
{
        bool asleep;

        progress_lock(engine);
        asleep = engine->sleep_until_us > 0;
        progress_unlock(engine);
        return asleep;
}

/* The other engine's message finds a thread that slept through inline progress. */
TEST(a_thread_that_sleeps_through_a_visit_still_hears_messages)
{
        for (int carrier = 0; carrier < MAPPED; carrier++) {
                struct world *w =
                        world_new_with((enum carrier)carrier, SMALL, (struct world_knobs){ .spin_us = SOON_US });
                struct greeting greeting = { 0 };
                struct engine_connect connect = { .peer.epoch = w->epoch[0],
                                                  .peer.data = engine_get_facts(w->engine[0])->data_address,
                                                  .context = &greeting,
                                                  .connected = greeted };

                end_init(&greeting.end);
                w->may_run_inline = true;
                world_offer(w, ENGINE_READ);
                for (int i = 1; i <= 5; i++) {
                        WAIT_UNTIL(is_asleep(w->engine[0]));
                        w->active.progress = 0;
                        (void)world_start(w, ENGINE_READ, false);
                        end_wait(&w->active, i);
                        assert_int_equal(engine_connect(w->engine[1], &connect), 0);
                        end_wait(&greeting.end, i);
                        assert_int_equal(greeting.connection.error, 0);
                }
                world_free(w);
        }
}

enum { THREADS = 4, EACH = 300 };

static void *start_each(void *context)
{
        struct world *w = context;

        for (int i = 0; i < EACH; i++) {
                uint64_t id = world_start(w, ENGINE_READ, false);

                if (i % 7 == 0) /* most have ended by then */
                        engine_transfer_cancel(w->engine[0], id, FERRY_E_CANCELLED);
        }
        return NULL;
}

TEST(inline_progress_alternates)
{
        for (int carrier = 0; carrier < CARRIERS; carrier++) {
                struct world *w = world_new((enum carrier)carrier, carrier == MAPPED ? 64 << 10 : SMALL);
                pthread_t threads[THREADS];

                w->may_run_inline = w->many = true;
                world_offer(w, ENGINE_READ);
                for (int i = 0; i < THREADS; i++)
                        assert_int_equal(pthread_create(&threads[i], NULL, start_each, w), 0);
                for (int i = 0; i < THREADS; i++)
                        assert_int_equal(pthread_join(threads[i], NULL), 0);
                end_wait(&w->active, THREADS * EACH);
                world_free(w);
        }
}

static atomic_int accepted;

static void *start_until_it_stops(void *context)
{
        struct world *w = context;
        int r;

        do {
                struct engine_transfer transfer = world_transfer(w, ENGINE_READ, false);

                r = engine_transfer_start(w->engine[0], &transfer);
                if (r == 0)
                        atomic_fetch_add(&accepted, 1);
        } while (r == 0);
        assert_int_equal(r, -ESHUTDOWN);
        return NULL;
}

/* Every transfer that was taken ends, whoever came while the engine stopped. */
TEST(an_engine_stops_while_others_want_its_lock)
{
        FOR_EACH_CARRIER (w, CARRIERS, SMALL) {
                pthread_t threads[THREADS];

                accepted = 0;
                w->may_run_inline = w->many = true;
                world_offer(w, ENGINE_READ);
                for (int i = 0; i < THREADS; i++)
                        assert_int_equal(pthread_create(&threads[i], NULL, start_until_it_stops, w), 0);
                WAIT_UNTIL(accepted >= EACH);
                engine_stop(w->engine[0]);
                for (int i = 0; i < THREADS; i++)
                        assert_int_equal(pthread_join(threads[i], NULL), 0);
                end_wait(&w->active, accepted);
        }
}
