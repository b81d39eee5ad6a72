/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>

#include "operation_fixture.h"

/*
 * Threads that meet at every point where two parties may be the first: the user's cancel, the data plane's end, the
 * deadline, the waiter. Whoever wins, the operation ends once and everybody learns of it. Best run with the thread
 * sanitizer.
 */

enum { ROUNDS = 300 };

struct race {
        struct fixture *f;
        struct operation *operation;
        struct engine_claim granted;
        pthread_barrier_t barrier;
        _Atomic unsigned woken;
        struct operation_waiter waiter;
};

static void *race_cancel(void *argument)
{
        struct race *race = argument;

        pthread_barrier_wait(&race->barrier);
        operation_cancel(race->f->store, race->operation);
        return NULL;
}

static void *race_delete(void *argument)
{
        struct race *race = argument;

        pthread_barrier_wait(&race->barrier);
        operation_delete(race->f->store, race->operation);
        return NULL;
}

static void *race_end(void *argument)
{
        struct race *race = argument;

        pthread_barrier_wait(&race->barrier);
        for (uint64_t i = 1; i <= 4; i++)
                race->granted.progress(race->granted.context, i * 1024);
        end_claim(race->f, &race->granted, 0);
        return NULL;
}

static void *race_await(void *argument)
{
        struct race *race = argument;

        pthread_barrier_wait(&race->barrier);
        await(race->f, race->operation, 0);
        return NULL;
}

static void *race_look(void *argument)
{
        struct race *race = argument;
        uint64_t revision = 0, bytes = 0;
        struct operation_view v;

        pthread_barrier_wait(&race->barrier);
        do {
                v = look(race->f, race->operation);
                if (v.revision < revision || v.bytes_done < bytes || v.bytes_done > v.bytes_total)
                        abort();
                revision = v.revision;
                bytes = v.bytes_done;
        } while (!v.done && !v.deleted);
        return NULL;
}

static void count(struct operation_waiter *waiter)
{
        FERRY_CONTAINER_OF(waiter, struct race, waiter)->woken++;
}

/* Waits and gives up at once: exactly one of unwait and wake must win. */
static void *race_give_up(void *argument)
{
        struct race *race = argument;

        pthread_barrier_wait(&race->barrier);
        race->waiter.wake = count;
        if (operation_wait(race->f->store, race->operation, 0, &race->waiter) &&
            operation_unwait(race->f->store, &race->waiter))
                race->woken++;
        else
                race->woken += 100;
        return NULL;
}

typedef void *(*racer)(void *);

static void race_run(struct race *race, const racer *racers, unsigned n)
{
        pthread_t threads[8];

        pthread_barrier_init(&race->barrier, NULL, n);
        for (unsigned i = 0; i < n; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, racers[i], race), 0);
        for (unsigned i = 0; i < n; i++)
                pthread_join(threads[i], NULL);
        pthread_barrier_destroy(&race->barrier);
}

WITH_STORE(cancel_against_end)
{
        static const racer racers[] = { race_cancel, race_end, race_await, race_look };

        for (unsigned i = 0; i < ROUNDS; i++) {
                struct race race = { .f = f, .operation = make(f, FERRY_READABLE) };

                assert_int_equal(claim(f, race.operation, &race.granted), 0);
                race_run(&race, racers, FERRY_ARRAY_SIZE(racers));
                assert_int_equal(look(f, race.operation).status, FERRY_COMPLETE);
                test_release(race.operation);
        }
        assert_int_equal(operation_store_live(f->store), 0);
        assert_int_equal(region_in_use(f->region), 0);
}

WITH_STORE(delete_against_end)
{
        static const racer racers[] = { race_delete, race_end, race_await, race_delete };

        for (unsigned i = 0; i < ROUNDS; i++) {
                struct race race = { .f = f, .operation = make(f, FERRY_READABLE) };

                assert_int_equal(claim(f, race.operation, &race.granted), 0);
                race_run(&race, racers, FERRY_ARRAY_SIZE(racers));
                assert_true(look(f, race.operation).done);
                test_release(race.operation);
        }
        assert_int_equal(operation_store_live(f->store), 0);
        assert_int_equal(region_in_use(f->region), 0);
}

WITH_STORE(wait_against_cancel)
{
        static const racer racers[] = { race_cancel, race_give_up };

        for (unsigned i = 0; i < ROUNDS; i++) {
                struct race race = { .f = f, .operation = make(f, FERRY_READ) };

                race_run(&race, racers, FERRY_ARRAY_SIZE(racers));
                /* 1: given up before the wake; 100: it held already; 101: woken. */
                assert_true(race.woken == 1 || race.woken == 100 || race.woken == 101);
                test_release(race.operation);
        }
}

