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

TEST(each_parameter_becomes_a_number)
{
        struct http_query query = { 0 };

        assert_true(add(&query, ALL, "wait_ms", "30000"));
        assert_true(add(&query, ALL, "revision", "0"));
        assert_true(add(&query, ALL, "limit", "1"));
        assert_true(add(&query, ALL, "offset", "9007199254740991"));
        assert_true(add(&query, ALL, "kind", "writable"));
        assert_true(add(&query, ALL, "status", "IN_PROGRESS"));
        assert_true(add(&query, ALL, "include", "metadata"));
        assert_int_equal(query_value(&query, HTTP_PARAMETER_WAIT_MS), 30000);
        assert_true(query_has(&query, HTTP_PARAMETER_REVISION));
        assert_int_equal(query_value(&query, HTTP_PARAMETER_KIND), FERRY_WRITABLE);
        assert_int_equal(query_value(&query, HTTP_PARAMETER_STATUS), FERRY_IN_PROGRESS);
        assert_int_equal(query_value(&query, HTTP_PARAMETER_OFFSET), (UINT64_C(1) << 53) - 1);
        assert_true(add(&query, ALL, "wait_for", "any"));
        assert_true(add(&query, ALL, "ids", "a,b"));
        assert_int_equal(query_value(&query, HTTP_PARAMETER_WAIT_FOR), HTTP_WAIT_FOR_ANY);
        assert_string_equal(query_text(&query, HTTP_PARAMETER_IDS), "a,b");
        assert_false(query_has(&query, HTTP_PARAMETER_AFTER));
}

/* A cap is for any number, and a '&' at the end is no parameter. */
TEST(numbers_of_any_length_can_be_capped)
{
        static const char *const huge[] = { "9007199254740992", "18446744073709551615", "99999999999999999999999999" };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(huge); i++) {
                struct http_query query = { 0 };

                assert_true(add(&query, ALL, "limit", huge[i]));
                assert_true(add(&query, ALL, "wait_ms", huge[i]));
                assert_true(query_value(&query, HTTP_PARAMETER_LIMIT) >= UINT64_C(1) << 53);
                assert_true(query_value(&query, HTTP_PARAMETER_WAIT_MS) >= UINT64_C(1) << 53);
                assert_true(add(&query, ALL, "", NULL));
                assert_false(add(&query, ALL, "", "1"));
        }
}

TEST(bad_values_are_refused)
{
        static const struct {
                const char *name, *value;
        } bad[] = {
                { "wait_ms", "" },
                { "wait_ms", NULL },
                { "wait_ms", "-1" },
                { "wait_ms", "1e3" },
                { "wait_ms", " 1" },
                { "wait_ms", "0x1" },
                { "offset", "9007199254740992" },
                { "offset", "99999999999999999999999999" },
                { "limit", "0" },
                { "kind", "Readable" },
                { "kind", "" },
                { "status", "done" },
                { "include", "all" },
                { "wait_for", "" },
                { "wait_for", "ALL" },
                { "ids", "" },
                { "ids", "a,\xff" },
                { "ids", "a\nb" },
                { "label", "" },
                { "label", "a label of 65 bytes, which no operation has: their labels have 64" },
                { "after", "5" },
                { "after", "c_" },
                { "after", "c_000000000000000" },
        };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(bad); i++) {
                struct http_query query = { 0 };
                if (add(&query, ALL, bad[i].name, bad[i].value))
                        fail_msg("%s=%s was taken", bad[i].name, bad[i].value);
                assert_non_null(strstr(detail, bad[i].name));
        }
}

TEST(a_nul_in_a_value_is_refused)
{
        struct http_query query = { 0 };

        assert_false(query_add(&query, ALL, "limit", "5\0x", 3, detail));
}

TEST(a_parameter_given_twice_is_refused)
{
        struct http_query query = { 0 };

        assert_true(add(&query, ALL, "limit", "5"));
        assert_false(add(&query, ALL, "limit", "5"));
}

TEST(what_the_route_does_not_take_is_refused)
{
        struct http_query query = { 0 };

        assert_false(add(&query, ALL, "nothing", "1"));
        assert_false(add(&query, ALL & ~(1u << HTTP_PARAMETER_LIMIT), "limit", "1"));
        assert_false(add(&query, 0, "limit", "1"));
        assert_int_equal(query.present, 0);
}

TEST(cursors_go_out_and_come_back)
{
        struct http_query query = { 0 };
        char text[QUERY_CURSOR_SIZE];

        query_format_cursor(0x123456789abcdef0, text);
        assert_true(add(&query, ALL, "after", text));
        assert_true(query_value(&query, HTTP_PARAMETER_AFTER) == 0x123456789abcdef0);
}

TEST(every_parameter_has_a_name)
{
        for (int i = 0; i < HTTP_PARAMETER_COUNT; i++)
                assert_non_null(http_parameter_name(i));
        assert_null(http_parameter_name(-1));
        assert_null(http_parameter_name(HTTP_PARAMETER_COUNT));
}
