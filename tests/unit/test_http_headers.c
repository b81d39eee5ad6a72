/* SPDX-License-Identifier: Apache-2.0 */
#include "base/util.h"
#include "serve/fields.h"
#include "unit.h"

TEST(wait_is_found_among_preferences)
{
        static const struct {
                const char *value;
                uint64_t seconds;
        } good[] = {
                { "wait=10", 10 },
                { "respond-async, wait=3", 3 },
                { "WAIT = 7", 7 },
                { "wait=\"5\"", 5 },
                { "foo=\"a, wait=1\"; x, wait=2", 2 },
                { "foo=\"a\\\", wait=1, b\", wait=2", 2 },
                { "wait=4; strict", 4 },
                { "wait=0", 0 },
                { ", ,wait=1", 1 },
                { "wait=99999999999999999999", UINT64_MAX }, /* capped later, as wait_ms is */
        };
        uint64_t seconds;

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(good); i++) {
                assert_true(headers_prefer_wait(good[i].value, &seconds));
                assert_int_equal(seconds, good[i].seconds);
        }
}

TEST(respond_async_is_found_among_preferences)
{

        FOR_EACH_TEXT (text, "respond-async", "wait=3, Respond-Async", "foo=\"a, b\",respond-async;x=1",
                       " , respond-async ,wait=1", "respond-async=1")
                assert_true(headers_prefer_async(text));
        FOR_EACH_TEXT (each, "", "respond", "respond-async2", "wait=respond-async", "x-respond-async",
                       "foo=\"x, respond-async\"", "wait=1; respond-async")
                assert_false(headers_prefer_async(each));
}

TEST(a_wait_that_is_no_number_is_no_preference)
{
        uint64_t seconds;

        FOR_EACH_TEXT (each, "", "wait", "wait=", "wait=x", "wait=-1", "wait=1.5", "awaits=1", "waiting=1", "wait=\"5",
                       "foo=\"wait=1\"", "respond-async; wait=1")
                if (headers_prefer_wait(each, &seconds))
                        fail_msg("%s was taken", each);
}

TEST(etags_match_in_lists_weak_and_strong)
{
        assert_true(headers_etag_matches("\"r2\"", "\"r2\"", true));
        assert_true(headers_etag_matches("W/\"r2\"", "\"r2\"", true));
        assert_true(headers_etag_matches("\"r1\", W/\"x,y\" ,\"r2\"", "\"r2\"", true));
        assert_true(headers_etag_matches(" * ", "\"r2\"", true));
        assert_false(headers_etag_matches("\"r22\"", "\"r2\"", true));
        assert_false(headers_etag_matches("\"r1\"", "\"r2\"", true));
        assert_false(headers_etag_matches("r2", "\"r2\"", true));
        assert_false(headers_etag_matches("\"r2", "\"r2\"", true));
        assert_false(headers_etag_matches("", "\"r2\"", true));
        assert_false(headers_etag_matches("\"r1\" \"r2\"", "\"r2\"", true));
        assert_false(headers_etag_matches("*, \"r2\"", "\"r3\"", true));
        /* If-Match compares strongly. */
        assert_true(headers_etag_matches("W/\"r2\", \"r2\"", "\"r2\"", false));
        assert_false(headers_etag_matches("W/\"r2\"", "\"r2\"", false));
        /* A resource without an ETag is there all the same. */
        assert_true(headers_etag_matches("*", "", false));
        assert_false(headers_etag_matches("\"\"", "", false));
}

TEST(lengths_are_digits_only)
{
        uint64_t length;

        assert_true(headers_parse_length("0", &length));
        assert_int_equal(length, 0);
        assert_true(headers_parse_length("9223372036854775807", &length));
        assert_int_equal(length, INT64_MAX);
        assert_false(headers_parse_length("9223372036854775808", &length));
        assert_false(headers_parse_length("99999999999999999999999", &length));
        assert_false(headers_parse_length("", &length));
        assert_false(headers_parse_length("-1", &length));
        assert_false(headers_parse_length("+1", &length));
        assert_false(headers_parse_length("1, 1", &length));
        assert_false(headers_parse_length("0x10", &length));
}

