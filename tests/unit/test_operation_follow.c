/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/error.h>

#include "operation_fixture.h"

/* A readable that follows a read. */

enum { SIZE = 4096, AT = 512 /* what make() gives a read: [AT, AT + SIZE) of the region */ };

static struct operation *follow_slices(struct fixture *f, struct operation *source,
                                       const struct operation_slice *slices, size_t n)
{
        const struct operation_spec spec = {
                .kind = FERRY_READABLE, .slices = slices, .n_slices = n, .follow = source
        };
        struct operation *operation = NULL;

        assert_int_equal(make_spec(f, &spec, &operation), 0);
        return operation;
}

static struct operation *follow_all(struct fixture *f, struct operation *source)
{
        return follow_slices(f, source, &(struct operation_slice){ f->region, AT, SIZE }, 1);
}

static int refusal(struct fixture *f, struct operation *source, const struct operation_slice *slice)
{
        const struct operation_spec spec = { .kind = FERRY_READABLE, .slices = slice, .n_slices = 1, .follow = source };
        struct operation *operation;

        return operation_create(f->store, &spec, &operation, f->detail);
}

static struct operation *make_read(struct fixture *f)
{
        struct operation *read = make(f, FERRY_READ);

        begin(f, read);
        return read;
}

static void arrive(struct fixture *f, uint64_t offset, uint64_t length)
{
        f->data_plane.transfer.arrived(f->data_plane.transfer.context, offset, length);
}

WITH_STORE(there_is_what_has_arrived)
{
        struct operation *read = make_read(f), *follower;
        struct engine_claim granted;

        arrive(f, 0, 1000); /* before anybody follows */
        follower = follow_all(f, read);
        assert_true(look(f, follower).follow == operation_id(read));
        assert_int_equal(claim(f, follower, &granted), 0);
        assert_int_equal(granted.available(granted.context, 0, SIZE), 1000);
        assert_int_equal(granted.available(granted.context, 400, 200), 200);
        assert_int_equal(granted.available(granted.context, 1000, 1), 0);
        arrive(f, 2000, 1000); /* out of order */
        assert_int_equal(f->data_plane.n_looks, 1);
        assert_int_equal(granted.available(granted.context, 0, SIZE), 1000);
        assert_int_equal(granted.available(granted.context, 2500, 1000), 500);
        arrive(f, 1000, 1000);
        assert_int_equal(granted.available(granted.context, 0, SIZE), 3000);
        end_transfer(f, 0);
        assert_int_equal(f->data_plane.n_looks, 3);
        assert_int_equal(granted.available(granted.context, 0, SIZE), SIZE);
        end_claim(f, &granted, 0);
        assert_int_equal(look(f, follower).status, FERRY_COMPLETE);
}

/* Two descriptors of the read, in the other order than in the region; the follower has pieces of both. */
WITH_STORE(bytes_are_found_wherever_the_read_puts_them)
{
        const uint64_t blocks[] = { 3, 1 };
        const struct operation_slice filled[] = { { f->region, 8192, 1024, 2, 0, blocks }, /* 11264, 9216 */
                                                  { f->other, 0, 2048 } };
        const struct operation_slice served[] = { { f->other, 1024, 1024 }, { f->region, 9216, 1024 } };
        struct operation_spec spec = {
                .kind = FERRY_READ, .layout = FERRY_LAYOUT_STREAM, .slices = filled, .n_slices = 2
        };
        struct operation *read, *follower;
        struct engine_claim granted;

        assert_int_equal(make_spec(f, &spec, &read), 0);
        begin(f, read);
        follower = follow_slices(f, read, served, 2);
        assert_int_equal(claim(f, follower, &granted), 0);
        arrive(f, 3072, 512); /* the start of what the follower has first */
        assert_int_equal(granted.available(granted.context, 0, 2048), 512);
        arrive(f, 1024, 1024); /* its second slice */
        assert_int_equal(granted.available(granted.context, 0, 2048), 512);
        assert_int_equal(granted.available(granted.context, 1024, 1024), 1024);
        arrive(f, 3584, 512);
        assert_int_equal(granted.available(granted.context, 100, 1948), 1948);
        end_transfer(f, 0);
        end_claim(f, &granted, 0);
}

