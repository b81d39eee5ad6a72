/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

/* Time. Any thread. */

enum { CLOCK_TEXT_LENGTH = 24, CLOCK_TEXT_SIZE = 32 };

/* CLOCK_MONOTONIC in microseconds; for deadlines and durations. */
uint64_t clock_now_us(void);

/* The earlier of two deadlines, of which 0 = never. */
static inline uint64_t clock_earlier(uint64_t a, uint64_t b)
{
        return !a || (b && b < a) ? b : a;
}

/*
 * The milliseconds from now_us to a deadline, as epoll_wait takes them: rounded up, so that no thread wakes before it
 * only to sleep again; -1 where it is UINT64_MAX, never.
 */
int clock_ms_until(uint64_t deadline_us, uint64_t now_us);

/* Unix time in milliseconds; for display and for peers. */
uint64_t clock_unix_ms(void);

/* "2026-11-20T11:01:52.123Z" of a Unix time in milliseconds. */
void clock_format(uint64_t unix_ms, char text[CLOCK_TEXT_SIZE]);

#endif
