/* SPDX-License-Identifier: Apache-2.0 */
#include "operation_fixture.h"

static void assert_view(struct fixture *f, struct operation *operation, enum ferry_status status, int error)
{
        struct operation_view v = look(f, operation);

        assert_int_equal(v.status, status);
        assert_int_equal(v.error, error);
        assert_int_equal(v.done, ferry_status_is_terminal((int)status));
}

WITH_STORE(an_active_operation_runs_when_started_and_completes)
{
        struct operation *operation = make(f, FERRY_WRITE);
        const struct engine_transfer *transfer = &f->data_plane.transfer;

        begin(f, operation);
        assert_int_equal(f->data_plane.n_started, 1);
        assert_int_equal(transfer->direction, ENGINE_WRITE);
        assert_int_equal(transfer->peer.epoch, EPOCH + 1);
        assert_int_equal(transfer->remote_operation, 0x2222);
        assert_int_equal(transfer->key[31], 7);
        assert_int_equal(transfer->total, 4096);
        assert_int_equal(transfer->n_segments, 1);
        assert_ptr_equal(transfer->segments[0].address, (uint8_t *)f->region->address + 512);
        assert_ptr_equal(transfer->segments[0].memory, f->region->registration);
        assert_view(f, operation, FERRY_INITIALIZED, 0);
        transfer->started(transfer->context);
        assert_view(f, operation, FERRY_IN_PROGRESS, 0);
        end_transfer(f, 0);
        assert_view(f, operation, FERRY_COMPLETE, 0);
        assert_int_equal(look(f, operation).revision, 3);
}

WITH_STORE(an_end_without_a_start_completes_through_in_progress)
{
        struct operation *operation = make(f, FERRY_READ);

        begin(f, operation);
        end_transfer(f, 0);
        assert_view(f, operation, FERRY_COMPLETE, 0);
        assert_int_equal(look(f, operation).revision, 3);
}

WITH_STORE(an_end_before_the_start_returns_is_kept)
{
        struct operation *operation = make(f, FERRY_READ);
        struct engine_outcome outcome = { .error = FERRY_E_PEER_LOST, .detail = "it died" };

        f->data_plane.end_in_start = &outcome;
        begin(f, operation);
        assert_view(f, operation, FERRY_ERRORED, FERRY_E_PEER_LOST);
        assert_string_equal(look(f, operation).detail, "it died");
}

WITH_STORE(a_start_that_is_refused_is_transfer_failed)
{
        struct operation *operation = make(f, FERRY_READ);

        f->data_plane.start_result = -ESHUTDOWN;
        begin(f, operation);
        assert_view(f, operation, FERRY_ERRORED, FERRY_E_TRANSFER_FAILED);
        assert_int_equal(region_in_use(f->region), 0);
}

WITH_STORE(every_outcome_has_its_status)
{
        static const struct {
                int error;
                enum ferry_status status;
        } rows[] = {
                { 0, FERRY_COMPLETE },
                { FERRY_E_CANCELLED, FERRY_CANCELLED },
                { FERRY_E_CANCELLED_BY_PEER, FERRY_CANCELLED },
                { FERRY_E_EXPIRED, FERRY_CANCELLED },
                { FERRY_E_PEER_LOST, FERRY_ERRORED },
                { FERRY_E_PEER_UNREACHABLE, FERRY_ERRORED },
                { FERRY_E_STALE_METADATA, FERRY_ERRORED },
                { FERRY_E_CHECKSUM_MISMATCH, FERRY_ERRORED },
                { FERRY_E_STALLED, FERRY_ERRORED },
                { FERRY_E_TIMEOUT, FERRY_ERRORED },
                { FERRY_E_TRANSFER_FAILED, FERRY_ERRORED },
        };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(rows); i++) {
                struct operation *active = make(f, FERRY_READ), *passive = make(f, FERRY_WRITABLE);
                struct engine_claim granted;

                begin(f, active);
                f->data_plane.transfer.started(f->data_plane.transfer.context);
                end_transfer(f, rows[i].error);
                assert_view(f, active, rows[i].status, rows[i].error);
                assert_int_equal(claim(f, passive, &granted), 0);
                end_claim(f, &granted, rows[i].error);
                assert_view(f, passive, rows[i].status, rows[i].error);
                assert_int_equal(look(f, passive).detail[0] != '\0', rows[i].error != 0);
                test_release(active);
                test_release(passive);
        }
}

