/* SPDX-License-Identifier: Apache-2.0 */
#include "operation_fixture.h"

static void with_limits(struct fixture *f, size_t operations, size_t terminal, size_t gone, uint64_t retention_ms)
{
        struct operation_limits limits = default_limits;

        limits.operations_max = operations;
        limits.terminal_max = terminal;
        limits.gone_max = gone;
        limits.retention_ms = retention_ms;
        fixture_limits(f, &limits);
}

static uint64_t make_ended(struct fixture *f)
{
        struct operation *operation = make(f, FERRY_READ);
        uint64_t id = look(f, operation).id;

        operation_cancel(f->store, operation);
        return id;
}

static enum operation_lookup find(struct fixture *f, uint64_t id)
{
        struct operation *operation = NULL;
        enum operation_lookup lookup = operation_find(f->store, id, &operation);

        assert_int_equal(lookup == OPERATION_FOUND, operation != NULL);
        (void)operation_unref(operation);
        return lookup;
}

WITH_STORE(the_oldest_ended_goes_when_there_are_too_many)
{
        uint64_t ids[5];

        with_limits(f, 100, 3, 100, 600000);
        for (size_t i = 0; i < 5; i++)
                ids[i] = make_ended(f);
        for (size_t i = 0; i < 5; i++)
                assert_int_equal(find(f, ids[i]), i < 2 ? OPERATION_GONE : OPERATION_FOUND);
}

WITH_STORE(a_deleted_operation_counts_until_it_is_quiet)
{
        struct operation *operation, *next = NULL;

        with_limits(f, 1, 1, 100, 600000);
        operation = make(f, FERRY_READ);
        begin(f, operation);
        operation_delete(f->store, operation);
        test_release(operation);
        assert_int_equal(make_spec(f, &(struct operation_spec){ .kind = FERRY_READ }, &next), FERRY_E_LIMIT_REACHED);
        end_transfer(f, FERRY_E_CANCELLED);
        assert_int_equal(make_spec(f, &(struct operation_spec){ .kind = FERRY_READ }, &next), 0);
}

/* A row of so many pieces, a byte each. */
static int make_row(struct fixture *f, uint64_t pieces, struct operation **ret_operation)
{
        const struct operation_slice row = { .region = f->region, .size = 1, .count = pieces, .stride = 2 };
        const struct operation_spec spec = { .kind = FERRY_READ, .slices = &row, .n_slices = 1 };

        return make_spec(f, &spec, ret_operation);
}

WITH_STORE(pieces_are_counted_and_live_ones_do_not_make_room)
{
        struct operation_limits limits = default_limits;
        struct operation *live[2], *none = NULL;
        uint64_t ended;

        limits.pieces_max = 100;
        fixture_limits(f, &limits);
        assert_int_equal(make_row(f, 40, &live[0]), 0);
        operation_cancel(f->store, live[0]);
        ended = look(f, live[0]).id;
        test_release(live[0]);
        assert_int_equal(make_row(f, 60, &live[0]), 0);
        assert_int_equal(find(f, ended), OPERATION_FOUND);
        assert_int_equal(make_row(f, 40, &live[1]), 0);
        assert_int_equal(find(f, ended), OPERATION_GONE);
        assert_int_equal(make_row(f, 1, &none), FERRY_E_LIMIT_REACHED);
        assert_non_null(strstr(f->detail, "pieces_max is 100"));
        assert_int_equal(series_value(f, "\nferry_operation_pieces "), 100);
        operation_delete(f->store, live[1]);
        assert_int_equal(series_value(f, "\nferry_operation_pieces "), 60);
        assert_int_equal(make_row(f, 41, &none), FERRY_E_LIMIT_REACHED);
        operation_delete(f->store, live[0]);
        for (size_t i = 0; i < 2; i++)
                test_release(live[i]);
        assert_int_equal(series_value(f, "\nferry_operation_pieces "), 0);
        live[0] = make(f, FERRY_READ);
        begin(f, live[0]);
        operation_delete(f->store, live[0]); /* in flight, it still has them */
        assert_int_equal(series_value(f, "\nferry_operation_pieces "), 1);
        end_transfer(f, FERRY_E_CANCELLED);
        assert_int_equal(series_value(f, "\nferry_operation_pieces "), 0);
}

WITH_STORE(gone_ids_are_remembered_in_a_bounded_number)
{
        uint64_t ids[500];

        with_limits(f, 100, 0, 40, 600000);
        for (size_t i = 0; i < 500; i++)
                ids[i] = make_ended(f);
        for (size_t i = 0; i < 500; i++)
                assert_int_equal(find(f, ids[i]), i < 460 ? OPERATION_UNKNOWN : OPERATION_GONE);
        assert_int_equal(find(f, 0), OPERATION_UNKNOWN);
}

WITH_STORE(nothing_need_be_remembered)
{
        with_limits(f, 100, 0, 0, 600000);
        assert_int_equal(find(f, make_ended(f)), OPERATION_UNKNOWN);
}

WITH_STORE(a_reference_keeps_what_the_store_let_go)
{
        struct operation *operation;

        with_limits(f, 100, 0, 10, 600000);
        operation = make(f, FERRY_READ);
        operation_cancel(f->store, operation);
        assert_int_equal(find(f, look(f, operation).id), OPERATION_GONE);
        assert_int_equal(look(f, operation).status, FERRY_CANCELLED);
        operation_delete(f->store, operation);
}

WITH_STORE(metrics_follow_every_operation)
{
        struct operation *operation = make(f, FERRY_READ);

#define NOW(status) series_value(f, "ferry_operations{kind=\"read\",status=\"" status "\"} ")
#define ENDED(status) series_value(f, "ferry_operations_ended_total{kind=\"read\",status=\"" status "\"} ")
        assert_int_equal(NOW("INITIALIZED"), 1);
        begin(f, operation);
        f->data_plane.transfer.started(f->data_plane.transfer.context);
        assert_int_equal(NOW("INITIALIZED"), 0);
        assert_int_equal(NOW("IN_PROGRESS"), 1);
        end_transfer(f, 0);
        assert_int_equal(NOW("IN_PROGRESS"), 0);
        assert_int_equal(NOW("COMPLETE"), 1);
        assert_int_equal(ENDED("COMPLETE"), 1);
        assert_int_equal(series_value(f, "ferry_transferred_bytes_total{direction=\"received\",transport=\"shm\"} "),
                         4096);
        assert_int_equal(series_value(f, "ferry_operation_duration_seconds_count{kind=\"read\"} "), 1);
        operation_delete(f->store, operation);
        assert_int_equal(NOW("COMPLETE"), 0);
        test_release(operation);

        operation = make(f, FERRY_READ);
        begin(f, operation);
        operation_delete(f->store, operation);
        assert_int_equal(NOW("INITIALIZED"), 1);
        end_transfer(f, FERRY_E_CANCELLED);
        assert_int_equal(NOW("INITIALIZED"), 0);
        assert_int_equal(NOW("CANCELLED"), 0);
        assert_int_equal(ENDED("CANCELLED"), 1);
}
