/* SPDX-License-Identifier: Apache-2.0 */
#include "wait.h"

#include <errno.h>

#include <ferry/clock.h>

#define WAIT_LONGEST_MS (UINT64_MAX / 4) /* from here on it is forever */

enum {
        WAIT_REQUEST_MS = 30000, /* of one parked request */
        WAIT_ANSWER_MS = 1000,   /* how late the last answer may be */
        WAIT_AWAY_MS = 60000,    /* a worker that cannot be reached for so long is given up */
        WAIT_PAUSE_MS = 200,     /* between tries to reach it, beside those of call_send */
        WAIT_EARLY_MS = 50,      /* a worker that does not wait is asked no more often than this */
};

static bool wait_can_go_on(const struct wait *w, int result)
{
        const struct ferry_problem *problem = ferry_last_problem(w->f);
        switch (result) {
        case -ECONNREFUSED:
        case -ECONNRESET:
        case -EHOSTUNREACH:
        case -ETIMEDOUT:
                break;
        default:
                /* Draining or overloaded: the operation goes on meanwhile. */
                if (result < 0 || (problem->http_status != 429 && problem->http_status != 503))
                        return false;
        }
        return w->deadline_ms != UINT64_MAX || ferry_clock_ms() - w->seen_ms < (w->away_ms ? w->away_ms : WAIT_AWAY_MS);
}

/* How long the next request is parked: 0 for the first one of a watcher, who wants to see something at once. */
static uint64_t wait_slice(const struct wait *w, uint64_t now, bool first)
{
        uint64_t rest = w->deadline_ms > now ? w->deadline_ms - now : 0, slice = WAIT_REQUEST_MS;
        if (w->interval_ms)
                slice = first ? 0 : w->interval_ms;
        return slice < rest ? slice : rest;
}

/* One request. 0: the wait goes on unless it is over; or the result of the wait. */
static int wait_once(struct wait *w, bool first)
{
        uint64_t start = ferry_clock_ms(), slice = wait_slice(w, start, first);
        int r = w->ask(w, slice, w->deadline_ms == UINT64_MAX ? 0 : w->deadline_ms + WAIT_ANSWER_MS);
        uint64_t now = ferry_clock_ms();
        if (w->over)
                return r;
        if (r == 0)
                w->seen_ms = now;
        else if (!wait_can_go_on(w, r))
                return r;
        if (now >= w->deadline_ms)
                return r == 0 ? problem_late(w->f) : -ETIMEDOUT;
        uint64_t pause = r != 0                                                  ? WAIT_PAUSE_MS
                         : slice >= WAIT_EARLY_MS && now - start < WAIT_EARLY_MS ? WAIT_EARLY_MS
                                                                                 : 0;
        http_try_pause(w->f, pause < w->deadline_ms - now ? pause : w->deadline_ms - now);
        return 0;
}

int wait_run(struct wait *w, uint64_t timeout_ms)
{
        uint64_t now = ferry_clock_ms();
        w->seen_ms = now;
        w->deadline_ms = timeout_ms < WAIT_LONGEST_MS ? now + timeout_ms : UINT64_MAX;
        int r = wait_once(w, true);
        while (r == 0 && !w->over)
                r = wait_once(w, false);
        return r;
}
