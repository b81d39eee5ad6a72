/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVED_CLOCK_H
#define MOVED_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

/* The worker's clock, which the test moves on: links with --wrap=clock_now_us. */
static _Atomic(uint64_t) later_us; /* so much later it is */

uint64_t __real_clock_now_us(void);
uint64_t __wrap_clock_now_us(void);

uint64_t __wrap_clock_now_us(void)
{
        return __real_clock_now_us() + later_us;
}

#endif
