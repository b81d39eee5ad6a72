/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_WAIT_H
#define CLIENT_WAIT_H

#include "client_internal.h"

/* How long a wait over many requests has been, and may be. Times are those of ferry_clock_ms. */
struct wait_time {
        uint64_t deadline_ms;        /* UINT64_MAX = none */
        uint64_t away_ms;            /* without one: gives up a worker that does not answer for so long; 0 = 60000 */
        uint64_t seen_ms;            /* when the worker last answered */
        uint64_t asked_ms, slice_ms; /* of the latest request: when, and for how long it is parked */
        unsigned n_gateway;          /* answers of a gateway since the worker's last one */
};

enum { WAIT_REQUEST_MS = 30000 }; /* of one parked request */

void wait_start(struct wait_time *t, uint64_t timeout_ms);

/* Begins a request that is parked for at most most_ms. Returns when it fails; 0 = by the handle's own limits. */
uint64_t wait_ask(struct wait_time *t, uint64_t most_ms);

/*
 * Whether the wait goes on after a request with that result, which did not bring what is waited for, and after what
 * pause. Else *result becomes that of the wait.
 */
bool wait_goes_on(struct wait_time *t, struct ferry *f, int *result, uint64_t *ret_pause_ms);

/* A wait that blocks, and reconnects; lives on the stack of its call. */
struct wait {
        struct ferry *f;
        unsigned interval_ms; /* 0 = ask as seldom as possible */
        /* One request, parked for slice_ms, that fails at limit_ms (0 = the handle's own). Sets over where its result
         * is that of the wait. */
        int (*ask)(struct wait *w, uint64_t slice_ms, uint64_t limit_ms);
        bool over;
        struct wait_time time;
};

/* The result of the wait: that of the last ask, or -ETIMEDOUT. */
int wait_run(struct wait *w, uint64_t timeout_ms);

#endif
