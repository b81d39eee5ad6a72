/* SPDX-License-Identifier: Apache-2.0 */
#include "operation_fixture.h"

WITH_STORE(metadata_names_the_operation_and_not_its_memory)
{
        struct operation_slice slices[] = { { f->region, 8, 100 }, { f->region, 200, 1 } };
        struct operation_spec spec = { .kind = FERRY_READABLE, .slices = slices, .n_slices = 2 };
        struct operation *operation;
        struct ferry_metadata *metadata, *other;
        struct operation_view v;

        assert_int_equal(make_spec(f, &spec, &operation), 0);
        v = look(f, operation);
        metadata = metadata_of(f, operation);
        assert_int_equal(metadata->operation_kind, FERRY_METADATA_READ);
        assert_int_equal(metadata->protocol, FERRY_PROTOCOL);
        assert_int_equal(metadata->epoch, EPOCH);
        assert_int_equal(metadata->operation, v.id);
        assert_int_equal(metadata->expires_ms, v.expires_unix_ms);
        assert_int_equal(metadata->n_descriptors, 2);
        assert_int_equal(metadata->descriptors[0].size, 100);
        assert_int_equal(metadata->descriptors[1].size, 1);
        assert_string_equal(metadata->descriptors[0].device, "cpu");
        for (size_t i = 0; i < 2; i++) {
                uint64_t ptr = metadata->descriptors[i].ptr;

                assert_true(ptr > 0 && ptr < UINT64_C(1) << 53);
                assert_false(ptr >= (uintptr_t)f->region->address && ptr < (uintptr_t)f->region->address + REGION_SIZE);
        }
        assert_int_not_equal(metadata->descriptors[0].ptr, metadata->descriptors[1].ptr);
        test_release(operation);

        operation = make(f, FERRY_WRITABLE);
        other = metadata_of(f, operation);
        assert_int_equal(other->operation_kind, FERRY_METADATA_WRITE);
        assert_memory_not_equal(other->key, metadata->key, FERRY_KEY_SIZE);
        (void)ferry_metadata_free(metadata);
        (void)ferry_metadata_free(other);
}

