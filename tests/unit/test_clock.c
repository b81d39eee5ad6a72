/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <time.h>

#include "base/clock.h"
#include "base/util.h"

#include "unit.h"

TEST(formats_known_times)
{
        static const struct {
                uint64_t unix_ms;
                const char *text;
        } cases[] = {
                { 0, "1970-01-01T00:00:00.000Z" },
                { 999, "1970-01-01T00:00:00.999Z" },
                { UINT64_C(1709164800001), "2024-02-29T00:00:00.001Z" },
                { UINT64_C(1795172512123), "2026-11-20T11:01:52.123Z" },
                { UINT64_C(253402300799999), "9999-12-31T23:59:59.999Z" },
        };
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(cases); i++) {
                char text[CLOCK_TEXT_SIZE];
                clock_format(cases[i].unix_ms, text);
                assert_string_equal(text, cases[i].text);
        }
}

TEST(clamps_times_that_rfc3339_cannot_write)
{
        char text[CLOCK_TEXT_SIZE];
        clock_format(UINT64_C(253402300800000), text);
        assert_string_equal(text, "9999-12-31T23:59:59.999Z");
        clock_format(UINT64_MAX, text);
        assert_string_equal(text, "9999-12-31T23:59:59.999Z");
}

TEST(every_day_is_the_calendar_s)
{
        for (uint64_t day = 0; day < 2932897; day++) { /* to the end of 9999 */
                time_t seconds = (time_t)(day * 86400 + day % 86400);
                char text[CLOCK_TEXT_SIZE], expected[CLOCK_TEXT_SIZE];
                struct tm utc;

                (void)gmtime_r(&seconds, &utc);
                (void)strftime(expected, sizeof(expected), "%Y-%m-%dT%H:%M:%S.000Z", &utc);
                clock_format((uint64_t)seconds * 1000, text);
                assert_string_equal(text, expected);
        }
}

TEST(now_us_is_the_monotonic_clock)
{
        struct timespec before, after;
        clock_gettime(CLOCK_MONOTONIC, &before);
        uint64_t now = clock_now_us();
        clock_gettime(CLOCK_MONOTONIC, &after);
        assert_in_range(now, (uint64_t)before.tv_sec * 1000000 + (uint64_t)before.tv_nsec / 1000,
                        (uint64_t)after.tv_sec * 1000000 + (uint64_t)after.tv_nsec / 1000);
}

TEST(unix_ms_is_the_wall_clock)
{
        time_t before = time(NULL);
        uint64_t now = clock_unix_ms();
        assert_in_range(now / 1000, (uint64_t)before - 1, (uint64_t)time(NULL) + 1);
}

TEST(random_bytes_fill_all_of_large_buffers)
{
        enum { SIZE = 1 << 20 };
        static unsigned char buffer[SIZE];
        size_t counts[256] = { 0 };
        random_bytes(buffer, sizeof(buffer));
        for (size_t i = 0; i < SIZE; i++)
                counts[buffer[i]]++;
        for (size_t i = 0; i < 256; i++)
                assert_in_range(counts[i], SIZE / 256 / 2, SIZE / 256 * 2);
}

TEST(random_ids_differ_and_are_not_zero)
{
        uint64_t last = 0;
        for (int i = 0; i < 1000; i++) {
                uint64_t id = random_id();
                assert_int_not_equal(id, 0);
                assert_int_not_equal(id, last);
                last = id;
        }
}

TEST(the_milliseconds_to_a_deadline_are_rounded_up_and_fit_an_int)
{
        assert_int_equal(clock_ms_until(UINT64_MAX, 5), -1);
        assert_int_equal(clock_ms_until(5, 5), 0);
        assert_int_equal(clock_ms_until(4, 5), 0);
        assert_int_equal(clock_ms_until(6, 5), 1);
        assert_int_equal(clock_ms_until(1005, 5), 1);
        assert_int_equal(clock_ms_until(1006, 5), 2);
        assert_int_equal(clock_ms_until(UINT64_MAX - 1, 0), INT_MAX);
}