WITH_STORE(nothing_leaves_a_terminal_status)
{
        struct operation *operation = make(f, FERRY_READ);
        struct operation_view before, now;

        begin(f, operation);
        end_transfer(f, FERRY_E_PEER_LOST);
        before = look(f, operation);
        operation_cancel(f->store, operation);
        operation_fail(f->store, operation, FERRY_E_PEER_UNREACHABLE, "late");
        now = look(f, operation);
        assert_int_equal(now.status, before.status);
        assert_int_equal(now.error, before.error);
        assert_int_equal(now.revision, before.revision);
        assert_false(now.cancel_requested);
        assert_int_equal(f->data_plane.n_cancelled, 0);
}

WITH_STORE(a_cancel_in_flight_waits_until_it_is_quiet)
{
        struct operation *operation = make(f, FERRY_READ);

        begin(f, operation);
        f->data_plane.transfer.started(f->data_plane.transfer.context);
        operation_cancel(f->store, operation);
        assert_view(f, operation, FERRY_IN_PROGRESS, 0);
        assert_true(look(f, operation).cancel_requested);
        assert_int_equal(look(f, operation).revision, 3);
        assert_int_equal(f->data_plane.n_cancelled, 1);
        assert_int_equal(f->data_plane.cancelled, f->data_plane.transfer.id);
        assert_int_equal(f->data_plane.cancel_reason, FERRY_E_CANCELLED);
        assert_int_equal(region_in_use(f->region), 1);
        operation_cancel(f->store, operation);
        assert_int_equal(f->data_plane.n_cancelled, 1);
        assert_int_equal(look(f, operation).revision, 3);
        end_transfer(f, FERRY_E_CANCELLED);
        assert_view(f, operation, FERRY_CANCELLED, FERRY_E_CANCELLED);
        assert_false(look(f, operation).cancel_requested);
        assert_int_equal(region_in_use(f->region), 0);
}

WITH_STORE(a_cancel_of_a_claim_revokes_it_and_tells_the_peer)
{
        struct operation *operation = make(f, FERRY_WRITABLE);
        struct engine_claim granted;

        assert_int_equal(claim(f, operation, &granted), 0);
        operation_cancel(f->store, operation);
        assert_int_equal(f->data_plane.n_revoked, 1);
        assert_int_equal(f->data_plane.revoked, look(f, operation).id);
        assert_int_equal(f->data_plane.revoke_reason, FERRY_E_CANCELLED);
        assert_int_equal(f->data_plane.revoke_wire, FERRY_E_CANCELLED_BY_PEER);
        assert_view(f, operation, FERRY_IN_PROGRESS, 0);
        end_claim(f, &granted, FERRY_E_CANCELLED);
        assert_view(f, operation, FERRY_CANCELLED, FERRY_E_CANCELLED);
}

WITH_STORE(a_cancel_that_comes_too_late_completes)
{
        struct operation *operation = make(f, FERRY_READABLE);
        struct engine_claim granted;

        assert_int_equal(claim(f, operation, &granted), 0);
        operation_cancel(f->store, operation);
        end_claim(f, &granted, 0);
        assert_view(f, operation, FERRY_COMPLETE, 0);
}

