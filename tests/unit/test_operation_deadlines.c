/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>

#include "operation_fixture.h"

enum { SHORT_MS = 100, STALL_MS = 400 };

static void with_stall(struct fixture *f, uint64_t stall_ms)
{
        struct operation_limits limits = default_limits;

        limits.stall_ms = stall_ms;
        fixture_limits(f, &limits);
}

static struct operation *make_active(struct fixture *f, uint64_t timeout_ms)
{
        struct operation *operation = NULL;

        assert_int_equal(
                make_spec(f, &(struct operation_spec){ .kind = FERRY_READ, .timeout_ms = timeout_ms }, &operation), 0);
        return operation;
}

WITH_STORE(an_unclaimed_operation_expires)
{
        const uint64_t before = clock_now_us();
        struct operation *operation = make_readers(f, 0, SHORT_MS);
        struct engine_claim_request request = request_for(f, operation);
        struct engine_claim granted;

        await(f, operation, 0);
        assert_true(clock_now_us() >= before + SHORT_MS * 1000);
        assert_int_equal(look(f, operation).status, FERRY_CANCELLED);
        assert_int_equal(look(f, operation).error, FERRY_E_EXPIRED);
        assert_int_equal(operation_store_claim(f->store, &request, &granted), FERRY_E_EXPIRED);
        assert_int_equal(region_in_use(f->region), 0);
}

WITH_STORE(a_claimed_operation_is_not_reaped)
{
        struct operation *operation = make_readers(f, 0, SHORT_MS);
        struct engine_claim granted;

        if (claim(f, operation, &granted) == 0) {
                await_loop(f, clock_now_us() + 2 * SHORT_MS * 1000);
                assert_int_equal(look(f, operation).status, FERRY_IN_PROGRESS);
                assert_int_equal(f->data_plane.n_revoked, 0);
                end_claim(f, &granted, 0);
                assert_int_equal(look(f, operation).status, FERRY_COMPLETE);
        }
}

WITH_STORE(the_time_to_live_applies_again_between_readers)
{
        struct operation *operation;
        struct engine_claim_request request;
        struct engine_claim granted;
        uint64_t ended_us;
        int r;

        do {
                operation = make_readers(f, 2, SHORT_MS);
                request = request_for(f, operation);
                r = operation_store_claim(f->store, &request, &granted);
        } while (r == FERRY_E_EXPIRED); /* this machine was too slow */
        assert_int_equal(r, 0);
        await_loop(f, clock_now_us() + 2 * SHORT_MS * 1000);
        ended_us = clock_now_us();
        end_claim(f, &granted, FERRY_E_PEER_LOST);
        await(f, operation, 0);
        assert_true(clock_now_us() >= ended_us + SHORT_MS * 1000);
        assert_int_equal(look(f, operation).status, FERRY_CANCELLED);
        assert_int_equal(look(f, operation).error, FERRY_E_EXPIRED);
}

WITH_STORE(renewal_moves_the_end_both_ways)
{
        struct operation *operation = make_readers(f, 0, 600000);
        struct ferry_metadata *metadata;
        uint64_t revision = look(f, operation).revision;

        assert_int_equal(operation_renew(f->store, operation, 700000), 0);
        assert_int_equal(look(f, operation).revision, revision + 1);
        assert_int_equal(look(f, operation).ttl_ms, 700000);
        metadata = metadata_of(f, operation);
        assert_true(metadata->expires_ms >= look(f, operation).created_unix_ms + 700000);
        (void)ferry_metadata_free(metadata);
        assert_int_equal(operation_renew(f->store, operation, 0), 0);
        assert_int_equal(look(f, operation).ttl_ms, 600000);
        assert_int_equal(operation_renew(f->store, operation, SHORT_MS), 0);
        await(f, operation, 0);
        assert_int_equal(look(f, operation).error, FERRY_E_EXPIRED);
        assert_int_equal(operation_renew(f->store, operation, SHORT_MS), FERRY_E_GONE);
}

WITH_STORE(renewal_is_checked)
{
        struct operation *active = make(f, FERRY_READ), *passive = make(f, FERRY_WRITABLE);

        assert_int_equal(operation_renew(f->store, active, 0), FERRY_E_NOT_PASSIVE);
        assert_int_equal(operation_renew(f->store, passive, 3600001), FERRY_E_INVALID_PARAMETER);
}

WITH_STORE(a_timeout_before_the_begin_ends_it_at_once)
{
        struct operation *operation = make_active(f, SHORT_MS);

        await(f, operation, 0);
        assert_int_equal(look(f, operation).status, FERRY_ERRORED);
        assert_int_equal(look(f, operation).error, FERRY_E_TIMEOUT);
        begin(f, operation);
        assert_int_equal(f->data_plane.n_started, 0);
}

