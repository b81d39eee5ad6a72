/* SPDX-License-Identifier: Apache-2.0 */
#include "operation_fixture.h"

WITH_STORE(metadata_do_not_tell_where_the_memory_is)
{
        struct operation_slice slices[] = { { f->region, 8, 100 }, { f->region, 200, 1 } };
        struct operation_spec spec = { .kind = FERRY_READABLE, .slices = slices, .n_slices = 2 };
        struct operation *operation;
        struct ferry_metadata *metadata;

        assert_int_equal(make_spec(f, &spec, &operation), 0);
        metadata = metadata_of(f, operation);
        for (size_t i = 0; i < 2; i++) {
                uint64_t ptr = metadata->descriptors[i].ptr;

                assert_true(ptr > 0 && ptr < UINT64_C(1) << 53);
                assert_false(ptr >= (uintptr_t)f->region->address && ptr < (uintptr_t)f->region->address + REGION_SIZE);
        }
        assert_int_not_equal(metadata->descriptors[0].ptr, metadata->descriptors[1].ptr);
        (void)ferry_metadata_free(metadata);
}

/* Wrong in everything, then right in one thing after the other: the answer shows what is looked at first. */
WITH_STORE(a_claim_is_checked_key_first)
{
        struct operation *operation = make(f, FERRY_READABLE), *ended = make(f, FERRY_READABLE);
        struct engine_claim_request good = request_for(f, operation), bad = good, late = request_for(f, ended);
        struct engine_claim granted, none;

        assert_int_equal(operation_store_claim(f->store, &good, &granted), 0);
        operation_cancel(f->store, ended);

        bad.operation ^= 1;
        bad.key[31] ^= 1;
        bad.direction = ENGINE_WRITE;
        bad.whole++;
        assert_int_equal(operation_store_claim(f->store, &bad, &none), FERRY_E_STALE_METADATA);
        bad.operation = good.operation;
        assert_int_equal(operation_store_claim(f->store, &bad, &none), FERRY_E_PEER_REFUSED);
        bad.key[31] ^= 1;
        assert_int_equal(operation_store_claim(f->store, &bad, &none), FERRY_E_KIND_MISMATCH);
        bad.direction = ENGINE_READ;
        assert_int_equal(operation_store_claim(f->store, &bad, &none), FERRY_E_SIZE_MISMATCH);
        bad.whole -= 2;
        assert_int_equal(operation_store_claim(f->store, &bad, &none), FERRY_E_SIZE_MISMATCH);
        bad.whole++;
        bad.total++; /* more than there is */
        assert_int_equal(operation_store_claim(f->store, &bad, &none), FERRY_E_SIZE_MISMATCH);
        bad.total--;
        assert_int_equal(operation_store_claim(f->store, &bad, &none), FERRY_E_ALREADY_CLAIMED);

        late.key[0] ^= 0x80;
        assert_int_equal(operation_store_claim(f->store, &late, &none), FERRY_E_PEER_REFUSED);
        late.key[0] ^= 0x80;
        assert_int_equal(operation_store_claim(f->store, &late, &none), FERRY_E_CANCELLED_BY_PEER);

        assert_int_equal(look(f, operation).status, FERRY_IN_PROGRESS);
        end_claim(f, &granted, 0);
        assert_int_equal(look(f, operation).status, FERRY_COMPLETE);
}

WITH_STORE(an_active_operation_cannot_be_claimed)
{
        struct operation *operation = make(f, FERRY_READ);
        struct engine_claim_request request = { .operation = look(f, operation).id,
                                                .direction = ENGINE_READ,
                                                .total = 4096 };
        struct engine_claim granted;

        assert_int_equal(operation_store_claim(f->store, &request, &granted), FERRY_E_STALE_METADATA);
        request.direction = ENGINE_WRITE;
        assert_int_equal(operation_store_claim(f->store, &request, &granted), FERRY_E_STALE_METADATA);
}

WITH_STORE(a_late_claim_is_told_why)
{
        static const struct {
                int error, told;
        } rows[] = {
                { 0, FERRY_E_ALREADY_CLAIMED },
                { FERRY_E_EXPIRED, FERRY_E_EXPIRED },
                { FERRY_E_CANCELLED, FERRY_E_CANCELLED_BY_PEER },
                { FERRY_E_CANCELLED_BY_PEER, FERRY_E_CANCELLED_BY_PEER },
                { FERRY_E_PEER_LOST, FERRY_E_ALREADY_CLAIMED },
        };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(rows); i++) {
                struct operation *operation = make(f, FERRY_READABLE);
                struct engine_claim_request request = request_for(f, operation);
                struct engine_claim granted;

                assert_int_equal(operation_store_claim(f->store, &request, &granted), 0);
                end_claim(f, &granted, rows[i].error);
                assert_int_equal(operation_store_claim(f->store, &request, &granted), rows[i].told);
                test_release(operation);
        }
}