WITH_STORE(a_fault_during_a_cancel_is_cancelled_with_that_error)
{
        struct operation *operation = make(f, FERRY_READ);

        begin(f, operation);
        operation_cancel(f->store, operation);
        end_transfer(f, FERRY_E_PEER_LOST);
        assert_view(f, operation, FERRY_CANCELLED, FERRY_E_PEER_LOST);
}

/* The data plane ignores ids that it does not know yet: the cancel must come after the start. */
WITH_STORE(a_cancel_while_the_start_is_under_way_follows_it)
{
        struct operation *operation = make(f, FERRY_READ);

        f->data_plane.cancel_in_start = operation;
        begin(f, operation);
        assert_int_equal(f->data_plane.n_started, 1);
        assert_int_equal(f->data_plane.n_cancelled, 1);
        assert_int_equal(f->data_plane.cancelled, f->data_plane.transfer.id);
        assert_int_equal(f->data_plane.cancel_reason, FERRY_E_CANCELLED);
        end_transfer(f, FERRY_E_CANCELLED);
        assert_view(f, operation, FERRY_CANCELLED, FERRY_E_CANCELLED);
}

WITH_STORE(a_cancel_before_the_start_is_told_once_by_what_comes_first)
{
        struct operation *operation = make(f, FERRY_READ);

        f->data_plane.cancel_in_start = operation;
        f->data_plane.started_in_start = true;
        begin(f, operation);
        assert_int_equal(f->data_plane.n_cancelled, 1);
        assert_view(f, operation, FERRY_IN_PROGRESS, 0);
        assert_true(look(f, operation).cancel_requested);
        f->data_plane.transfer.started(f->data_plane.transfer.context); /* by another carrier */
        assert_int_equal(f->data_plane.n_cancelled, 1);
        end_transfer(f, FERRY_E_CANCELLED);
        assert_view(f, operation, FERRY_CANCELLED, FERRY_E_CANCELLED);
}

WITH_STORE(a_begin_after_a_cancel_does_nothing)
{
        struct operation *operation = make(f, FERRY_READ);

        operation_cancel(f->store, operation);
        begin(f, operation);
        assert_int_equal(f->data_plane.n_started, 0);
        assert_view(f, operation, FERRY_CANCELLED, FERRY_E_CANCELLED);
}

WITH_STORE(a_second_begin_is_refused)
{
        struct operation *operation = make(f, FERRY_READ);
        struct ferry_metadata *metadata = peer_metadata(FERRY_READ);
        char detail[OPERATION_DETAIL_SIZE];

        begin(f, operation);
        assert_int_equal(operation_begin(f->store, operation, metadata, false, detail), -EALREADY);
        assert_int_equal(f->data_plane.n_started, 1);
        end_transfer(f, 0);
        (void)ferry_metadata_free(metadata);
}

WITH_STORE(a_failed_fetch_of_metadata_ends_the_operation)
{
        struct operation *operation = make(f, FERRY_READ);

        operation_fail(f->store, operation, FERRY_E_PEER_UNREACHABLE, "no route");
        assert_view(f, operation, FERRY_ERRORED, FERRY_E_PEER_UNREACHABLE);
        assert_string_equal(look(f, operation).detail, "no route");
        test_release(operation);

        operation = make(f, FERRY_READ);
        begin(f, operation);
        operation_fail(f->store, operation, FERRY_E_PEER_UNREACHABLE, "late");
        assert_view(f, operation, FERRY_INITIALIZED, 0);
        end_transfer(f, 0);
}