WITH_STORE(a_timeout_in_flight_cancels_the_transfer)
{
        struct operation *operation = make_active(f, 300);

        begin(f, operation);
        if (f->data_plane.n_started) {
                await_cancels(f, 1);
                assert_int_equal(f->data_plane.cancelled, f->data_plane.transfer.id);
                assert_int_equal(f->data_plane.cancel_reason, FERRY_E_TIMEOUT);
                assert_int_equal(look(f, operation).status, FERRY_INITIALIZED);
                assert_false(look(f, operation).cancel_requested);
                end_transfer(f, FERRY_E_TIMEOUT);
        }
        await(f, operation, 0);
        assert_int_equal(look(f, operation).status, FERRY_ERRORED);
        assert_int_equal(look(f, operation).error, FERRY_E_TIMEOUT);
}

static void count_changes(void *context, struct operation_store *store, struct operation *operation,
                          enum operation_change change)
{
        atomic_uint *n = context;

        atomic_fetch_add(n, change == OPERATION_CHANGED);
}

WITH_STORE(the_end_alone_tells_of_a_stall)
{
        atomic_uint n_changes = 0;
        struct operation *operation;

        f->observer = (struct operation_observer){ count_changes, &n_changes };
        with_stall(f, SHORT_MS);
        operation = make(f, FERRY_READ);
        begin(f, operation);
        await_cancels(f, 1);
        await_loop(f, clock_now_us());
        assert_int_equal(look(f, operation).revision, 1);
        assert_int_equal(n_changes, 0);
        end_transfer(f, FERRY_E_STALLED);
}

WITH_STORE(a_transfer_that_never_starts_is_stalled)
{
        struct operation *operation;

        with_stall(f, SHORT_MS);
        operation = make(f, FERRY_READ);
        begin(f, operation);
        await_cancels(f, 1);
        assert_int_equal(f->data_plane.cancel_reason, FERRY_E_STALLED);
        end_transfer(f, FERRY_E_STALLED);
        assert_int_equal(look(f, operation).status, FERRY_ERRORED);
        assert_int_equal(look(f, operation).error, FERRY_E_STALLED);
}

WITH_STORE(a_claim_that_does_not_move_is_revoked)
{
        struct operation *operation;
        struct engine_claim granted;

        with_stall(f, SHORT_MS);
        operation = make(f, FERRY_WRITABLE);
        assert_int_equal(claim(f, operation, &granted), 0);
        await_revokes(f, 1);
        assert_int_equal(f->data_plane.revoked, look(f, operation).id);
        assert_int_equal(f->data_plane.revoke_reason, FERRY_E_STALLED);
        assert_int_equal(f->data_plane.revoke_wire, FERRY_E_STALLED);
        end_claim(f, &granted, FERRY_E_STALLED);
        assert_int_equal(look(f, operation).status, FERRY_ERRORED);
}

/* Tries again when this machine was too slow to move a byte within the limit. */
WITH_STORE(a_byte_that_moves_puts_the_stall_off)
{
        struct operation *operation;
        struct engine_claim granted;
        uint64_t moved;
        bool in_time;

        with_stall(f, STALL_MS);
        do {
                operation = make(f, FERRY_READABLE);
                f->data_plane.n_revoked = 0;
                assert_int_equal(claim(f, operation, &granted), 0);
                await_loop(f, clock_now_us() + 40000);
                moved = clock_now_us();
                granted.progress(granted.context, 1);
                pthread_mutex_lock(&f->data_plane.lock);
                in_time = !f->data_plane.n_revoked;
                pthread_mutex_unlock(&f->data_plane.lock);
                await_revokes(f, 1);
                if (in_time)
                        assert_true(clock_now_us() >= moved + STALL_MS * 1000);
                end_claim(f, &granted, FERRY_E_STALLED);
        } while (!in_time);
}

WITH_STORE(with_many_readers_a_stall_costs_the_attempts_only)
{
        struct operation *operation;
        struct engine_claim granted;

        with_stall(f, SHORT_MS);
        operation = make_readers(f, 2, 0);
        assert_int_equal(claim(f, operation, &granted), 0);
        await_revokes(f, 2); /* again, as long as the attempt is there */
        assert_int_equal(f->data_plane.revoke_reason, FERRY_E_STALLED);
        end_claim(f, &granted, FERRY_E_STALLED);
        assert_int_equal(look(f, operation).status, FERRY_IN_PROGRESS);
        assert_int_equal(claim(f, operation, &granted), 0);
        end_claim(f, &granted, 0);
        assert_int_equal(claim(f, operation, &granted), 0);
        end_claim(f, &granted, 0);
        assert_int_equal(look(f, operation).status, FERRY_COMPLETE);
}

WITH_STORE(a_cancel_after_a_stall_is_not_told_twice)
{
        struct operation *operation;

        with_stall(f, SHORT_MS);
        operation = make(f, FERRY_READ);
        begin(f, operation);
        await_cancels(f, 1);
        operation_cancel(f->store, operation);
        await_loop(f, clock_now_us() + 2 * SHORT_MS * 1000);
        assert_int_equal(f->data_plane.n_cancelled, 1);
        assert_true(look(f, operation).cancel_requested);
        end_transfer(f, FERRY_E_STALLED);
        assert_int_equal(look(f, operation).status, FERRY_CANCELLED);
        assert_int_equal(look(f, operation).error, FERRY_E_STALLED);
}
