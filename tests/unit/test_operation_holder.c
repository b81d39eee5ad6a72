/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>

#include "moved_clock.h"
#include "operation_fixture.h"

/* What the holder of the metadata does without a transfer: declines the operation, or keeps it. */

enum { ROUNDS = 300, TTL_MS = 60000, RENEW_MAX_MS = 150000 };

static struct operation *make_kept(struct fixture *f, uint64_t renew_max_ms)
{
        struct operation *operation = NULL;

        assert_int_equal(make_spec(f,
                                   &(struct operation_spec){
                                           .kind = FERRY_READABLE, .ttl_ms = TTL_MS, .renew_max_ms = renew_max_ms },
                                   &operation),
                         0);
        return operation;
}

static void assert_declines(struct fixture *f, struct operation *operation, uint64_t transfer, int result,
                            enum ferry_status status)
{
        enum ferry_status now = FERRY_UNINITIALIZED;

        assert_int_equal(operation_decline(f->store, operation, transfer, &now), result);
        if (!result)
                assert_int_equal(now, status);
        assert_int_equal(look(f, operation).status, status);
}

/* ---- declining ---- */

WITH_STORE(a_decline_takes_one_of_several_uses)
{
        struct operation *operation = make_readers(f, 3, 0);
        struct engine_claim granted;
        uint64_t revision = look(f, operation).revision;

        assert_declines(f, operation, 7, 0, FERRY_INITIALIZED);
        assert_int_equal(look(f, operation).revision, revision + 1);
        assert_declines(f, operation, 7, 0, FERRY_INITIALIZED); /* the same one */
        assert_int_equal(look(f, operation).revision, revision + 1);
        assert_int_equal(look(f, operation).uses_declined, 1);
        assert_int_equal(claim(f, operation, &granted), 0);
        assert_declines(f, operation, 8, 0, FERRY_IN_PROGRESS);
        assert_declines(f, operation, 9, FERRY_E_ALREADY_CLAIMED, FERRY_IN_PROGRESS); /* the third is under way */
        end_claim(f, &granted, FERRY_E_PEER_LOST);
        assert_int_equal(look(f, operation).status, FERRY_IN_PROGRESS); /* and is left again */
        assert_int_equal(claim(f, operation, &granted), 0);
        end_claim(f, &granted, 0);
        assert_int_equal(look(f, operation).status, FERRY_COMPLETE);
        assert_int_equal(look(f, operation).uses_done, 1);
        assert_int_equal(look(f, operation).uses_declined, 2);
}

WITH_STORE(the_last_decline_ends_it)
{
        struct operation *none = make_readers(f, 2, 0), *some = make_readers(f, 2, 0);
        struct engine_claim granted;

        assert_declines(f, none, 0, 0, FERRY_INITIALIZED);
        assert_declines(f, none, 0, 0, FERRY_CANCELLED); /* no name: another one */
        assert_int_equal(look(f, none).error, FERRY_E_DECLINED);
        assert_int_equal(claim(f, some, &granted), 0);
        end_claim(f, &granted, 0);
        assert_declines(f, some, 7, 0, FERRY_COMPLETE);
        assert_int_equal(operation_store_live(f->store), 0);
        assert_int_equal(region_in_use(f->region), 0);
}

WITH_STORE(a_decline_ends_no_offer_that_stands)
{
        struct operation *operation = make_readers(f, OPERATION_USES_UNLIMITED, 0);
        struct engine_claim granted;

        for (uint64_t i = 1; i <= 3; i++)
                assert_declines(f, operation, i, 0, FERRY_INITIALIZED);
        assert_int_equal(look(f, operation).uses_declined, 3);
        assert_int_equal(claim(f, operation, &granted), 0);
        end_claim(f, &granted, 0);
        assert_int_equal(look(f, operation).uses_done, 1);
        assert_false(ferry_status_is_terminal(look(f, operation).status));
}