WITH_STORE(only_what_a_read_fills_can_be_followed)
{
        const struct operation_slice inside = { f->region, AT + 1, SIZE - 1 }, before = { f->region, AT - 1, 10 },
                                     beyond = { f->region, AT, SIZE + 1 }, elsewhere = { f->other, AT, SIZE };
        const struct operation_slice twice[] = { { f->region, 0, 2048 }, { f->region, 2047, 2048 } };
        struct operation_spec spec = { .kind = FERRY_READ, .slices = twice, .n_slices = 2 };
        struct operation *read = make_read(f), *writable = make(f, FERRY_WRITABLE), *follower, *overlapping;

        assert_int_equal(refusal(f, read, &before), FERRY_E_OUT_OF_BOUNDS);
        assert_int_equal(refusal(f, read, &beyond), FERRY_E_OUT_OF_BOUNDS);
        assert_int_equal(refusal(f, read, &elsewhere), FERRY_E_OUT_OF_BOUNDS);
        assert_int_equal(refusal(f, writable, &inside), FERRY_E_KIND_MISMATCH);
        assert_int_equal(make_spec(f, &spec, &overlapping), 0);
        assert_int_equal(refusal(f, overlapping, twice), FERRY_E_INVALID_PARAMETER);
        spec = (struct operation_spec){ .kind = FERRY_WRITABLE, .slices = &inside, .n_slices = 1, .follow = read };
        assert_int_equal(operation_create(f->store, &spec, &follower, f->detail), FERRY_E_INVALID_PARAMETER);
        follower = follow_slices(f, read, &inside, 1);
        end_transfer(f, FERRY_E_PEER_LOST);
        assert_int_equal(refusal(f, read, &inside), FERRY_E_GONE);
}

static struct operation *make_read_into(struct fixture *f, const struct operation_slice *slices, size_t n)
{
        const struct operation_spec spec = {
                .kind = FERRY_READ, .layout = FERRY_LAYOUT_STREAM, .slices = slices, .n_slices = n
        };
        struct operation *read = NULL;

        assert_int_equal(make_spec(f, &spec, &read), 0);
        return read;
}

/* The regions' ids are random, so each one is tried as the first. */
WITH_STORE(the_same_place_of_another_region_is_another_place)
{
        for (int i = 0; i < 2; i++) {
                struct region *first = i ? f->other : f->region, *second = i ? f->region : f->other;
                const struct operation_slice both[] = { { first, 0, 1024 }, { second, 1024, 1024 } },
                                             same[] = { { first, 0, 2048 }, { second, 0, 2048 } },
                                             beyond = { first, 1024, 1024 }, start = { second, 0, 1024 };
                struct operation *read = make_read_into(f, both, 2);

                assert_int_equal(refusal(f, read, &beyond), FERRY_E_OUT_OF_BOUNDS);
                assert_int_equal(refusal(f, read, &start), FERRY_E_OUT_OF_BOUNDS);
                operation_cancel(f->store, follow_slices(f, read, &both[1], 1));
                operation_cancel(f->store, read);
                read = make_read_into(f, same, 2); /* nothing is filled twice */
                operation_cancel(f->store, follow_slices(f, read, same, 2));
                operation_cancel(f->store, read);
                read = make_read_into(f, same, 1);
                assert_int_equal(refusal(f, read, &start), FERRY_E_OUT_OF_BOUNDS);
                operation_cancel(f->store, read);
        }
}

/* What has arrived behind a piece is not what the follower has behind it. */
WITH_STORE(bytes_that_arrived_beside_a_piece_are_not_those_of_the_next_one)
{
        const struct operation_slice served[] = { { f->region, AT, 512 }, { f->region, AT + 2048, 512 } };
        struct operation *read = make_read(f), *follower = follow_slices(f, read, served, 2);
        struct engine_claim granted;

        assert_int_equal(claim(f, follower, &granted), 0);
        arrive(f, 0, 1536);
        assert_int_equal(granted.available(granted.context, 0, 1024), 512);
        end_transfer(f, 0);
        end_claim(f, &granted, 0);
}

