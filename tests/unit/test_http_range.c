/* SPDX-License-Identifier: Apache-2.0 */
#include "api_internal.h"
#include "base/util.h"
#include "unit.h"

static void check(const char *header, uint64_t size, enum range_result result, uint64_t first, uint64_t last)
{
        uint64_t got_first = 0, got_last = 0;

        enum range_result got = range_parse(header, size, &got_first, &got_last);
        if (got != result || got_first != first || got_last != last)
                fail_msg("%s of %ju: %d %ju-%ju", header ? header : "nothing", (uintmax_t)size, got,
                         (uintmax_t)got_first, (uintmax_t)got_last);
}

TEST(single_ranges_are_parts)
{
        check("bytes=0-0", 10, RANGE_PARTIAL, 0, 0);
        check("bytes=2-5", 10, RANGE_PARTIAL, 2, 5);
        check("bytes=9-", 10, RANGE_PARTIAL, 9, 9);
        check("bytes=0-", 1, RANGE_PARTIAL, 0, 0);
        check("BYTES= 2-5 ", 10, RANGE_PARTIAL, 2, 5);
}

TEST(an_end_beyond_the_content_is_cut)
{
        check("bytes=5-99", 10, RANGE_PARTIAL, 5, 9);
        check("bytes=5-18446744073709551616", 10, RANGE_PARTIAL, 5, 9);
}

TEST(suffixes_count_from_the_end)
{
        check("bytes=-1", 10, RANGE_PARTIAL, 9, 9);
        check("bytes=-10", 10, RANGE_PARTIAL, 0, 9);
        check("bytes=-99999999999999999999999", 10, RANGE_PARTIAL, 0, 9);
        check("bytes=-0", 10, RANGE_UNSATISFIABLE, 0, 0);
}

TEST(a_start_beyond_the_content_is_unsatisfiable)
{
        check("bytes=10-", 10, RANGE_UNSATISFIABLE, 0, 0);
        check("bytes=10-20", 10, RANGE_UNSATISFIABLE, 0, 0);
        check("bytes=99999999999999999999999-", 10, RANGE_UNSATISFIABLE, 0, 0);
        check("bytes=0-", 0, RANGE_UNSATISFIABLE, 0, 0);
        check("bytes=-5", 0, RANGE_UNSATISFIABLE, 0, 0);
}

TEST(all_else_is_the_whole_content)
{
        static const char *const others[] = { NULL,        "",           "bytes",      "bytes=",        "bytes=-",
                                              "bytes=a-b", "bytes=5-2",  "items=0-1",  "bytes=0-1,3-4", "bytes=1",
                                              "bytes=--5", "bytes=1-2x", "bytes=+1-2", "bytes=0x1-2",   "bytes=1 - 2" };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(others); i++)
                check(others[i], 10, RANGE_WHOLE, 0, 0);
}

TEST(content_ranges_name_first_and_last_byte)
{
        uint64_t first, last, total;

        assert_true(content_range_parse("bytes 500-999/1000", &first, &last, &total));
        assert_int_equal(first, 500);
        assert_int_equal(last, 999);
        assert_int_equal(total, 1000);
        assert_true(content_range_parse("Bytes 0-0/*", &first, &last, &total));
        assert_int_equal(first, 0);
        assert_int_equal(last, 0);
        assert_int_equal(total, UINT64_MAX);
        assert_true(content_range_parse("bytes 0-1/9223372036854775807", &first, &last, &total));
        assert_int_equal(total, INT64_MAX);
        FOR_EACH_TEXT (text, "bytes 0-1/9223372036854775808", "bytes 0-1/18446744073709551615",
                       "bytes 0-1/99999999999999999999999", "bytes 0-9223372036854775807/*",
                       "bytes 0-18446744073709551614/*", "bytes 0-99999999999999999999999/*", "", "bytes", "bytes 0-1",
                       "bytes=0-1/2", "bytes 1-0/2", "bytes 0-2/2", "bytes */10", "bytes 0-1/2 x", "bytes -1/2",
                       "items 0-1/2")
                if (content_range_parse(text, &first, &last, &total))
                        fail_msg("%s was taken", text);
}
