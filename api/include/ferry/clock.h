/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FERRY_CLOCK_H
#define FERRY_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Microseconds of the monotonic clock. */
static inline uint64_t ferry_clock_us(void)
{
        struct timespec now;

        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* Milliseconds of the same clock; never 0, which can stand for "none". */
static inline uint64_t ferry_clock_ms(void)
{
        return ferry_clock_us() / 1000 + 1;
}

#endif
