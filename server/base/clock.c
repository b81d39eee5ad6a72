/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <stdio.h>
#include <time.h>

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

void clock_format(uint64_t unix_ms, char text[CLOCK_TEXT_SIZE])
{
        if (unix_ms > clock_last_unix_ms)
                unix_ms = clock_last_unix_ms;
        time_t seconds = (time_t)(unix_ms / 1000);
        struct tm utc;
        (void)gmtime_r(&seconds, &utc);
        size_t length = strftime(text, CLOCK_TEXT_SIZE, "%Y-%m-%dT%H:%M:%S", &utc);
        (void)snprintf(text + length, CLOCK_TEXT_SIZE - length, ".%03uZ", (unsigned)(unix_ms % 1000));
}
