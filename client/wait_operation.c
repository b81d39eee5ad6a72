/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "sizes.h"
#include "wait.h"

enum { WATCH_PROGRESS_MS = 500 };

struct watch {
        struct wait wait; /* first */
        const char *id;
        const struct ferry_watch *wanted;
        const struct ferry_sizes *sizes; /* of the program */
        struct ferry_operation latest;   /* ours, with descriptors as the program knows them */
};

static int watch_take(struct watch *w, struct ferry_operation *operation)
{
        int r = operation_give_descriptors(operation, w->sizes->descriptor);
        if (r < 0) {
                ferry_operation_clear(operation);
                return r;
        }
        ferry_operation_clear(&w->latest);
        w->latest = *operation;
        return 0;
}

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
        r = watch_take(w, &operation);
        if (r == 0)
                r = watch_report(w);
        wait->over = r < 0 || w->latest.done;
        return r;
}

int ferry_watch_operation_sized(struct ferry *f, const char *id, const struct ferry_watch *watch,
                                struct ferry_operation *ret_operation, const struct ferry_sizes *sizes)
{
        struct ferry_watch ours;
        int r = sizes_take(f, &ours, sizeof(ours), watch, sizes->watch);
        if (r < 0)
                return r;
        struct watch w = { .wait = { .f = f, .time.away_ms = ours.away_ms, .ask = watch_ask },
                           .id = id,
                           .wanted = &ours,
                           .sizes = sizes };
        if (ours.progress)
                w.wait.interval_ms = ours.interval_ms ? ours.interval_ms : WATCH_PROGRESS_MS;
        r = wait_run(&w.wait, ours.timeout_ms);
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
