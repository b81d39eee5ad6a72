/* SPDX-License-Identifier: Apache-2.0 */
#include "operation_fixture.h"

#include "base/space.h"
#include "move/content.h"
#include "mover_internal.h"

#include "content_fixture.h"

enum { OFFSET = 512 }; /* of the fixture's operations */

/* ---- ranges ---- */

TEST(ranges_join_whatever_their_order)
{
        static const uint64_t cuts[] = { 0, 1, 5, 6, 40, 63, 64 };
        enum { N = sizeof(cuts) / sizeof(cuts[0]) - 1 };

        for (unsigned order = 0; order < 720; order++) {
                struct content_ranges ranges = { 0 };
                unsigned left[N], rest = order;

                for (unsigned i = 0; i < N; i++)
                        left[i] = i;
                for (unsigned n = N; n > 0; n--) {
                        unsigned pick = rest % n, i = left[pick];

                        rest /= n;
                        left[pick] = left[n - 1];
                        content_ranges_add(&ranges, cuts[i], cuts[i + 1]);
                        content_ranges_add(&ranges, cuts[i], cuts[i + 1]); /* what is there already changes nothing */
                }
                assert_int_equal(ranges.total, 64);
                assert_int_equal(ranges.n, 1);
                assert_int_equal(content_ranges_run(&ranges, 0), 64);
        }
}

TEST(more_ranges_than_are_remembered_are_left_out)
{
        struct content_ranges ranges = { 0 };

        for (uint64_t i = 0; i < CONTENT_RANGES_MAX + 10; i++)
                content_ranges_add(&ranges, 2 * i, 2 * i + 1);
        assert_int_equal(ranges.n, CONTENT_RANGES_MAX);
        assert_int_equal(ranges.total, CONTENT_RANGES_MAX);
        assert_int_equal(content_ranges_run(&ranges, 0), 1);
        content_ranges_add(&ranges, 0, 2 * CONTENT_RANGES_MAX);
        assert_int_equal(ranges.n, 1);
        content_ranges_add(&ranges, 7, 7);
        content_ranges_add(&ranges, 1000, 1000);
        assert_int_equal(ranges.n, 1);
        assert_int_equal(ranges.total, 2 * CONTENT_RANGES_MAX);
}

/* ---- transfers ---- */

WITH_STORE(a_download_in_pieces_completes_when_all_were_sent)
{
        struct operation *operation = make(f, FERRY_READABLE);
        struct http_content *content;
        uint8_t *memory = (uint8_t *)f->region->address + OFFSET, bytes[TOTAL];

        for (size_t i = 0; i < TOTAL; i++)
                memory[i] = (uint8_t)(i * 7);
        content = must_open(f, operation, 0, 0, TOTAL);
        assert_ended(f, operation, FERRY_IN_PROGRESS, 0);
        assert_int_equal(http_content_move(content, bytes, 1000), 0);
        http_content_close(content, false); /* the client broke off, and has 900 of them */
        content = must_open(f, operation, 0, 900, TOTAL - 900);
        assert_int_equal(http_content_move(content, bytes + 900, TOTAL - 900), 0);
        assert_int_equal(http_content_move(content, bytes, 1), FERRY_E_TOO_LARGE);
        assert_ended(f, operation, FERRY_IN_PROGRESS, 0);
        http_content_close(content, true);
        assert_ended(f, operation, FERRY_COMPLETE, 0);
        assert_memory_equal(bytes, memory, TOTAL);
        assert_int_equal(open_range(f, operation, 0, 0, 1, &content), FERRY_E_ALREADY_CLAIMED);
}

/* All was read, but nobody knows whether the end of it has arrived. */
WITH_STORE(a_download_whose_end_was_not_sent_is_not_complete)
{
        struct operation *operation = make(f, FERRY_READABLE);
        struct http_content *content = must_open(f, operation, 0, 0, TOTAL);
        uint8_t bytes[TOTAL];

        assert_int_equal(http_content_move(content, bytes, TOTAL), 0);
        http_content_close(content, false);
        assert_ended(f, operation, FERRY_IN_PROGRESS, 0);
        content = must_open(f, operation, 0, TOTAL - 10, 10);
        assert_int_equal(http_content_move(content, bytes, 10), 0);
        http_content_close(content, true);
        assert_ended(f, operation, FERRY_COMPLETE, 0);
}

