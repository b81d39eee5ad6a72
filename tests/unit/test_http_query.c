/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/status.h>

#include "base/util.h"
#include "serve/fields.h"
#include "unit.h"

#define ALL ((1u << HTTP_PARAMETER_COUNT) - 1)

static char detail[QUERY_DETAIL_SIZE];

static bool add(struct http_query *query, unsigned allowed, const char *name, const char *value)
{
        return query_add(query, allowed, name, value, value ? strlen(value) : 0, detail);
}

/* A cap is for any number, and a '&' at the end is no parameter. */
TEST(numbers_of_any_length_can_be_capped)
{

        FOR_EACH_TEXT (text, "9007199254740992", "18446744073709551615", "99999999999999999999999999") {
                struct http_query query = { 0 };

                assert_true(add(&query, ALL, "limit", text));
                assert_true(add(&query, ALL, "wait_ms", text));
                assert_true(query_value(&query, HTTP_PARAMETER_LIMIT) >= UINT64_C(1) << 53);
                assert_true(query_value(&query, HTTP_PARAMETER_WAIT_MS) >= UINT64_C(1) << 53);
                assert_true(add(&query, ALL, "", NULL));
                assert_false(add(&query, ALL, "", "1"));
        }
}

/* Which are wrong by the document, tests/openapi sends. */
TEST(bad_values_are_refused)
{
        static const struct {
                const char *name, *value;
        } bad[] = { { "ids", "a,\xff" }, { "ids", "a\nb" }, { "after", "5" }, { "after", "c_000000000000000" } };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(bad); i++) {
                struct http_query query = { 0 };

                test_row(bad[i].value);
                assert_false(add(&query, ALL, bad[i].name, bad[i].value));
                assert_non_null(strstr(detail, bad[i].name));
        }
}

TEST(a_parameter_given_twice_is_refused)
{
        struct http_query query = { 0 };

        assert_true(add(&query, ALL, "limit", "5"));
        assert_false(add(&query, ALL, "limit", "5"));
}

TEST(a_nul_in_a_value_is_refused)
{
        struct http_query query = { 0 };

        assert_false(query_add(&query, ALL, "limit", "5\0x", 3, detail));
}

TEST(cursors_go_out_and_come_back)
{
        struct http_query query = { 0 };
        char text[QUERY_CURSOR_SIZE];

        query_format_cursor(0x123456789abcdef0, text);
        assert_true(add(&query, ALL, "after", text));
        assert_true(query_value(&query, HTTP_PARAMETER_AFTER) == 0x123456789abcdef0);
}