WITH_STORE(a_row_of_slices_becomes_its_pieces_and_one_where_they_touch)
{
        struct operation_slice slices[] = { { f->region, 2, 3, 4, 8 }, { f->region, 64, 8, 4, 8 } };
        struct operation_spec spec = { .kind = FERRY_READABLE, .slices = slices, .n_slices = 2 };
        struct operation *operation;
        struct engine_claim granted;

        assert_int_equal(make_spec(f, &spec, &operation), 0);
        assert_int_equal(claim(f, operation, &granted), 0);
        assert_int_equal(granted.total, 12 + 32);
        assert_int_equal(granted.n_segments, 5);
        for (size_t i = 0; i < 4; i++) {
                assert_ptr_equal(granted.segments[i].address, (uint8_t *)f->region->address + 2 + 8 * i);
                assert_int_equal(granted.segments[i].size, 3);
        }
        assert_ptr_equal(granted.segments[4].address, (uint8_t *)f->region->address + 64);
        assert_int_equal(granted.segments[4].size, 32);
        end_claim(f, &granted, 0);
        assert_int_equal(look(f, operation).n_descriptors, 2);
        assert_int_equal(look(f, operation).descriptors[0].count, 4);
        assert_int_equal(look(f, operation).descriptors[0].stride, 8);
}

WITH_STORE(a_deleted_region_cannot_be_offered)
{
        struct operation_slice slices[] = { { f->region, 0, 1 }, { f->other, 5, 7 } };
        struct operation_spec spec = { .kind = FERRY_READABLE, .slices = slices, .n_slices = 2 };
        struct operation *operation = NULL;

        assert_int_equal(region_delete(f->regions, f->other->id), 0);
        assert_int_equal(make_spec(f, &spec, &operation), FERRY_E_NOT_FOUND);
        assert_null(operation);
        assert_int_equal(region_in_use(f->region), 0);
}

WITH_STORE(a_wrong_specification_is_refused)
{
        struct operation_slice empty = { f->region, 0, 0 }, beyond = { f->region, 1, REGION_SIZE },
                               overflow = { f->region, UINT64_MAX, 2 }, good = { f->region, 0, REGION_SIZE },
                               overlapping = { f->region, 0, 2, 2, 1 },
                               row_beyond = { f->region, 0, 1, 2, REGION_SIZE },
                               row_overflow = { f->region, 0, 1, UINT64_MAX, 2 },
                               many = { f->region, 0, 1, (uint64_t)FERRY_METADATA_DESCRIPTORS + 1, 1 };
        const struct operation_spec bad[] = {
                { .kind = FERRY_READ, .slices = &empty, .n_slices = 1 },
                { .kind = FERRY_READ, .slices = &beyond, .n_slices = 1 },
                { .kind = FERRY_READ, .slices = &overflow, .n_slices = 1 },
                { .kind = FERRY_READ, .slices = &overlapping, .n_slices = 1 },
                { .kind = FERRY_READ, .slices = &row_beyond, .n_slices = 1 },
                { .kind = FERRY_READ, .slices = &row_overflow, .n_slices = 1 },
                { .kind = FERRY_READ, .slices = &many, .n_slices = 1 },
                { .kind = FERRY_READ, .slices = &good, .n_slices = 0 },
                { .kind = FERRY_READ, .slices = &good, .n_slices = (size_t)FERRY_METADATA_DESCRIPTORS + 1 },
                { .kind = FERRY_KIND_COUNT },
                { .kind = FERRY_READ, .layout = FERRY_LAYOUT_COUNT },
                { .kind = FERRY_READ, .ttl_ms = 1 },
                { .kind = FERRY_READ, .uses = 1 },
                { .kind = FERRY_WRITABLE, .uses = 9 },
                { .kind = FERRY_READABLE, .uses = 9 },
                { .kind = FERRY_READABLE, .timeout_ms = 1 },
                { .kind = FERRY_READABLE, .verify = true },
                { .kind = FERRY_READABLE, .ttl_ms = 3600001 },
                { .kind = FERRY_WRITE, .timeout_ms = 3600001 },
        };
        struct operation *operation = NULL;

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(bad); i++)
                assert_int_equal(make_spec(f, &bad[i], &operation), FERRY_E_INVALID_PARAMETER);
        assert_null(operation);
        assert_int_equal(operation_store_live(f->store), 0);
        assert_int_equal(region_in_use(f->region), 0);
}