WITH_STORE(only_one_client_has_the_operation)
{
        struct operation *operation = make(f, FERRY_READABLE), *active = make(f, FERRY_READ);
        struct ferry_metadata *metadata = metadata_of(f, operation);
        struct http_content *content, *other;
        struct engine_claim granted;
        uint8_t wrong[FERRY_KEY_SIZE];

        memcpy(wrong, metadata->key, sizeof(wrong));
        wrong[31] ^= 1;
        assert_false(http_content_key(operation, wrong));
        assert_true(http_content_key(operation, metadata->key));
        assert_int_equal(open_range(f, active, 0, 0, 10, &other), FERRY_E_NOT_PASSIVE);
        assert_int_equal(open_range(f, operation, 7, 0, 10, &content), 0);
        /* A client without a name, one of another name, the same bytes once more, a worker. */
        assert_int_equal(open_range(f, operation, 0, 20, 10, &other), FERRY_E_ALREADY_CLAIMED);
        assert_int_equal(open_range(f, operation, 8, 20, 10, &other), FERRY_E_ALREADY_CLAIMED);
        assert_int_equal(open_range(f, operation, 7, 9, 10, &other), FERRY_E_ALREADY_CLAIMED);
        assert_int_equal(claim(f, operation, &granted), FERRY_E_ALREADY_CLAIMED);
        other = must_open(f, operation, 7, 10, 10);
        http_content_close(other, false);
        http_content_close(content, false);
        operation_cancel(f->store, operation);
        (void)ferry_metadata_free(metadata);
}

WITH_STORE(a_named_transfer_completes_when_its_client_says_so)
{
        struct operation *operation = make(f, FERRY_READABLE);
        struct http_content *content = must_open(f, operation, 7, 0, TOTAL);
        uint8_t bytes[TOTAL];
        uint64_t checksum;
        bool complete;

        assert_int_equal(http_content_move(content, bytes, TOTAL), 0);
        assert_int_equal(http_content_end(f->store, operation, 8, 0, &complete), FERRY_E_GONE);
        /* The client has the last byte before the server knows that it was sent. */
        assert_int_equal(http_content_end(f->store, operation, 7, 0, &complete), 0);
        assert_true(complete);
        assert_ended(f, operation, FERRY_COMPLETE, 0);
        assert_int_equal(http_content_end(f->store, operation, 7, 0, &complete), 0);
        assert_true(complete);
        assert_false(http_content_checksum(content, &checksum)); /* the memory may be another's */
        http_content_close(content, true);
        test_release(operation);

        operation = make(f, FERRY_READABLE);
        content = must_open(f, operation, 7, 0, TOTAL);
        assert_int_equal(http_content_move(content, bytes, 10), 0);
        assert_int_equal(http_content_end(f->store, operation, 7, 0, &complete), 0);
        assert_false(complete);
        assert_ended(f, operation, FERRY_CANCELLED, FERRY_E_CANCELLED_BY_PEER);
        assert_int_not_equal(http_content_move(content, bytes, 10), 0);
        http_content_close(content, false);
}

/* The client ends while half of what it has announced is still to come over an open request. */
WITH_STORE(stored_bytes_of_an_open_request_count_once)
{
        struct operation *operation = make(f, FERRY_WRITABLE);
        const struct http_content_request request = {
                .transfer = 7, .size = 100, .announced = 100, .transport = "http"
        };
        struct http_content *content;
        uint8_t bytes[50] = { 0 };
        bool complete;

        assert_int_equal(http_content_open(the_mover(f), f->store, operation, &request, &content), 0);
        assert_int_equal(http_content_move(content, bytes, sizeof(bytes)), 0);
        assert_int_equal(http_content_end(f->store, operation, 7, 0, &complete), 0);
        assert_false(complete);
        http_content_close(content, false);
        assert_ended(f, operation, FERRY_CANCELLED, FERRY_E_CANCELLED_BY_PEER);
}