WITH_STORE(many_declines_are_told_apart)
{
        enum { USES = 100 };
        struct operation_limits limits = default_limits;
        struct operation *operation;

        limits.uses_max = USES;
        fixture_limits(f, &limits);
        operation = make_readers(f, USES, 0);
        for (uint64_t i = 1; i < USES; i++) {
                assert_declines(f, operation, i, 0, FERRY_INITIALIZED);
                assert_declines(f, operation, i, 0, FERRY_INITIALIZED);
                assert_int_equal(look(f, operation).uses_declined, i);
        }
        assert_declines(f, operation, USES, 0, FERRY_CANCELLED);
}

/* ---- keeping ---- */

static int keep(struct fixture *f, struct operation *operation, uint64_t ttl_ms, uint64_t *ret_expires)
{
        enum ferry_status status;

        return operation_keep(f->store, operation, ttl_ms, &status, ret_expires);
}

/* Milliseconds from its creation to the time at which it expires. */
static uint64_t life_ms(struct fixture *f, struct operation *operation)
{
        struct operation_view view = look(f, operation);

        return view.expires_unix_ms - view.created_unix_ms;
}

WITH_STORE(only_offers_are_declined_or_kept)
{
        struct operation *operation = make(f, FERRY_READ);
        uint64_t expires;

        assert_int_equal(operation_decline(f->store, operation, 0, &(enum ferry_status){ 0 }), FERRY_E_NOT_PASSIVE);
        assert_int_equal(keep(f, operation, 0, &expires), FERRY_E_NOT_PASSIVE);
}

WITH_STORE(a_holder_moves_the_end_within_its_leave)
{
        struct operation *operation = make_kept(f, RENEW_MAX_MS);
        struct ferry_metadata *metadata = metadata_of(f, operation);
        uint64_t expires = 0, created = look(f, operation).created_unix_ms;

        /* They are never fetched again. */
        assert_int_equal(metadata->expires_ms, created + RENEW_MAX_MS);
        (void)ferry_metadata_free(metadata);
        assert_in_range(life_ms(f, operation), TTL_MS, TTL_MS + 1000);
        assert_int_equal(keep(f, operation, 1, &expires), 0); /* never back */
        assert_in_range(expires - created, TTL_MS, TTL_MS + 1000);
        assert_int_equal(keep(f, operation, 2 * TTL_MS, &expires), 0);
        assert_in_range(expires - created, 2 * TTL_MS, 2 * TTL_MS + 1000);
        assert_int_equal(expires, look(f, operation).expires_unix_ms);
        assert_int_equal(look(f, operation).ttl_ms, TTL_MS);
        assert_int_equal(keep(f, operation, UINT64_MAX, &expires), 0);
        assert_in_range(expires - created, RENEW_MAX_MS - 1000, RENEW_MAX_MS + 1);
        assert_int_equal(keep(f, operation, 0, &expires), 0);
        assert_int_equal(expires, look(f, operation).expires_unix_ms);
}

/* The loop sleeps until the first of its timers was due by the clock as it was: one that is before all wakes it. */
static void move_clock(struct fixture *f, uint64_t ms)
{
        atomic_fetch_add(&later_us, ms * 1000);
        await_loop(f, 1);
        await_loop(f, clock_now_us());
}

WITH_STORE(a_kept_one_lives_on_and_ends_at_the_latest_time)
{
        struct operation *operation = make_kept(f, RENEW_MAX_MS), *other = make_kept(f, RENEW_MAX_MS);
        uint64_t expires;

        move_clock(f, TTL_MS - 10000);
        assert_int_equal(keep(f, operation, 0, &expires), 0);
        move_clock(f, 20000);
        assert_int_equal(look(f, other).error, FERRY_E_EXPIRED);
        assert_int_equal(keep(f, other, 0, &expires), FERRY_E_GONE);
        assert_int_equal(look(f, operation).status, FERRY_INITIALIZED);
        move_clock(f, 35000);
        assert_int_equal(keep(f, operation, 0, &expires), 0);
        move_clock(f, 40000); /* of 145 s since its creation, 40 since it was kept */
        assert_int_equal(keep(f, operation, 0, &expires), 0);
        assert_int_equal(look(f, operation).status, FERRY_INITIALIZED);
        move_clock(f, 10000);
        assert_int_equal(look(f, operation).status, FERRY_CANCELLED);
        assert_int_equal(look(f, operation).error, FERRY_E_EXPIRED);
}