TEST(request_ids_are_bounded_and_plain)
{
        char text[66];

        assert_true(headers_request_id_valid("a"));
        assert_true(headers_request_id_valid("A-1_b.c"));
        assert_false(headers_request_id_valid(""));
        assert_false(headers_request_id_valid("a b"));
        assert_false(headers_request_id_valid("a\"b"));
        assert_false(headers_request_id_valid("\xc3\xa4"));
        memset(text, 'x', 65);
        text[65] = '\0';
        assert_false(headers_request_id_valid(text));
        text[64] = '\0';
        assert_true(headers_request_id_valid(text));
}

TEST(idempotency_keys_are_visible_ascii)
{
        char text[257];

        assert_true(headers_idempotency_key_valid("\"550e8400-e29b\""));
        assert_true(headers_idempotency_key_valid("~"));
        assert_false(headers_idempotency_key_valid(""));
        assert_false(headers_idempotency_key_valid("a b"));
        assert_false(headers_idempotency_key_valid("a\x7f"));
        assert_false(headers_idempotency_key_valid("\xff"));
        memset(text, 'x', 256);
        text[256] = '\0';
        assert_false(headers_idempotency_key_valid(text));
        text[255] = '\0';
        assert_true(headers_idempotency_key_valid(text));
}

static void add(struct http_headers *headers, const char *name, const char *value)
{
        headers_add(headers, name, value, strlen(value));
}

TEST(headers_are_found_in_any_case)
{
        struct http_headers headers = { 0 };

        add(&headers, "hOST", "h");
        add(&headers, "content-type", "t");
        add(&headers, "X-Other", "o");
        add(&headers, "X-Other", "o");
        add(&headers, "Prefer", "respond-async");
        add(&headers, "prefer", "wait=3");
        add(&headers, "Prefer", "wait=9");
        assert_string_equal(headers.host, "h");
        assert_string_equal(headers.content_type, "t");
        assert_true(headers.prefer_wait);
        assert_int_equal(headers.prefer_wait_s, 3);
        assert_null(headers.fault);
}

TEST(the_lines_of_a_list_are_one_list)
{
        struct http_headers headers = { 0 };

        add(&headers, "If-Match", "\"r1\"");
        add(&headers, "Accept", "text/html;q=0.5");
        add(&headers, "if-match", "\"r2\", \"r3\"");
        add(&headers, "IF-MATCH", "\"r4\"");
        add(&headers, "Accept", "application/json");
        FOR_EACH_TEXT (etag, "\"r1\"", "\"r2\"", "\"r3\"", "\"r4\"")
                assert_true(headers_etag_matches(headers.if_match, etag, false));
        assert_false(headers_etag_matches(headers.if_match, "\"r5\"", false));
        assert_int_equal(headers_accept(headers.accept, "text/html"), 500);
        assert_int_equal(headers_accept(headers.accept, "application/json"), 1000);
        assert_null(headers.fault);
        headers_clear(&headers);
}

TEST(of_other_repeated_headers_the_first_counts)
{
        struct http_headers headers = { 0 };

        add(&headers, "Request-Id", "one");
        add(&headers, "Request-Id", "two");
        assert_string_equal(headers.request_id, "one");
        assert_null(headers.fault);
        headers_clear(&headers);
}

TEST(a_repeated_header_is_a_fault)
{
        FOR_EACH_TEXT (name, "Content-Length", "Host", "Authorization", "Transfer-Encoding", "Content-Type", "Range",
                       "Origin", "Idempotency-Key") {
                struct http_headers headers = { 0 };
                add(&headers, name, "5");
                assert_null(headers.fault);
                add(&headers, name, "5");
                assert_non_null(headers.fault);
        }
}

TEST(a_name_that_is_no_token_is_a_fault)
{
        FOR_EACH_TEXT (name, "Content-Length ", "Transfer-Encoding\t", "", " Host", "X(y)", "X\x7f", "\xc3\xa4",
                       "a\rb") {
                struct http_headers headers = { 0 };

                add(&headers, name, "5");
                assert_non_null(headers.fault);
        }
}

TEST(a_carriage_return_in_a_value_is_a_fault)
{
        struct http_headers headers = { 0 };

        add(&headers, "X-Other", "o\rContent-Length: 5");
        assert_non_null(headers.fault);
}

TEST(a_nul_in_a_value_is_a_fault)
{
        struct http_headers headers = { 0 };

        headers_add(&headers, "Host", "localhost\0evil", 14);
        assert_non_null(headers.fault);
}