static bool ends_complete(struct fixture *f, struct operation *operation, uint64_t transfer)
{
        bool complete = false;

        return http_content_end(f->store, operation, transfer, 0, &complete) == 0 && complete;
}

/* A client whose connection broke before the answer came asks again, and others have ended meanwhile. */
WITH_STORE(each_of_several_named_transfers_may_repeat_its_end)
{
        enum { USES = 3 };
        struct operation *operation = make_readers(f, USES, 0);
        struct http_content *contents[USES];
        uint8_t bytes[TOTAL];

        for (uint64_t i = 0; i < USES; i++) {
                contents[i] = must_open(f, operation, 7 + i, 0, TOTAL);
                assert_int_equal(http_content_move(contents[i], bytes, TOTAL), 0);
        }
        for (uint64_t round = 0; round < 2; round++)
                for (uint64_t i = 0; i < USES; i++) {
                        assert_true(ends_complete(f, operation, 7 + i));
                        assert_false(ends_complete(f, operation, 0)); /* has no name */
                }
        assert_false(ends_complete(f, operation, 7 + USES));
        assert_ended(f, operation, FERRY_COMPLETE, 0);
        for (size_t i = 0; i < USES; i++)
                http_content_close(contents[i], true);
}

/* The server may have counted bytes that the client never got, or found wrong. */
WITH_STORE(a_named_transfer_that_is_given_up_is_not_complete)
{
        static const struct {
                int error, ends_with;
                enum ferry_status status;
        } rows[] = { { FERRY_E_CHECKSUM_MISMATCH, FERRY_E_CHECKSUM_MISMATCH, FERRY_ERRORED },
                     { FERRY_E_TIMEOUT, FERRY_E_TIMEOUT, FERRY_ERRORED },
                     { FERRY_E_CANCELLED, FERRY_E_CANCELLED_BY_PEER, FERRY_CANCELLED },
                     { FERRY_E_NO_SPACE, FERRY_E_TRANSFER_FAILED, FERRY_ERRORED } };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(rows); i++) {
                struct operation *operation = make(f, FERRY_READABLE);
                struct http_content *content = must_open(f, operation, 7, 0, TOTAL);
                uint8_t bytes[TOTAL];
                bool complete = true;

                assert_int_equal(http_content_move(content, bytes, TOTAL), 0);
                http_content_close(content, true);
                assert_int_equal(http_content_end(f->store, operation, 7, rows[i].error, &complete), 0);
                assert_false(complete);
                assert_ended(f, operation, rows[i].status, rows[i].ends_with);
                assert_string_equal(look(f, operation).detail, "the peer ended the transfer");
                test_release(operation);
        }
}

/* They come over two connections, so that the end may overtake the first range, or a range of the rest. */
WITH_STORE(a_transfer_that_was_ended_claims_nothing_afterwards)
{
        FOR_EACH (int, kind, FERRY_READABLE, FERRY_WRITABLE) {
                FOR_EACH (int, error, 0, FERRY_E_CANCELLED, FERRY_E_TIMEOUT) {
                        struct operation *operation = make(f, (enum ferry_kind)kind);
                        struct http_content *content;
                        bool complete;

                        assert_int_equal(http_content_end(f->store, operation, 7, error, &complete), FERRY_E_GONE);
                        assert_false(complete);
                        assert_int_equal(open_range(f, operation, 7, 0, TOTAL, &content), FERRY_E_GONE);
                        assert_int_equal(look(f, operation).status, FERRY_INITIALIZED);
                        content = must_open(f, operation, 8, 0, 10);
                        assert_int_equal(http_content_end(f->store, operation, 8, FERRY_E_CANCELLED, &complete), 0);
                        assert_ended(f, operation, FERRY_CANCELLED, FERRY_E_CANCELLED_BY_PEER);
                        http_content_close(content, false);
                        test_release(operation);
                }
        }
}

