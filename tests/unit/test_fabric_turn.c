/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <ferry/error.h>

#include "fabric_fixture.h"
#include "fabric_internal.h"

/* Who runs the data plane: the fabric's thread, or for a moment the one that waits for a short transfer. */

enum { SMALL = 4096, PATIENT_US = 5000000, SOON_US = 50000 };

static void a_short_transfer_that_is_awaited_runs_on_the_callers_thread(void **state)
{
        for (int way = 0; way < WAYS; way++) {
                for (int direction = FABRIC_READ; direction <= FABRIC_WRITE; direction++) {
                        struct world *w = world_new_with((enum carrier)way, way == MAPPED ? 64 << 10 : SMALL,
                                                         (struct world_knobs){ .spin_us = PATIENT_US });

                        int ended = 0;

                        w->awaited = true;
                        world_offer(w, (enum fabric_direction)direction);
                        do { /* now and then the fabric's thread has the turn */
                                w->active.progress = 0;
                                (void)world_start(w, (enum fabric_direction)direction, false);
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

static void read_without_guests(struct world *w)
{
        for (int i = 1; i <= 20; i++) {
                w->active.progress = 0;
                (void)world_start(w, FABRIC_READ, false);
                end_wait(&w->active, i);
                assert_int_equal(w->active.outcome.error, 0);
                assert_false(pthread_equal(w->active.thread, pthread_self()));
        }
}

static void a_transfer_that_nobody_awaits_does_not(void **state)
{
        struct world *w = world_new_with(MESSAGES, SMALL, (struct world_knobs){ .spin_us = PATIENT_US });

        world_offer(w, FABRIC_READ);
        read_without_guests(w);
        world_free(w);
}

static void a_long_transfer_leaves_the_caller_alone(void **state)
{
        struct world *w = world_new_with(MAPPED, 8 << 20, (struct world_knobs){ .spin_us = PATIENT_US });

        w->awaited = true;
        world_offer(w, FABRIC_READ);
        read_without_guests(w);
        world_free(w);
}

/* With the least that --spin-us takes there are no guests, and everything works. */
static void without_looking_there_are_no_guests(void **state)
{
        for (int way = 0; way < WAYS; way++) {
                struct world *w = world_new_with((enum carrier)way, SMALL, (struct world_knobs){ .spin_us = 1 });

                w->awaited = true;
                world_offer(w, FABRIC_READ);
                read_without_guests(w);
                world_free(w);
        }
}

/* A peer that does not answer: the caller goes on, and the fabric's own thread ends what it left. */
static void what_a_guest_leaves_goes_on_without_it(void **state)
{
        for (int way = 0; way < MAPPED; way++) {
                struct world *w = world_new((enum carrier)way, SMALL);
                uint64_t id;

                w->awaited = true;
                world_offer(w, FABRIC_READ);
                pthread_mutex_lock(&w->gate);
                id = world_start(w, FABRIC_READ, false);
                assert_int_equal(w->active.ended, 0);
                fabric_transfer_cancel(w->fabric[0], id, FERRY_E_CANCELLED);
                end_wait(&w->active, 1);
                assert_int_equal(w->active.outcome.error, FERRY_E_CANCELLED);
                assert_false(pthread_equal(w->active.thread, pthread_self()));
                pthread_mutex_unlock(&w->gate);
                world_free(w);
        }
}

struct greeting {
        struct end end;
        struct fabric_connection connection;
};

static void greeted(void *context, const struct fabric_connection *connection)
{
        struct greeting *greeting = context;

        greeting->connection = *connection;
        end_note(&greeting->end, NULL);
}

static bool is_asleep(struct fabric *fabric)
{
        bool asleep;

        turn_take(fabric);
        asleep = fabric->sleep_until_us > 0;
        turn_leave(fabric);
        return asleep;
}

/* The other fabric's message finds a thread that slept through a guest's visit. */
static void a_thread_that_sleeps_through_a_visit_still_hears_messages(void **state)
{
        for (int way = 0; way < MAPPED; way++) {
                struct world *w = world_new_with((enum carrier)way, SMALL, (struct world_knobs){ .spin_us = SOON_US });
                struct greeting greeting = { 0 };
                struct fabric_connect connect = { .peer_epoch = w->epoch[0],
                                                  .peer_data = fabric_get_facts(w->fabric[0])->data_address,
                                                  .context = &greeting,
                                                  .connected = greeted };

                end_init(&greeting.end);
                w->awaited = true;
                world_offer(w, FABRIC_READ);
                for (int i = 1; i <= 5; i++) {
                        while (!is_asleep(w->fabric[0]))
                                (void)sched_yield();
                        w->active.progress = 0;
                        (void)world_start(w, FABRIC_READ, false);
                        end_wait(&w->active, i);
                        assert_int_equal(fabric_connect(w->fabric[1], &connect), 0);
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
                uint64_t id = world_start(w, FABRIC_READ, false);

                if (i % 7 == 0) /* most have ended by then */
                        fabric_transfer_cancel(w->fabric[0], id, FERRY_E_CANCELLED);
        }
        return NULL;
}

static void guests_take_turns(void **state)
{
        for (int way = 0; way < WAYS; way++) {
                struct world *w = world_new((enum carrier)way, way == MAPPED ? 64 << 10 : SMALL);
                pthread_t threads[THREADS];

                w->awaited = w->many = true;
                world_offer(w, FABRIC_READ);
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
                struct fabric_transfer transfer = world_transfer(w, FABRIC_READ, false);

                r = fabric_transfer_start(w->fabric[0], &transfer);
                if (r == 0)
                        atomic_fetch_add(&accepted, 1);
        } while (r == 0);
        assert_int_equal(r, -ESHUTDOWN);
        return NULL;
}

/* Every transfer that was taken ends, whoever came while the fabric stopped. */
static void a_fabric_stops_with_guests_at_the_door(void **state)
{
        for (int way = 0; way < WAYS; way++) {
                struct world *w = world_new((enum carrier)way, SMALL);
                pthread_t threads[THREADS];

                accepted = 0;
                w->awaited = w->many = true;
                world_offer(w, FABRIC_READ);
                for (int i = 0; i < THREADS; i++)
                        assert_int_equal(pthread_create(&threads[i], NULL, start_until_it_stops, w), 0);
                while (accepted < EACH)
                        (void)sched_yield();
                fabric_stop(w->fabric[0]);
                for (int i = 0; i < THREADS; i++)
                        assert_int_equal(pthread_join(threads[i], NULL), 0);
                end_wait(&w->active, accepted);
                world_free(w);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_short_transfer_that_is_awaited_runs_on_the_callers_thread),
                cmocka_unit_test(a_transfer_that_nobody_awaits_does_not),
                cmocka_unit_test(a_long_transfer_leaves_the_caller_alone),
                cmocka_unit_test(without_looking_there_are_no_guests),
                cmocka_unit_test(what_a_guest_leaves_goes_on_without_it),
                cmocka_unit_test(a_thread_that_sleeps_through_a_visit_still_hears_messages),
                cmocka_unit_test(guests_take_turns),
                cmocka_unit_test(a_fabric_stops_with_guests_at_the_door),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
