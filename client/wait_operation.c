/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "client_internal.h"
#include "sizes.h"

#define WAIT_LONGEST_MS (UINT64_MAX / 4) /* from here on it is forever */

enum {
        WAIT_REQUEST_MS = 30000, /* of one parked request */
        WAIT_ANSWER_MS = 1000,   /* how late the last answer may be */
        WAIT_AWAY_MS = 60000,    /* a worker that cannot be reached for so long is given up */
        WAIT_PAUSE_MS = 200,     /* between attempts to reach it, beside those of perform */
        WAIT_EARLY_MS = 50,      /* a worker that does not wait is asked no more often than this */
        WAIT_PROGRESS_MS = 500,
};

/* One wait; lives on the stack of ferry_watch_operation. Times are those of clock_ms. */
struct wait {
        struct ferry *f;
        const char *id;
        const struct ferry_watch *watch;
        uint64_t deadline_ms;            /* UINT64_MAX = none */
        uint64_t seen_ms;                /* when the worker last answered */
        const struct ferry_sizes *sizes; /* of the program */
        struct ferry_operation latest;   /* ours, with descriptors as the program knows them */
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
        return w->deadline_ms != UINT64_MAX ||
               clock_ms() - w->seen_ms < (w->watch->away_ms ? w->watch->away_ms : WAIT_AWAY_MS);
}

static int wait_take(struct wait *w, struct ferry_operation *operation)
{
        int r = operation_give_descriptors(operation, w->sizes->descriptor);
        if (r < 0) {
                ferry_operation_clear(operation);
                return r;
        }
        ferry_operation_clear(&w->latest);
        w->latest = *operation;
        w->seen_ms = clock_ms();
        return 0;
}

static int wait_report(const struct wait *w)
{
        if (!w->watch->progress)
                return 0;
        int r = w->watch->progress(w->watch->context, &w->latest);
        return r > 0 ? -EIO : r;
}

/* How long the next request is parked: 0 for the first one of a watcher, who wants to see something at once. */
static uint64_t wait_slice(const struct wait *w, uint64_t now, bool first)
{
        uint64_t rest = w->deadline_ms > now ? w->deadline_ms - now : 0, slice = WAIT_REQUEST_MS;
        if (w->watch->progress)
                slice = first ? 0 : w->watch->interval_ms ? w->watch->interval_ms : WAIT_PROGRESS_MS;
        return slice < rest ? slice : rest;
}

/* One request. 0: *ret_over says whether the wait is; or the result of the wait. */
static int wait_once(struct wait *w, bool first, bool *ret_over)
{
        struct ferry_operation operation = { 0 };
        uint64_t start = clock_ms(), slice = wait_slice(w, start, first);
        uint64_t limit = w->deadline_ms == UINT64_MAX ? 0 : w->deadline_ms + WAIT_ANSWER_MS;
        int r = operation_fetch(w->f, w->id, slice, 0, limit, &operation);
        if (r == 0) {
                r = wait_take(w, &operation);
                if (r == 0)
                        r = wait_report(w);
                *ret_over = w->latest.done;
                if (r < 0 || *ret_over)
                        return r;
        } else if (!wait_can_go_on(w, r)) {
                return r;
        }
        uint64_t now = clock_ms();
        if (now >= w->deadline_ms)
                return -ETIMEDOUT;
        uint64_t pause = r != 0                                                  ? WAIT_PAUSE_MS
                         : slice >= WAIT_EARLY_MS && now - start < WAIT_EARLY_MS ? WAIT_EARLY_MS
                                                                                 : 0;
        exchange_pause(w->f, pause < w->deadline_ms - now ? pause : w->deadline_ms - now);
        return 0;
}

int ferry_watch_operation_sized(struct ferry *f, const char *id, const struct ferry_watch *watch,
                                struct ferry_operation *ret_operation, const struct ferry_sizes *sizes)
{
        struct ferry_watch ours;
        uint64_t now = clock_ms();
        int r = sizes_take(f, &ours, sizeof(ours), watch, sizes->watch);
        if (r < 0)
                return r;
        struct wait w = { .f = f, .id = id, .watch = &ours, .sizes = sizes, .seen_ms = now };
        bool over = false;
        w.deadline_ms = ours.timeout_ms < WAIT_LONGEST_MS ? now + ours.timeout_ms : UINT64_MAX;
        r = wait_once(&w, true, &over);
        while (r == 0 && !over)
                r = wait_once(&w, false, &over);
        if (r == 0 || r == -ETIMEDOUT)
                sizes_give_up(ret_operation, sizes->operation, &w.latest, sizeof(w.latest));
        ferry_operation_clear(&w.latest);
        return r;
}

int ferry_wait_operation_sized(struct ferry *f, const char *id, uint64_t timeout_ms,
                               struct ferry_operation *ret_operation, const struct ferry_sizes *sizes)
{
        struct ferry_sizes ours = ferry_sizes_here;
        ours.operation = sizes->operation;
        ours.descriptor = sizes->descriptor;
        return ferry_watch_operation_sized(f, id, &(struct ferry_watch){ .timeout_ms = timeout_ms }, ret_operation,
                                           &ours);
}