WITH_STORE(a_claim_during_a_cancel_is_told_so)
{
        struct operation *operation = make(f, FERRY_READABLE);
        struct engine_claim_request request = request_for(f, operation);
        struct ferry_metadata *metadata = NULL;
        struct engine_claim granted, none;

        assert_int_equal(operation_store_claim(f->store, &request, &granted), 0);
        operation_cancel(f->store, operation);
        assert_int_equal(operation_store_claim(f->store, &request, &none), FERRY_E_CANCELLED_BY_PEER);
        assert_int_equal(operation_metadata(f->store, operation, &metadata), FERRY_E_GONE);
        assert_null(metadata);
        end_claim(f, &granted, FERRY_E_CANCELLED);
}

WITH_STORE(progress_only_rises_and_stays_within_the_total)
{
        struct operation *operation = make(f, FERRY_READABLE);
        struct engine_claim granted;

        assert_int_equal(claim(f, operation, &granted), 0);
        granted.progress(granted.context, 1000);
        assert_int_equal(look(f, operation).bytes_done, 1000);
        granted.progress(granted.context, 10);
        assert_int_equal(look(f, operation).bytes_done, 1000);
        granted.progress(granted.context, 1 << 20);
        assert_int_equal(look(f, operation).bytes_done, 4096);
        end_claim(f, &granted, FERRY_E_PEER_LOST);
        assert_int_equal(look(f, operation).bytes_done, 4096);
}

/* A burst bumps once at most, and then not before a tenth of a second has passed. */
WITH_STORE(progress_wakes_who_waits_for_a_revision_but_not_often)
{
        struct operation *operation = make(f, FERRY_READABLE);
        struct engine_claim granted;
        uint64_t started = clock_now_us(), revision, took;

        assert_int_equal(claim(f, operation, &granted), 0);
        for (uint64_t i = 1; i <= 1000; i++)
                granted.progress(granted.context, i);
        took = clock_now_us() - started;
        revision = look(f, operation).revision;
        assert_true(revision <= 2 + took / 100000);

        await_loop(f, clock_now_us() + 110000);
        granted.progress(granted.context, 1001);
        await(f, operation, revision);
        assert_int_equal(look(f, operation).revision, revision + 1);
        assert_int_equal(look(f, operation).status, FERRY_IN_PROGRESS);
        end_claim(f, &granted, 0);
}

/* A document has no such sizes; a program's metadata may. */
WITH_STORE(sizes_that_overflow_are_no_metadata)
{
        struct operation_slice slice = { f->region, 0, 30 };
        struct ferry_metadata_descriptor descriptors[] = { { "cpu", 1, UINT64_MAX }, { "cpu", 2, 31 } };
        struct operation_spec spec = {
                .kind = FERRY_WRITE, .slices = &slice, .n_slices = 1, .layout = FERRY_LAYOUT_STREAM
        };
        struct ferry_metadata m = {
                .operation_kind = FERRY_METADATA_WRITE, .epoch = 1, .descriptors = descriptors, .n_descriptors = 2
        };
        char detail[OPERATION_DETAIL_SIZE];

        assert_int_equal(operation_check(f->store, &spec, &m, detail), FERRY_E_INVALID_METADATA);
}

WITH_STORE(the_pieces_of_a_slice_count_as_one)
{
        static const uint64_t blocks[] = { 9, 2 };
        struct operation_slice slices[] = { { f->region, 0, 10 },
                                            { f->region, 100, 20, 2, 25 },
                                            { f->region, 0, 30, 2, .blocks = blocks } };
        struct ferry_metadata_descriptor descriptors[] = { { "cpu", 1, 10 }, { "cpu", 2, 40 }, { "cpu", 3, 60 } };
        struct operation_spec spec = { .kind = FERRY_READ, .slices = slices, .n_slices = 3 };
        struct ferry_metadata m = {
                .operation_kind = FERRY_METADATA_READ, .epoch = 1, .descriptors = descriptors, .n_descriptors = 3
        };
        char detail[OPERATION_DETAIL_SIZE];

        assert_int_equal(operation_check(f->store, &spec, &m, detail), 0);
        descriptors[1].size = 20;
        assert_int_equal(operation_check(f->store, &spec, &m, detail), FERRY_E_SIZE_MISMATCH);
        assert_non_null(strstr(detail, "Descriptor 1 has 40 bytes here, 20"));
        m.n_descriptors = 2;
        assert_int_equal(operation_check(f->store, &spec, &m, detail), FERRY_E_SIZE_MISMATCH);
        assert_non_null(strstr(detail, "3 descriptors here, 2"));
        spec.layout = FERRY_LAYOUT_STREAM;
        descriptors[1].size = 100;
        assert_int_equal(operation_check(f->store, &spec, &m, detail), 0);
}

WITH_STORE(pieces_that_touch_are_one_run_of_memory)
{
        static const uint64_t blocks[] = { 5, 6, 7, 3, 4, 4, 0 };
        struct operation_slice slices[] = { { f->region, 16, 10, 3, 10 }, { f->region, 1, 100, 7, .blocks = blocks } };
        struct operation_spec spec = { .kind = FERRY_READABLE, .slices = slices, .n_slices = 2 };
        static const struct {
                uint64_t offset, size;
        } runs[] = { { 16, 30 }, { 501, 300 }, { 301, 200 }, { 401, 100 }, { 1, 100 } };
        struct operation *operation;
        struct engine_claim granted;

        assert_int_equal(make_spec(f, &spec, &operation), 0);
        assert_int_equal(claim(f, operation, &granted), 0);
        assert_int_equal(granted.n_segments, FERRY_ARRAY_SIZE(runs));
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(runs); i++) {
                assert_ptr_equal(granted.segments[i].address, (uint8_t *)f->region->address + runs[i].offset);
                assert_int_equal(granted.segments[i].size, runs[i].size);
        }
        end_claim(f, &granted, 0);
}