WITH_STORE(metadata_is_had_only_of_live_passive_operations)
{
        struct operation *active = make(f, FERRY_READ), *passive = make(f, FERRY_READABLE);
        struct ferry_metadata *metadata = NULL;
        struct engine_claim granted;

        assert_int_equal(operation_metadata(f->store, active, &metadata), FERRY_E_NOT_PASSIVE);
        assert_int_equal(claim(f, passive, &granted), 0);
        operation_cancel(f->store, passive);
        assert_int_equal(operation_metadata(f->store, passive, &metadata), FERRY_E_GONE);
        end_claim(f, &granted, FERRY_E_CANCELLED);
        assert_int_equal(operation_metadata(f->store, passive, &metadata), FERRY_E_GONE);
        assert_null(metadata);
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

WITH_STORE(each_byte_of_the_key_counts)
{
        struct operation *operation = make(f, FERRY_WRITABLE);
        struct engine_claim_request request = request_for(f, operation);
        struct engine_claim granted;

        for (size_t i = 0; i < FERRY_KEY_SIZE; i++) {
                request.key[i] ^= 1;
                assert_int_equal(operation_store_claim(f->store, &request, &granted), FERRY_E_PEER_REFUSED);
                request.key[i] ^= 1;
        }
        assert_int_equal(look(f, operation).status, FERRY_INITIALIZED);
        assert_int_equal(operation_store_claim(f->store, &request, &granted), 0);
        end_claim(f, &granted, 0);
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
        struct engine_claim granted, none;

        assert_int_equal(operation_store_claim(f->store, &request, &granted), 0);
        operation_cancel(f->store, operation);
        assert_int_equal(operation_store_claim(f->store, &request, &none), FERRY_E_CANCELLED_BY_PEER);
        end_claim(f, &granted, FERRY_E_CANCELLED);
}

WITH_STORE(a_deleted_operation_is_stale_for_its_peer)
{
        struct operation *operation = make(f, FERRY_READABLE);
        struct engine_claim_request request = request_for(f, operation);
        struct engine_claim granted;

        operation_delete(f->store, operation);
        assert_int_equal(operation_store_claim(f->store, &request, &granted), FERRY_E_STALE_METADATA);
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

static struct operation_view check_of(struct fixture *f, struct ferry_metadata *metadata, int expected,
                                      const char *words)
{
        struct operation *operation = make(f, FERRY_READ);
        struct operation_slice slice = { f->region, 512, 4096 };
        struct operation_spec spec = { .kind = FERRY_READ, .slices = &slice, .n_slices = 1 };
        char detail[OPERATION_DETAIL_SIZE];
        struct operation_view view;
        unsigned n_started = f->data_plane.n_started;

        assert_int_equal(operation_check(f->store, &spec, metadata, detail), expected);
        assert_non_null(strstr(detail, words));
        assert_int_equal(operation_begin(f->store, operation, metadata, false, detail), expected);
        assert_non_null(strstr(detail, words));
        assert_int_equal(f->data_plane.n_started, n_started + (expected ? 0 : 1));
        view = look(f, operation);
        if (!expected)
                end_transfer(f, 0);
        return view;
}

WITH_STORE(metadata_is_checked_before_anything_begins)
{
        struct ferry_metadata *metadata = peer_metadata(FERRY_READ);
        struct operation_view view;

        metadata->operation_kind = FERRY_METADATA_WRITE;
        view = check_of(f, metadata, FERRY_E_KIND_MISMATCH, "readable");
        assert_int_equal(view.status, FERRY_INITIALIZED);
        assert_int_equal(view.revision, 1);
        metadata->operation_kind = FERRY_METADATA_READ;

        metadata->expires_ms = clock_unix_ms() - 5;
        (void)check_of(f, metadata, FERRY_E_METADATA_EXPIRED, "expired");
        metadata->expires_ms = clock_unix_ms() + 60000;

        metadata->descriptors[0].size = 4095;
        (void)check_of(f, metadata, FERRY_E_SIZE_MISMATCH, "Descriptor 0 has 4096 bytes here, 4095");
        metadata->descriptors[0].size = 4096;
        (void)check_of(f, metadata, 0, "");
        (void)ferry_metadata_free(metadata);
}

WITH_STORE(lists_match_pairwise_or_as_a_stream)
{
        struct operation_slice slices[] = { { f->region, 0, 10 }, { f->region, 100, 20 } };
        struct ferry_metadata_descriptor descriptors[] = { { "cpu", 1, 10 }, { "cpu", 2, 19 }, { "cpu", 3, 1 } };
        struct operation_spec spec = { .kind = FERRY_WRITE, .slices = slices, .n_slices = 2 };
        struct ferry_metadata m = {
                .operation_kind = FERRY_METADATA_WRITE, .epoch = 1, .descriptors = descriptors, .n_descriptors = 2
        };
        char detail[OPERATION_DETAIL_SIZE];

        assert_int_equal(operation_check(f->store, &spec, &m, detail), FERRY_E_SIZE_MISMATCH);
        assert_non_null(strstr(detail, "Descriptor 1 has 20 bytes here, 19"));
        m.n_descriptors = 3;
        assert_int_equal(operation_check(f->store, &spec, &m, detail), FERRY_E_SIZE_MISMATCH);
        assert_non_null(strstr(detail, "2 descriptors here, 3"));
        spec.layout = FERRY_LAYOUT_STREAM;
        assert_int_equal(operation_check(f->store, &spec, &m, detail), 0);
        descriptors[2].size = 2;
        assert_int_equal(operation_check(f->store, &spec, &m, detail), FERRY_E_SIZE_MISMATCH);
        assert_non_null(strstr(detail, "30 bytes here, 31"));
        descriptors[2].size = UINT64_MAX;
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

WITH_STORE(the_metadata_have_one_entry_for_each_slice)
{
        static const uint64_t blocks[] = { 0, 7, 7 };
        struct operation_slice slices[] = { { f->region, 0, 10, 3, 10 },
                                            { f->region, 100, 20 },
                                            { f->region, 5, 100, 3, .blocks = blocks } };
        struct operation_spec spec = { .kind = FERRY_READABLE, .slices = slices, .n_slices = 3 };
        static const uint64_t sizes[] = { 30, 20, 300 };
        struct operation *operation;
        struct ferry_metadata *metadata;
        uint64_t last = 0;

        assert_int_equal(make_spec(f, &spec, &operation), 0);
        assert_int_equal(look(f, operation).bytes_total, 350);
        metadata = metadata_of(f, operation);
        assert_int_equal(metadata->n_descriptors, 3);
        for (size_t i = 0; i < 3; i++) {
                assert_int_equal(metadata->descriptors[i].size, sizes[i]);
                assert_int_not_equal(metadata->descriptors[i].ptr, last);
                last = metadata->descriptors[i].ptr;
        }
        (void)ferry_metadata_free(metadata);
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