/* error of the read, status of both, what peers are told */
static void assert_ends_with(struct fixture *f, int error, enum ferry_status status, int wire)
{
        struct operation *read = make_read(f), *idle = follow_all(f, read), *claimed = follow_all(f, read);
        struct engine_claim granted;
        char id[FERRY_ID_TEXT_SIZE];
        unsigned n = f->data_plane.n_revoked;

        ferry_id_format("op_", operation_id(read), id);
        assert_int_equal(claim(f, claimed, &granted), 0);
        arrive(f, 0, 1000);
        end_transfer(f, error);
        assert_int_equal(look(f, idle).status, status);
        assert_int_equal(look(f, idle).error, error);
        assert_non_null(strstr(look(f, idle).detail, id));
        assert_int_equal(f->data_plane.n_revoked, n + 1);
        assert_true(f->data_plane.revoked == operation_id(claimed));
        assert_int_equal(f->data_plane.revoke_reason, error);
        assert_int_equal(f->data_plane.revoke_wire, wire);
        assert_int_equal(look(f, claimed).status, FERRY_IN_PROGRESS); /* until it is quiet */
        assert_int_equal(granted.available(granted.context, 0, SIZE), 0);
        end_claim(f, &granted, error);
        assert_int_equal(look(f, claimed).status, status);
        assert_int_equal(look(f, claimed).error, error);
        assert_non_null(strstr(look(f, claimed).detail, id));
}

WITH_STORE(it_ends_with_the_error_of_its_source)
{
        assert_ends_with(f, FERRY_E_PEER_LOST, FERRY_ERRORED, FERRY_E_PEER_LOST);
        assert_ends_with(f, FERRY_E_CHECKSUM_MISMATCH, FERRY_ERRORED, FERRY_E_CHECKSUM_MISMATCH);
        assert_ends_with(f, FERRY_E_PEER_UNREACHABLE, FERRY_ERRORED, FERRY_E_PEER_LOST);
        assert_ends_with(f, FERRY_E_CANCELLED, FERRY_CANCELLED, FERRY_E_CANCELLED_BY_PEER);
}

WITH_STORE(a_cancel_stands_whatever_becomes_of_its_source)
{
        struct operation *read = make_read(f), *follower = follow_all(f, read);
        struct engine_claim granted;

        assert_int_equal(claim(f, follower, &granted), 0);
        operation_cancel(f->store, follower);
        end_transfer(f, FERRY_E_PEER_LOST);
        assert_true(look(f, follower).cancel_requested);
        end_claim(f, &granted, FERRY_E_PEER_LOST);
        assert_int_equal(look(f, follower).status, FERRY_CANCELLED);
}

WITH_STORE(a_follower_that_ended_unclaimed_is_stale_for_its_peer)
{
        const struct operation_slice slice = { f->region, AT, SIZE };
        const struct operation_spec spec = {
                .kind = FERRY_READABLE, .slices = &slice, .n_slices = 1, .follow = make_read(f)
        };
        struct engine_claim_request request;
        struct engine_claim none;
        struct operation *follower;

        assert_int_equal(make_spec(f, &spec, &follower), 0);
        request = request_for(f, follower);
        end_transfer(f, FERRY_E_PEER_LOST);
        assert_int_equal(look(f, follower).status, FERRY_ERRORED);
        assert_int_equal(operation_store_claim(f->store, &request, &none), FERRY_E_STALE_METADATA);
}

/* While the transfers that it serves come to rest. */
WITH_STORE(a_follower_whose_source_has_ended_takes_no_new_claim)
{
        const struct operation_slice slice = { f->region, AT, SIZE };
        const struct operation_spec spec = {
                .kind = FERRY_READABLE, .slices = &slice, .n_slices = 1, .uses = 3, .follow = make_read(f)
        };
        struct engine_claim_request request;
        struct engine_claim granted, late;
        struct ferry_metadata *metadata;
        struct operation *follower;

        assert_int_equal(make_spec(f, &spec, &follower), 0);
        assert_int_equal(claim(f, follower, &granted), 0);
        request = request_for(f, follower);
        end_transfer(f, FERRY_E_PEER_LOST);
        assert_int_equal(look(f, follower).status, FERRY_IN_PROGRESS);
        assert_int_equal(operation_store_claim(f->store, &request, &late), FERRY_E_ALREADY_CLAIMED);
        assert_int_equal(operation_metadata(f->store, follower, &metadata), FERRY_E_GONE);
        assert_int_equal(operation_renew(f->store, follower, 0), FERRY_E_GONE);
        end_claim(f, &granted, FERRY_E_PEER_LOST);
        assert_int_equal(look(f, follower).status, FERRY_ERRORED);
        assert_int_equal(look(f, follower).error, FERRY_E_PEER_LOST);
}