WITH_STORE(a_deleted_operation_is_gone_at_once_but_holds_its_memory_until_quiet)
{
        struct operation *operation = make(f, FERRY_READ), *found = NULL;
        uint64_t id = look(f, operation).id;

        assert_int_equal(operation_find(f->store, id, &found), OPERATION_FOUND);
        assert_ptr_equal(found, operation);
        (void)operation_unref(found);
        begin(f, operation);
        operation_delete(f->store, operation);
        operation_delete(f->store, operation);
        assert_int_equal(operation_find(f->store, id, &found), OPERATION_GONE);
        assert_true(look(f, operation).deleted);
        assert_int_equal(f->data_plane.n_cancelled, 1);
        assert_int_equal(region_in_use(f->region), 1);
        assert_int_equal(operation_store_live(f->store), 1);
        test_release(operation);
        end_transfer(f, FERRY_E_CANCELLED);
        assert_int_equal(region_in_use(f->region), 0);
        assert_int_equal(operation_store_live(f->store), 0);
        assert_int_equal(operation_find(f->store, id + 1, &found), OPERATION_UNKNOWN);
}

WITH_STORE(an_operation_may_outlive_its_store)
{
        (void)make(f, FERRY_READABLE); /* the test still has it */
        f->store = operation_store_free(f->store);
        assert_int_equal(region_in_use(f->region), 0);
}

/* ---- draining ---- */

static void count(void *context)
{
        ++*(unsigned *)context;
}

WITH_STORE(a_busy_store_is_drained_once_when_the_last_is_quiet)
{
        struct operation *read = make(f, FERRY_READ), *readable = make(f, FERRY_READABLE), *none = NULL;
        struct engine_claim granted;
        unsigned n = 0;

        assert_int_equal(claim(f, readable, &granted), 0);
        operation_store_on_drained(f->store, count, &n);
        assert_int_equal(make_spec(f, &(struct operation_spec){ .kind = FERRY_READ }, &none), FERRY_E_DRAINING);
        assert_null(none);
        begin(f, read);
        end_claim(f, &granted, 0);
        operation_delete(f->store, read);
        assert_int_equal(n, 0);
        end_transfer(f, FERRY_E_CANCELLED);
        assert_int_equal(n, 1);
        assert_int_equal(operation_store_live(f->store), 0);
}

WITH_STORE(cancelling_all_ends_the_idle_and_tells_the_data_plane_of_the_rest)
{
        struct operation *waiting[200], *moving = NULL, *claimed = NULL, *none;
        struct operation_limits limits = default_limits;
        struct engine_claim granted;

        limits.operations_max = 300;
        limits.terminal_max = 10;
        fixture_limits(f, &limits);
        for (size_t i = 0; i < 200; i++)
                waiting[i] = make(f, (enum ferry_kind)(i % 4));
        moving = make(f, FERRY_READ);
        claimed = make(f, FERRY_READABLE);
        begin(f, moving);
        assert_int_equal(claim(f, claimed, &granted), 0);

        assert_int_equal(operation_store_cancel_all(f->store), 202);
        assert_int_equal(operation_store_live(f->store), 2);
        assert_int_equal(f->data_plane.n_cancelled, 1 + 100); /* with those whose metadata may be under way */
        assert_int_equal(f->data_plane.n_revoked, 1);
        assert_int_equal(make_spec(f, &(struct operation_spec){ .kind = FERRY_READ }, &none), FERRY_E_DRAINING);
        for (size_t i = 0; i < 200; i++) {
                assert_int_equal(look(f, waiting[i]).status, FERRY_CANCELLED);
                test_release(waiting[i]);
        }
        end_transfer(f, FERRY_E_CANCELLED);
        end_claim(f, &granted, FERRY_E_CANCELLED);
        assert_int_equal(operation_store_live(f->store), 0);
}