/* ---- races ---- */

struct race {
        struct fixture *f;
        struct operation *operation;
        struct engine_claim_request request;
        pthread_barrier_t barrier;
        int declined, claimed;
        _Atomic int kept; /* of the latest */
};

static void *race_decline(void *argument)
{
        struct race *race = argument;
        enum ferry_status status;

        pthread_barrier_wait(&race->barrier);
        race->declined = operation_decline(race->f->store, race->operation, 7, &status);
        return NULL;
}

static void *race_claim(void *argument)
{
        struct race *race = argument;
        struct engine_claim granted;

        pthread_barrier_wait(&race->barrier);
        race->claimed = operation_store_claim(race->f->store, &race->request, &granted);
        if (!race->claimed)
                end_claim(race->f, &granted, 0);
        return NULL;
}

static void *race_keep(void *argument)
{
        struct race *race = argument;
        uint64_t expires;

        pthread_barrier_wait(&race->barrier);
        race->kept = keep(race->f, race->operation, 1, &expires);
        return NULL;
}

static void race_run(struct race *race, void *(*const racers[2])(void *))
{
        pthread_t threads[2];

        pthread_barrier_init(&race->barrier, NULL, 2);
        for (unsigned i = 0; i < 2; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, racers[i], race), 0);
        for (unsigned i = 0; i < 2; i++)
                pthread_join(threads[i], NULL);
        pthread_barrier_destroy(&race->barrier);
}

/* Who wins is told by both: a claim that came first also ends first, or the decline is refused. */
WITH_STORE(a_decline_and_a_claim_agree)
{
        unsigned declines = 0;

        for (unsigned i = 0; i < ROUNDS; i++) {
                struct race race = { .f = f, .operation = make(f, FERRY_READABLE) };
                struct operation_view v;

                race.request = request_for(f, race.operation);
                race_run(&race, (void *(*const[2])(void *)){ race_decline, race_claim });
                await(f, race.operation, 0);
                v = look(f, race.operation);
                if (race.claimed == 0) {
                        assert_int_equal(v.status, FERRY_COMPLETE);
                        assert_true(race.declined == 0 || race.declined == FERRY_E_ALREADY_CLAIMED);
                } else {
                        declines++;
                        assert_int_equal(race.claimed, FERRY_E_DECLINED);
                        assert_int_equal(race.declined, 0);
                        assert_int_equal(v.status, FERRY_CANCELLED);
                        assert_int_equal(v.error, FERRY_E_DECLINED);
                }
                test_release(race.operation);
        }
        print_message("%u of %u were declined\n", declines, ROUNDS);
        assert_int_equal(operation_store_live(f->store), 0);
        assert_int_equal(region_in_use(f->region), 0);
}

WITH_STORE(a_renewal_and_the_expiry_agree)
{
        for (unsigned i = 0; i < ROUNDS / 3; i++) {
                struct race race = { .f = f };
                struct operation_view v;

                assert_int_equal(make_spec(f,
                                           &(struct operation_spec){
                                                   .kind = FERRY_READABLE, .ttl_ms = 1 + i % 2, .renew_max_ms = 5 },
                                           &race.operation),
                                 0);
                race_run(&race, (void *(*const[2])(void *)){ race_keep, race_keep });
                await(f, race.operation, 0);
                v = look(f, race.operation);
                assert_true(race.kept == 0 || race.kept == FERRY_E_GONE);
                assert_int_equal(v.error, FERRY_E_EXPIRED);
                test_release(race.operation);
        }
        assert_int_equal(operation_store_live(f->store), 0);
}