/* The waiter of a range: its revision passes when more is there, not before. */
WITH_STORE(who_waits_for_a_range_is_woken_when_more_is_there)
{
        struct operation *read = make_read(f), *follower = follow_all(f, read);
        uint64_t revision, later;

        assert_false(operation_available(f->store, follower, 100, 1000, &revision));
        assert_false(operation_is_past(f->store, follower, revision));
        arrive(f, 0, 1000);
        assert_true(operation_is_past(f->store, follower, revision));
        assert_false(operation_available(f->store, follower, 100, 1000, &revision));
        arrive(f, 1000, 1000);
        assert_true(operation_available(f->store, follower, 100, 1000, &later));
        assert_true(later > revision);
        arrive(f, 2000, 1000); /* nobody waits */
        assert_false(operation_is_past(f->store, follower, later));
        assert_false(operation_available(f->store, follower, 3000, 1000, &revision));
        end_transfer(f, 0);
        assert_true(operation_is_past(f->store, follower, revision));
        assert_true(operation_available(f->store, follower, 3000, 1000, &revision));
        operation_cancel(f->store, follower);
}

WITH_STORE(nobody_waits_for_a_range_of_what_has_ended)
{
        struct operation *follower = follow_all(f, make_read(f));
        uint64_t revision;

        operation_cancel(f->store, follower);
        assert_true(operation_available(f->store, follower, 0, 1, &revision));
        end_transfer(f, 0);
}

/* One that need not wait does not take the turn of one that does. */
WITH_STORE(whoever_waits_for_a_range_is_woken_although_another_one_is_there)
{
        struct operation *read = make_read(f), *follower = follow_all(f, read);
        uint64_t revision, other;

        arrive(f, 0, 1000);
        assert_false(operation_available(f->store, follower, 1000, 1000, &revision));
        assert_true(operation_available(f->store, follower, 0, 1000, &other));
        arrive(f, 1000, 1000);
        assert_true(operation_is_past(f->store, follower, revision));
        end_transfer(f, 0);
        operation_cancel(f->store, follower);
}

/* What is asked for at once arrives at once: who follows would wait for it. */
WITH_STORE(a_read_that_is_followed_asks_for_less_at_once)
{
        struct operation *read = make_read(f), *follower;
        const struct engine_transfer *transfer = &f->data_plane.transfer;

        assert_true(transfer->request_max(transfer->context) == UINT64_MAX);
        follower = follow_all(f, read);
        assert_int_equal(transfer->request_max(transfer->context), 1 << 20);
        operation_cancel(f->store, follower);
        assert_true(transfer->request_max(transfer->context) == UINT64_MAX);
        end_transfer(f, 0);
        test_release(read);
        test_release(follower);
        assert_int_equal(make_spec(f, &(struct operation_spec){ .kind = FERRY_READ, .relay = true }, &read), 0);
        begin(f, read); /* before anybody follows */
        assert_int_equal(transfer->request_max(transfer->context), 1 << 20);
        end_transfer(f, 0);
}

/* Where a new read of the rest may begin. */
WITH_STORE(a_read_that_fails_tells_how_far_it_came)
{
        struct operation *read = make_read(f), *complete = NULL, *none = NULL;

        arrive(f, 0, 1000);
        arrive(f, 2000, 1000);
        assert_int_equal(look(f, read).bytes_prefix, 0); /* it runs */
        end_transfer(f, FERRY_E_PEER_LOST);
        assert_int_equal(look(f, read).bytes_prefix, 1000);
        none = make_read(f);
        arrive(f, 2000, 1000);
        end_transfer(f, FERRY_E_PEER_LOST);
        assert_int_equal(look(f, none).bytes_prefix, 0);
        complete = make_read(f);
        arrive(f, 0, 1000);
        end_transfer(f, 0);
        assert_int_equal(look(f, complete).bytes_prefix, 0);
}

/* More ranges than are remembered: what is left out is there when the read is complete. */
WITH_STORE(ranges_without_end_delay_and_do_no_harm)
{
        struct operation *read = make_read(f), *follower = follow_all(f, read);
        struct engine_claim granted;

        assert_int_equal(claim(f, follower, &granted), 0);
        for (uint64_t at = 0; at < SIZE; at += 2)
                arrive(f, at, 1);
        for (uint64_t at = 0; at < SIZE; at++)
                assert_true(granted.available(granted.context, at, SIZE - at) <= (at % 2 == 0));
        end_transfer(f, 0);
        assert_int_equal(granted.available(granted.context, 0, SIZE), SIZE);
        end_claim(f, &granted, 0);
}
