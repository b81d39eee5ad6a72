/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <limits.h>
#include <stdbool.h>
#include <time.h>

#include <ferry/clock.h>

/*
 * Clocks and dates. Times inside the worker are of the monotonic clock, which no administrator sets; Unix time is for
 * users and peers alone. Any thread; no state.
 */

/* 9999-12-31T23:59:59.999Z, the last time that RFC 3339 can write. */
static const uint64_t clock_last_unix_ms = UINT64_C(253402300799999);

uint64_t clock_now_us(void)
{
        return ferry_clock_us();
}

int clock_ms_until(uint64_t deadline_us, uint64_t now_us)
{
        uint64_t ms = deadline_us > now_us ? (deadline_us - now_us - 1) / 1000 + 1 : 0;

        if (deadline_us == UINT64_MAX)
                return -1;
        return ms > INT_MAX ? INT_MAX : (int)ms;
}

uint64_t clock_unix_ms(void)
{
        struct timespec now;
        (void)clock_gettime(CLOCK_REALTIME, &now);
        return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

/* Writes a number below 100 in two digits, and the character after it. Returns what follows. */
static char *put_two(char *at, unsigned number, char after)
{
        at[0] = (char)('0' + number / 10);
        at[1] = (char)('0' + number % 10);
        at[2] = after;
        return at + 3;
}

/*
 * The date of a day since 1970-01-01, in the proleptic Gregorian calendar. gmtime_r takes a lock that all threads
 * share, and answers have several times in them. Counting years from March puts the leap day at the end: within a cycle
 * of 400 years, five months are always 153 days.
 */
static void date_of(uint64_t day, unsigned *ret_year, unsigned *ret_month, unsigned *ret_day)
{
        uint64_t shifted = day + 719468; /* days since 0000-03-01 */
        unsigned in_cycle = (unsigned)(shifted % 146097);
        unsigned year = (in_cycle - in_cycle / 1460 + in_cycle / 36524 - in_cycle / 146096) / 365;
        unsigned in_year = in_cycle - (365 * year + year / 4 - year / 100);
        unsigned from_march = (5 * in_year + 2) / 153;
        bool next_year = from_march >= 10;

        *ret_year = (unsigned)(shifted / 146097) * 400 + year + next_year;
        *ret_month = next_year ? from_march - 9 : from_march + 3;
        *ret_day = in_year - (153 * from_march + 2) / 5 + 1;
}

void clock_format(uint64_t unix_ms, char text[CLOCK_TEXT_SIZE])
{
        if (unix_ms > clock_last_unix_ms)
                unix_ms = clock_last_unix_ms;
        unsigned year, month, day, ms = (unsigned)(unix_ms % 86400000);
        date_of(unix_ms / 86400000, &year, &month, &day);
        text = put_two(text, year / 100, '\0') - 1;
        text = put_two(text, year % 100, '-');
        text = put_two(text, month, '-');
        text = put_two(text, day, 'T');
        text = put_two(text, ms / 3600000, ':');
        text = put_two(text, ms / 60000 % 60, ':');
        text = put_two(text, ms / 1000 % 60, '.');
        *text++ = (char)('0' + ms % 1000 / 100);
        text = put_two(text, ms % 100, 'Z');
        *text = '\0';
}
