/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/error.h>

#include "unit.h"

static const struct {
        int number;
        const char *code;
        int http, retryable;
        const char *title;
} table[] = {
#define X(name, number, code, http, retryable, title) { (number), (code), (http), (retryable), (title) },
        FERRY_ERRORS(X)
#undef X
};

TEST(titles_are_sentences_without_a_full_stop)
{
        for (size_t i = 0; i < UNIT_COUNT(table); i++) {
                size_t n = strlen(table[i].title);

                assert_true(n > 10);
                assert_true(table[i].title[0] >= 'A' && table[i].title[0] <= 'Z');
                assert_true(table[i].title[n - 1] != '.');
        }
}

TEST(http_is_an_error_status_or_none)
{
        for (size_t i = 0; i < UNIT_COUNT(table); i++)
                assert_true(table[i].http == 0 || (table[i].http >= 400 && table[i].http <= 599));
}

TEST(every_row_is_found_by_its_number)
{
        for (size_t i = 0; i < UNIT_COUNT(table); i++) {
                assert_string_equal(ferry_error_code(table[i].number), table[i].code);
                assert_string_equal(ferry_error_title(table[i].number), table[i].title);
                assert_int_equal(ferry_error_http(table[i].number), table[i].http);
                assert_int_equal(ferry_error_retryable(table[i].number), table[i].retryable);
        }
}

TEST(every_row_is_found_by_its_code_and_status)
{
        for (size_t i = 0; i < UNIT_COUNT(table); i++)
                assert_int_equal(ferry_error_from_code(table[i].code, table[i].http), table[i].number);
}

TEST(status_tells_the_two_limits_apart)
{
        assert_int_equal(ferry_error_from_code("limit-reached", 429), FERRY_E_LIMIT_REACHED);
        assert_int_equal(ferry_error_from_code("limit-reached", 507), FERRY_E_NO_SPACE);
        assert_int_equal(ferry_error_from_code("limit-reached", 0), FERRY_E_LIMIT_REACHED);
}

TEST(a_code_counts_more_than_a_status_it_does_not_have)
{
        assert_int_equal(ferry_error_from_code("peer-lost", 502), FERRY_E_PEER_LOST);
        assert_int_equal(ferry_error_from_code("not-found", 410), FERRY_E_NOT_FOUND);
}

TEST(unknown_codes_are_minus_one)
{
        FOR_EACH_TEXT (unknown, "", "peer", "peer-lost ", "PEER-LOST", "peer-lostx")
                assert_int_equal(ferry_error_from_code(unknown, 0), -1);
        assert_int_equal(ferry_error_from_code(NULL, 0), -1);
}

TEST(unknown_numbers_are_internal)
{
        FOR_EACH (int, number, 0, -1, -12, 31, 39, 54, 1000000, -2147483647 - 1) {
                assert_string_equal(ferry_error_code(number), "internal");
                assert_true(strlen(ferry_error_title(number)) > 10);
                assert_int_equal(ferry_error_http(number), 500);
                assert_int_equal(ferry_error_retryable(number), 0);
        }
}

/* They are on the wire and in programs of others: a change here breaks somebody. */
TEST(numbers_and_codes_stay_what_they_are)
{
        static const struct {
                int number, http;
                const char *code;
        } known[] = {
                { 1, 400, "invalid-json" },
                { 2, 400, "invalid-parameter" },
                { 3, 400, "unknown-field" },
                { 4, 400, "out-of-bounds" },
                { 5, 409, "size-mismatch" },
                { 6, 409, "kind-mismatch" },
                { 7, 400, "invalid-metadata" },
                { 8, 410, "metadata-expired" },
                { 9, 400, "unknown-device" },
                { 10, 404, "not-found" },
                { 11, 410, "gone" },
                { 12, 409, "not-passive" },
                { 13, 409, "region-in-use" },
                { 14, 405, "method-not-allowed" },
                { 15, 415, "unsupported-media-type" },
                { 16, 413, "too-large" },
                { 17, 416, "range-not-satisfiable" },
                { 18, 401, "unauthenticated" },
                { 19, 403, "forbidden" },
                { 20, 421, "host-refused" },
                { 21, 403, "origin-refused" },
                { 22, 429, "limit-reached" },
                { 23, 507, "limit-reached" },
                { 24, 503, "draining" },
                { 25, 422, "idempotency-conflict" },
                { 26, 500, "internal" },
                { 27, 409, "region-not-ready" },
                { 28, 412, "precondition-failed" },
                { 29, 409, "region-held" },
                { 30, 431, "head-too-large" },
                { 40, 502, "peer-unreachable" },
                { 41, 0, "peer-lost" },
                { 42, 502, "peer-refused" },
                { 43, 0, "stale-metadata" },
                { 44, 409, "already-claimed" },
                { 45, 0, "cancelled" },
                { 46, 410, "cancelled-by-peer" },
                { 47, 410, "expired" },
                { 48, 0, "timeout" },
                { 49, 0, "stalled" },
                { 50, 409, "checksum-mismatch" },
                { 51, 500, "transfer-failed" },
                { 52, 409, "protocol-mismatch" },
                { 53, 410, "declined" },
        };

        for (size_t i = 0; i < UNIT_COUNT(known); i++) {
                assert_string_equal(ferry_error_code(known[i].number), known[i].code);
                assert_int_equal(ferry_error_http(known[i].number), known[i].http);
        }
}