WITH_STORE(a_reader_that_was_ended_does_not_take_another_use)
{
        struct operation *operation = make_readers(f, 2, 0);
        struct http_content *content = must_open(f, operation, 7, 0, 10), *late;
        bool complete;

        assert_int_equal(http_content_end(f->store, operation, 7, FERRY_E_CANCELLED, &complete), 0);
        http_content_close(content, false);
        assert_int_equal(open_range(f, operation, 7, 10, 10, &late), FERRY_E_GONE);
        assert_int_equal(look(f, operation).error, 0);
        operation_cancel(f->store, operation);
}

/* Of one range that is still open a half, and of two ranges whole. */
WITH_STORE(what_a_transfer_that_is_given_up_has_moved_is_shown_and_counted)
{
        enum { HALF = TOTAL / 2 };
        uint8_t bytes[HALF];
        long counted = 0;

        for (int whole = 0; whole < 2; whole++) {
                struct operation *operation = make(f, FERRY_READABLE);
                struct http_content *first = must_open(f, operation, 7, 0, whole ? HALF : TOTAL), *second = NULL;
                bool complete;

                if (whole)
                        second = must_open(f, operation, 7, HALF, HALF);
                assert_int_equal(http_content_move(first, bytes, HALF), 0);
                if (second)
                        assert_int_equal(http_content_move(second, bytes, HALF), 0);
                if (whole) {
                        http_content_close(first, true);
                        http_content_close(second, true);
                }
                assert_int_equal(http_content_end(f->store, operation, 7, FERRY_E_CHECKSUM_MISMATCH, &complete), 0);
                assert_int_equal(look(f, operation).bytes_done, whole ? TOTAL : HALF);
                counted += whole ? TOTAL : HALF;
                assert_int_equal(
                        series_value(f, "ferry_transferred_bytes_total{direction=\"sent\",transport=\"http\"} "),
                        counted);
                if (!whole)
                        http_content_close(first, false);
                test_release(operation);
        }
}

/* ---- while the claim of a client is being made ---- */

static struct fixture *claimed_in;
static struct operation *claimed_now;
static bool cancels;

static void interfere(void *context, const struct engine_http_note *note)
{
        struct http_content *other;

        if (note->ended)
                return;
        assert_int_not_equal(open_range(claimed_in, claimed_now, 7, TOTAL / 2, 1, &other), 0);
        if (cancels)
                operation_cancel(claimed_in->store, claimed_now);
}

/* Nobody else joins it meanwhile, and a cancel is not lost. */
WITH_STORE(what_happens_before_a_client_has_its_claim_happens_to_it)
{
        FOR_EACH (int, cancelled, false, true) {
                struct operation *operation = make(f, FERRY_READABLE);
                struct http_content *content;
                uint8_t bytes[10];

                claimed_in = f;
                claimed_now = operation;
                cancels = cancelled;
                told = interfere;
                content = must_open(f, operation, 7, 0, TOTAL / 2);
                told = NULL;
                assert_ended(f, operation, cancelled ? FERRY_CANCELLED : FERRY_IN_PROGRESS,
                             cancelled ? FERRY_E_CANCELLED : 0);
                assert_int_equal(http_content_move(content, bytes, 10) == 0, !cancelled);
                http_content_close(content, false);
                operation_cancel(f->store, operation);
        }
}

static struct operation *cancelled_before; /* the next claim; NULL = none is */

int __real_operation_store_claim(void *context, const struct engine_claim_request *request,
                                 struct engine_claim *ret_claim);
int __wrap_operation_store_claim(void *context, const struct engine_claim_request *request,
                                 struct engine_claim *ret_claim);

int __wrap_operation_store_claim(void *context, const struct engine_claim_request *request,
                                 struct engine_claim *ret_claim)
{
        if (cancelled_before)
                operation_cancel(context, FERRY_STEAL(cancelled_before));
        return __real_operation_store_claim(context, request, ret_claim);
}

