/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "wait.h"

enum { WATCH_PROGRESS_MS = 500 };

struct watch {
        struct wait wait; /* first */
        const char *id;
        const struct ferry_watch *wanted;
        struct ferry_operation latest;
};

static int watch_report(const struct watch *w)
{
        if (!w->wanted->progress)
                return 0;
        int r = w->wanted->progress(w->wanted->context, &w->latest);
        return r > 0 ? -EIO : r;
}

static int watch_ask(struct wait *wait, uint64_t slice_ms, uint64_t limit_ms)
{
        struct watch *w = (struct watch *)wait;
        struct ferry_operation operation = { 0 };
        const struct request how = { .deadline_ms = limit_ms, .awaits = true };
        int r = operation_fetch(wait->f, w->id, slice_ms, 0, &how, &operation);
        if (r != 0)
                return r;
        ferry_operation_clear(&w->latest);
        w->latest = operation;
        r = watch_report(w);
        wait->over = r < 0 || w->latest.done;
        return r;
}

int ferry_watch_operation(struct ferry *f, const char *id, const struct ferry_watch *watch,
                          struct ferry_operation *ret_operation)
{
        int r = ARGUMENT_CHECK(f, watch);
        if (r < 0)
                return r;
        struct watch w = { .wait = { .f = f, .time.away_ms = watch->away_ms, .ask = watch_ask },
                           .id = id,
                           .wanted = watch };
        if (watch->progress)
                w.wait.interval_ms = watch->interval_ms ? watch->interval_ms : WATCH_PROGRESS_MS;
        r = wait_run(&w.wait, watch->timeout_ms);
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
