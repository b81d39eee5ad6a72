/* SPDX-License-Identifier: Apache-2.0 */
#include "wait.h"

#include <errno.h>

#include <ferry/clock.h>

#include "retry.h"

#define WAIT_LONGEST_MS (UINT64_MAX / 4) /* from here on it is forever */

enum {
        WAIT_ANSWER_MS = 1000, /* how late the last answer may be */
        WAIT_AWAY_MS = 60000,  /* a worker that cannot be reached for so long is given up */
        WAIT_PAUSE_MS = 200,   /* between tries to reach it, beside those of call_retry */
        WAIT_EARLY_MS = 50,    /* a worker that does not wait is asked no more often than this */
};

void wait_start(struct wait_time *t, uint64_t timeout_ms)
{
        t->seen_ms = ferry_clock_ms();
        t->deadline_ms = timeout_ms < WAIT_LONGEST_MS ? t->seen_ms + timeout_ms : UINT64_MAX;
}

static uint64_t wait_left(const struct wait_time *t, uint64_t now)
{
        return t->deadline_ms > now ? t->deadline_ms - now : 0;
}

uint64_t wait_ask(struct wait_time *t, uint64_t most_ms)
{
        t->asked_ms = ferry_clock_ms();
        uint64_t left = wait_left(t, t->asked_ms);
        t->slice_ms = most_ms < left ? most_ms : left;
        return t->deadline_ms == UINT64_MAX ? 0 : t->deadline_ms + WAIT_ANSWER_MS;
}

static bool wait_may_reconnect(const struct ferry *f, int result)
{
        switch (result) {
        case -ECONNREFUSED:
        case -ECONNRESET:
        case -EHOSTUNREACH:
        case -ETIMEDOUT:
                return true;
        default:
                /* Draining or overloaded: the operation goes on meanwhile. */
                return result > 0 && (f->problem.http_status == 429 || f->problem.http_status == 503);
        }
}

/* A gateway has answered in the worker's place: the pause until the next request. */
static uint64_t wait_gateway(struct wait_time *t, const struct ferry *f)
{
        t->n_gateway++;
        uint64_t asked_ms = f->problem.retry_after_ms;
        return asked_ms && asked_ms < RETRY_LONGEST_MS ? asked_ms : retry_gateway_pause(t->n_gateway);
}

bool wait_goes_on(struct wait_time *t, struct ferry *f, int *result, uint64_t *ret_pause_ms)
{
        uint64_t now = ferry_clock_ms(), left = wait_left(t, now), pause = WAIT_PAUSE_MS;
        if (*result == 0) {
                t->seen_ms = now;
                t->n_gateway = 0;
                pause = t->slice_ms >= WAIT_EARLY_MS && now - t->asked_ms < WAIT_EARLY_MS ? WAIT_EARLY_MS : 0;
        } else if (!wait_may_reconnect(f, *result) ||
                   (t->deadline_ms == UINT64_MAX && now - t->seen_ms >= (t->away_ms ? t->away_ms : WAIT_AWAY_MS))) {
                return false;
        } else if (*result < 0 && f->problem.http_status) {
                pause = wait_gateway(t, f);
        }
        if (left == 0) {
                *result = *result == 0 ? problem_late(f) : -ETIMEDOUT;
                return false;
        }
        *ret_pause_ms = pause < left ? pause : left;
        return true;
}

int wait_run(struct wait *w, uint64_t timeout_ms)
{
        uint64_t pause, most = w->interval_ms ? 0 : WAIT_REQUEST_MS; /* a watcher wants to see something at once */
        wait_start(&w->time, timeout_ms);
        for (;;) {
                uint64_t limit = wait_ask(&w->time, most);
                int r = w->ask(w, w->time.slice_ms, limit);
                if (w->over || !wait_goes_on(&w->time, w->f, &r, &pause))
                        return r;
                call_pause(w->f, pause);
                most = w->interval_ms ? w->interval_ms : WAIT_REQUEST_MS;
        }
}
