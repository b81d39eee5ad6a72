/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_WAIT_H
#define CLIENT_WAIT_H

#include "client_internal.h"

/* One wait over many requests, which reconnects; lives on the stack of its call. Times are those of ferry_clock_ms. */
struct wait {
        struct ferry *f;
        unsigned interval_ms; /* 0 = ask as seldom as possible */
        unsigned away_ms;     /* of a wait without end: give up a worker that does not answer for so long; 0 = 60000 */
        /* One request, parked for slice_ms, that fails at limit_ms (0 = the handle's own). Sets over where its result
         * is that of the wait. */
        int (*ask)(struct wait *w, uint64_t slice_ms, uint64_t limit_ms);
        bool over;
        uint64_t deadline_ms; /* UINT64_MAX = none */
        uint64_t seen_ms;     /* when the worker last answered */
};

/* The result of the wait: that of the last ask, or -ETIMEDOUT. */
int wait_run(struct wait *w, uint64_t timeout_ms);

#endif
