/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "region_internal.h"

/*
 * Regions that are deleted when nothing uses or finds them for a while (region_list.c). Each has a timer, which uses do
 * not move: it may fire early, and is armed again. An idle region is looked at twice: if the worker itself stood still
 * (SIGSTOP, a frozen container), requests that name the region wait in its sockets, and come before the second look.
 */

enum { SECOND_LOOK_US = 100 * 1000 };

void region_idle_touch(struct region_private *private)
{
        if (private->region.idle_ms)
                atomic_store(&private->found_us, clock_now_us());
}

static uint64_t idle_after(const struct region *region, uint64_t us)
{
        uint64_t due;

        if (__builtin_mul_overflow(region->idle_ms, UINT64_C(1000), &due) || __builtin_add_overflow(due, us, &due))
                return UINT64_MAX;
        return due;
}

uint64_t region_idle_due_us(const struct region *region)
{
        const struct region_private *private = region->private;

        if (!region->idle_ms || atomic_load(&private->state) == REGION_PREPARING ||
            (atomic_load(&private->uses) & REGION_USES) || atomic_load(&private->streams) > 0)
                return UINT64_MAX;
        return idle_after(region, atomic_load(&private->found_us));
}

bool region_idle_is_over(struct region_private *private)
{
        const bool before = private->overdue;

        private->overdue = region_idle_due_us(&private->region) <= clock_now_us();
        return before && private->overdue;
}

int region_idle_arm(struct region_private *private)
{
        uint64_t due = region_idle_due_us(&private->region);
        int r;

        if (!private->region.idle_ms)
                return 0;
        if (private->overdue)
                due = clock_now_us() + SECOND_LOOK_US;
        else if (due == UINT64_MAX) /* its end only then begins the time */
                due = idle_after(&private->region, clock_now_us());
        r = loop_timer_start(private->table->config.loop, &private->idle_timer, due);
        if (r == 0)
                atomic_fetch_add(&private->references, 1);
        return r;
}

void region_idle_disarm(struct region_private *private)
{
        if (private->region.idle_ms && loop_timer_stop(private->table->config.loop, &private->idle_timer))
                atomic_fetch_sub(&private->references, 1); /* not the last one */
}