WITH_STORE(blocks_outside_the_region_are_refused)
{
        struct operation *operation;

        FOR_EACH (uint64_t, number, REGION_SIZE / 16, UINT64_MAX / 16, UINT64_MAX / 16 + 1, UINT64_MAX) {
                const uint64_t blocks[] = { 0, number, 1 };
                struct operation_slice slice = { f->region, 0, 16, 3, .blocks = blocks };
                struct operation_spec spec = { .kind = FERRY_READABLE, .slices = &slice, .n_slices = 1 };

                assert_int_equal(make_spec(f, &spec, &operation), FERRY_E_INVALID_PARAMETER);
        }
}

/* ---- of several uses ---- */

WITH_STORE(a_writable_serves_one_after_the_other)
{
        struct operation_spec spec = { .kind = FERRY_WRITABLE, .uses = 2 };
        struct operation *operation;
        struct engine_claim granted, none;

        assert_int_equal(make_spec(f, &spec, &operation), 0);
        assert_int_equal(claim(f, operation, &granted), 0);
        assert_int_equal(claim(f, operation, &none), FERRY_E_ALREADY_CLAIMED);
        end_claim(f, &granted, FERRY_E_PEER_LOST);
        assert_int_equal(look(f, operation).uses_done, 0);
        for (uint32_t i = 0; i < 2; i++) {
                assert_int_equal(look(f, operation).status, FERRY_IN_PROGRESS);
                assert_int_equal(claim(f, operation, &granted), 0);
                end_claim(f, &granted, 0);
                assert_int_equal(look(f, operation).uses_done, i + 1);
        }
        assert_int_equal(look(f, operation).status, FERRY_COMPLETE);
}

WITH_STORE(a_cancel_waits_for_all_attempts)
{
        struct operation *operation = make_readers(f, 3, 0);
        struct engine_claim a, b;

        assert_int_equal(claim(f, operation, &a), 0);
        assert_int_equal(claim(f, operation, &b), 0);
        operation_cancel(f->store, operation);
        assert_int_equal(f->data_plane.n_revoked, 1);
        end_claim(f, &a, 0); /* was faster than the cancel */
        assert_int_equal(look(f, operation).status, FERRY_IN_PROGRESS);
        assert_int_equal(region_in_use(f->region), 1);
        end_claim(f, &b, FERRY_E_CANCELLED);
        assert_int_equal(look(f, operation).status, FERRY_CANCELLED);
        assert_int_equal(look(f, operation).error, FERRY_E_CANCELLED);
        assert_int_equal(look(f, operation).uses_done, 1);
        assert_int_equal(region_in_use(f->region), 0);
}

WITH_STORE(a_cancel_between_attempts_is_immediate)
{
        struct operation *operation = make_readers(f, 2, 0);
        struct engine_claim granted;

        assert_int_equal(claim(f, operation, &granted), 0);
        end_claim(f, &granted, 0);
        operation_cancel(f->store, operation);
        assert_int_equal(look(f, operation).status, FERRY_CANCELLED);
        assert_int_equal(f->data_plane.n_revoked, 0);
}

WITH_STORE(bytes_done_is_that_of_the_furthest_attempt)
{
        struct operation *operation = make_readers(f, 2, 0);
        struct engine_claim a, b;

        assert_int_equal(claim(f, operation, &a), 0);
        assert_int_equal(claim(f, operation, &b), 0);
        a.progress(a.context, 3000);
        b.progress(b.context, 100);
        assert_int_equal(look(f, operation).bytes_done, 3000);
        end_claim(f, &a, FERRY_E_PEER_LOST);
        assert_int_equal(look(f, operation).bytes_done, 3000);
        b.progress(b.context, 3001);
        assert_int_equal(look(f, operation).bytes_done, 3001);
        end_claim(f, &b, 0);
        operation_cancel(f->store, operation);
}

WITH_STORE(metadata_of_a_claimed_one_lives_a_whole_ttl)
{
        struct operation *operation = make_readers(f, 2, 5000);
        struct ferry_metadata *metadata;
        struct engine_claim granted;
        uint64_t now;

        assert_int_equal(claim(f, operation, &granted), 0);
        assert_int_equal(look(f, operation).expires_unix_ms, 0);
        now = clock_unix_ms();
        metadata = metadata_of(f, operation);
        assert_true(metadata->expires_ms >= now + 5000);
        (void)ferry_metadata_free(metadata);
        end_claim(f, &granted, FERRY_E_PEER_LOST);
        assert_true(look(f, operation).expires_unix_ms >= now + 5000);
}