static void *race_claim(void *argument)
{
        struct race *race = argument;
        struct ferry_metadata *metadata = NULL;
        struct engine_claim_request request = { .total = 4096, .whole = 4096, .direction = ENGINE_READ };

        if (operation_metadata(race->f->store, race->operation, &metadata) == 0) {
                request.operation = metadata->operation;
                memcpy(request.key, metadata->key, sizeof(request.key));
        }
        (void)ferry_metadata_free(metadata);
        pthread_barrier_wait(&race->barrier);
        if (operation_store_claim(race->f->store, &request, &race->granted) == 0)
                end_claim(race->f, &race->granted, 0);
        return NULL;
}

WITH_STORE(expiry_against_claim)
{
        static const racer racers[] = { race_claim, race_await };

        for (unsigned i = 0; i < ROUNDS / 3; i++) {
                struct race race = { .f = f, .operation = make_readers(f, 0, 1 + i % 2) };
                struct operation_view v;

                race_run(&race, racers, FERRY_ARRAY_SIZE(racers));
                v = look(f, race.operation);
                assert_true(v.status == FERRY_COMPLETE || (v.status == FERRY_CANCELLED && v.error == FERRY_E_EXPIRED));
                test_release(race.operation);
        }
        assert_int_equal(operation_store_live(f->store), 0);
}

static void *race_begin(void *argument)
{
        struct race *race = argument;

        pthread_barrier_wait(&race->barrier);
        begin(race->f, race->operation);
        return NULL;
}

WITH_STORE(timeout_against_begin_and_cancel)
{
        static const racer racers[] = { race_begin, race_cancel };

        for (unsigned i = 0; i < ROUNDS / 3; i++) {
                struct race race = { .f = f };
                struct operation_spec spec = { .kind = FERRY_READ, .timeout_ms = 1 };
                unsigned n_started = f->data_plane.n_started;

                f->data_plane.n_cancelled = 0; /* before the deadline can come */
                assert_int_equal(make_spec(f, &spec, &race.operation), 0);
                race_run(&race, racers, FERRY_ARRAY_SIZE(racers));
                if (f->data_plane.n_started > n_started) {
                        await_cancels(f, 1);
                        assert_int_equal(f->data_plane.n_cancelled, 1);
                        end_transfer(f, f->data_plane.cancel_reason);
                }
                await(f, race.operation, 0);
                await_loop(f, clock_now_us()); /* a deadline may tell the data plane after the end */
                assert_int_not_equal(look(f, race.operation).error, 0);
                test_release(race.operation);
        }
        assert_int_equal(operation_store_live(f->store), 0);
}

static void *race_churn(void *argument)
{
        struct race *race = argument;

        pthread_barrier_wait(&race->barrier);
        for (unsigned i = 0; i < ROUNDS; i++) {
                const struct operation_slice slice = { race->f->region, 0, 4096 };
                const struct operation_spec spec = { .kind = (enum ferry_kind)(i % 4),
                                                     .slices = &slice,
                                                     .n_slices = 1 };
                struct operation *operation = NULL;
                char detail[OPERATION_DETAIL_SIZE]; /* the fixture's is the main thread's */

                if (operation_create(race->f->store, &spec, &operation, detail))
                        continue;
                if (i % 3)
                        operation_cancel(race->f->store, operation);
                else
                        operation_delete(race->f->store, operation);
                (void)operation_unref(operation);
        }
        return NULL;
}

static void *race_list(void *argument)
{
        struct race *race = argument;
        struct operation *page[7];

        pthread_barrier_wait(&race->barrier);
        for (unsigned i = 0; i < ROUNDS; i++) {
                uint64_t cursor = 0;

                do {
                        size_t n = operation_page(race->f->store, NULL, &cursor, page, 7);

                        while (n)
                                (void)operation_unref(page[--n]);
                } while (cursor);
        }
        return NULL;
}

WITH_STORE(listing_and_eviction_against_creation)
{
        static const racer racers[] = { race_churn, race_churn, race_list };
        struct operation_limits limits = default_limits;
        struct race race = { .f = f };

        limits.retention_ms = 1;
        limits.terminal_max = 20;
        fixture_limits(f, &limits);
        race_run(&race, racers, FERRY_ARRAY_SIZE(racers));
        assert_int_equal(operation_store_live(f->store), 0);
        assert_int_equal(region_in_use(f->region), 0);
}