WITH_STORE(a_cancel_that_comes_before_the_claim_of_one_of_several_clients_ends_them_all)
{
        struct operation *operation = make_readers(f, 2, 0);
        struct http_content *first = must_open(f, operation, 9, 0, 10), *second;
        uint8_t bytes[10];

        cancelled_before = operation;
        assert_int_equal(open_range(f, operation, 7, 0, 10, &second), FERRY_E_CANCELLED_BY_PEER);
        assert_ended(f, operation, FERRY_CANCELLED, FERRY_E_CANCELLED);
        assert_int_not_equal(http_content_move(first, bytes, 10), 0);
        http_content_close(first, false);
}

WITH_STORE(a_cancel_waits_for_no_client)
{
        for (int kind = FERRY_READABLE; kind <= FERRY_WRITABLE; kind += FERRY_WRITABLE - FERRY_READABLE) {
                struct operation *operation = make(f, (enum ferry_kind)kind);
                struct http_content *content = must_open(f, operation, 0, 0, TOTAL);
                uint8_t bytes[10] = { 0 };

                operation_cancel(f->store, operation);
                assert_ended(f, operation, FERRY_CANCELLED, FERRY_E_CANCELLED);
                assert_int_not_equal(http_content_move(content, bytes, sizeof(bytes)), 0);
                http_content_close(content, false);
                test_release(operation);
        }
}

WITH_STORE(no_end_comes_while_bytes_are_copied)
{
        FOR_EACH (int, error, FERRY_E_CANCELLED, FERRY_E_CANCELLED_BY_PEER) {
                struct operation *operation = make(f, FERRY_WRITABLE);
                struct http_content *content = must_open(f, operation, 7, 0, TOTAL);
                bool complete = false;

                assert_false(http_content_key(operation, (const uint8_t[FERRY_KEY_SIZE]){ 0 }));
                assert_true(http_responder_copy_begin(content->responder));
                content->position = TOTAL;
                if (error == FERRY_E_CANCELLED)
                        operation_cancel(f->store, operation);
                else
                        assert_int_equal(http_content_end(f->store, operation, 7, 0, &complete), 0);
                assert_ended(f, operation, FERRY_IN_PROGRESS, 0);
                assert_false(complete || http_responder_copy_begin(content->responder));
                assert_int_equal(http_content_end(f->store, operation, 7, 0, &complete), FERRY_E_GONE);
                http_responder_copy_end(content->responder);
                assert_ended(f, operation, FERRY_CANCELLED, error);
                http_content_close(content, false);
        }
}

WITH_STORE(nobody_joins_a_transfer_that_is_being_ended)
{
        struct operation *operation = make(f, FERRY_WRITABLE);
        struct http_content *content = must_open(f, operation, 7, 0, 10), *other;

        assert_true(http_responder_copy_begin(content->responder));
        operation_cancel(f->store, operation);
        assert_int_equal(open_range(f, operation, 7, 20, 10, &other), FERRY_E_CANCELLED_BY_PEER);
        http_content_fail(content, FERRY_E_CHECKSUM_MISMATCH); /* its end has a reason already */
        http_responder_copy_end(content->responder);
        http_content_close(content, false);
        assert_ended(f, operation, FERRY_CANCELLED, FERRY_E_CANCELLED);
}

/* Its pins are gone, and the memory with its region, while the HTTP server still has the range. */
WITH_STORE(an_open_range_names_its_gpu_after_the_end_of_the_operation)
{
        const struct space space = { .device = 3 };
        struct http_content *content;
        struct operation *readable;

        f->region->space = &space;
        readable = make(f, FERRY_READABLE);
        f->region->space = NULL;
        content = must_open(f, readable, 0, 0, TOTAL);
        operation_cancel(f->store, readable);
        assert_ended(f, readable, FERRY_CANCELLED, FERRY_E_CANCELLED);
        assert_int_equal(http_content_gpu(content), 1 + 3);
        http_content_close(content, false);
}
