/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <time.h>

#include "base/util.h"

/* 9999-12-31T23:59:59.999Z, the last time that RFC 3339 can write. */
static const uint64_t clock_last_unix_ms = UINT64_C(253402300799999);

uint64_t clock_now_us(void)
{
        struct timespec now;
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

uint64_t clock_unix_ms(void)
{
        struct timespec now;
        (void)clock_gettime(CLOCK_REALTIME, &now);
        return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

/* n digits, leading zeros included. */
static char *put_digits(char *at, unsigned number, unsigned n)
{
        for (unsigned i = n; i-- > 0; number /= 10)
                at[i] = (char)('0' + number % 10);
        return at + n;
}

void clock_format(uint64_t unix_ms, char text[CLOCK_TEXT_SIZE])
{
        if (unix_ms > clock_last_unix_ms)
                unix_ms = clock_last_unix_ms;
        time_t seconds = (time_t)(unix_ms / 1000);
        struct tm utc;
        (void)gmtime_r(&seconds, &utc);
        const struct {
                int number;
                unsigned n;
                char after;
        } parts[] = { { utc.tm_year + 1900, 4, '-' },   { utc.tm_mon + 1, 2, '-' }, { utc.tm_mday, 2, 'T' },
                      { utc.tm_hour, 2, ':' },          { utc.tm_min, 2, ':' },     { utc.tm_sec, 2, '.' },
                      { (int)(unix_ms % 1000), 3, 'Z' } };
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(parts); i++) {
                text = put_digits(text, (unsigned)parts[i].number, parts[i].n);
                *text++ = parts[i].after;
        }
        *text = '\0';
}
