/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include <ferry/clock.h>

#include "client_internal.h"

/*
 * Waits over many requests, each of which the worker parks for up to WAIT_REQUEST_MS. A wait outlives restarts of the
 * worker and of a gateway before it: it goes on until its deadline or, where it has none, until the worker was away for
 * WAIT_AWAY_MS. struct wait_time is what such a wait has to remember, and serves ferry_aio, too.
 *
 * Thread: the one that uses the handle. wait_run() blocks it; ferry_abort() ends that.
 */

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

/* Whether the worker may be there again soon after such a result. */
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

/* ---- waits that block, and reconnect ---- */

/* Lives on the stack of its call. */
struct wait {
        struct ferry *f;
        struct path path;     /* of what is waited for */
        unsigned interval_ms; /* 0 = ask as seldom as possible */
        struct wait_time time;
        /* Decodes a good answer, and keeps it. 0, with *ret_over: whether it is what is waited for; -errno. */
        int (*take)(struct wait *w, const struct reply *reply, bool *ret_over);
};

/* One request, parked for the time's slice, that fails at limit_ms (0 = the handle's own). */
static int wait_ask_once(struct wait *w, uint64_t limit_ms, bool *ret_over)
{
        FERRY_CLEANUP(path_clear) struct path path = { .queried = w->path.queried };
        FERRY_CLEANUP(reply_clear) struct reply reply = { 0 };
        path_add(&path, w->path.text.data);
        path_query_number(&path, "wait_ms", w->time.slice_ms);
        if (path.error)
                return path.error;
        struct request request = { .exchange = { .method = "GET", .path = path.text.data, .wait_ms = w->time.slice_ms },
                                   .deadline_ms = limit_ms,
                                   .awaits = true };
        int r = call_send(w->f, &request, &reply);
        return r == 0 ? w->take(w, &reply, ret_over) : r;
}

/* r: the result of making the path. The result of the wait: that of the last request, or -ETIMEDOUT. */
static int wait_run(struct wait *w, int r, uint64_t timeout_ms)
{
        uint64_t pause, most = w->interval_ms ? 0 : WAIT_REQUEST_MS; /* a watcher wants to see something at once */
        bool over = r < 0;
        wait_start(&w->time, timeout_ms);
        while (!over) {
                r = wait_ask_once(w, wait_ask(&w->time, most), &over);
                if (over || !wait_goes_on(&w->time, w->f, &r, &pause))
                        break;
                call_pause(w->f, pause);
                most = w->interval_ms ? w->interval_ms : WAIT_REQUEST_MS;
        }
        path_clear(&w->path);
        return r;
}

/* ---- one operation ---- */

enum { WATCH_PROGRESS_MS = 500 };

struct watch {
        struct wait wait; /* first */
        const struct ferry_watch *wanted;
        struct ferry_operation latest;
};

/*
 * Keeps the latest state, and shows it. The watch is over when the operation is done, or the caller's function says so.
 */
static int watch_take(struct wait *wait, const struct reply *reply, bool *ret_over)
{
        struct watch *w = (struct watch *)wait;
        struct ferry_operation operation = { 0 };
        int r = call_decode_reply(wait->f, reply, operation_decode, &operation);
        if (r != 0)
                return r;
        ferry_operation_clear(&w->latest);
        w->latest = operation;
        if (w->wanted->progress)
                r = w->wanted->progress(w->wanted->context, &w->latest);
        *ret_over = r != 0 || w->latest.done;
        return r > 0 ? -EIO : r;
}

int ferry_watch_operation(struct ferry *f, const char *id, const struct ferry_watch *watch,
                          struct ferry_operation *ret_operation)
{
        int r = ARGUMENT_CHECK(f, watch);
        if (r < 0)
                return r;
        struct watch w = { .wait = { .f = f, .time.away_ms = watch->away_ms, .take = watch_take }, .wanted = watch };
        if (watch->progress)
                w.wait.interval_ms = watch->interval_ms ? watch->interval_ms : WATCH_PROGRESS_MS;
        r = wait_run(&w.wait, call_path(f, "/v1/operations/", id, "", &w.wait.path), watch->timeout_ms);
        if (r == 0 || r == -ETIMEDOUT)
                *ret_operation = w.latest;
        else
                ferry_operation_clear(&w.latest);
        return r;
}

int ferry_wait_operation(struct ferry *f, const char *id, uint64_t timeout_ms, struct ferry_operation *ret_operation)
{
        return ferry_watch_operation(f, id, &(struct ferry_watch){ .timeout_ms = timeout_ms }, ret_operation);
}

/* ---- several operations ---- */

struct wait_many {
        struct wait wait; /* first */
        size_t n;
        enum ferry_wait_for wait_for;
        struct ferry_operation_results latest;
};

static int wait_many_take(struct wait *wait, const struct reply *reply, bool *ret_over)
{
        struct wait_many *w = (struct wait_many *)wait;
        struct ferry_operation_results results = { 0 };
        int r = results_decode(wait->f, reply, "operations", w->n, &results);
        if (r != 0)
                return r;
        ferry_operation_results_clear(&w->latest);
        w->latest = results;
        *ret_over = results_are_done(&results, w->wait_for);
        return 0;
}

int ferry_wait_operations(struct ferry *f, const char *const *ids, size_t n, enum ferry_wait_for wait_for,
                          uint64_t timeout_ms, struct ferry_operation_results *ret_results)
{
        struct wait_many w = { .wait = { .f = f, .take = wait_many_take }, .n = n, .wait_for = wait_for };
        int r = wait_run(&w.wait, results_path(f, ids, n, wait_for, &w.wait.path), timeout_ms);
        if (r == 0 || r == -ETIMEDOUT)
                *ret_results = w.latest;
        else
                ferry_operation_results_clear(&w.latest);
        return r;
}
