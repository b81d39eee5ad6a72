/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <time.h>
#include <utlist.h>

#include <ferry/error.h>

#include "base/clock.h"
#include "base/util.h"
#include "region_internal.h"

/* The state of a region, and the waiters for one that is being prepared. */

static const char *const state_names[] = {
        [REGION_PREPARING] = "preparing",
        [REGION_READY] = "ready",
        [REGION_FAILED] = "failed",
};

enum region_state region_state(const struct region *region)
{
        return (enum region_state)atomic_load(&region->private->state);
}

const char *region_state_name(enum region_state state)
{
        return state_names[state];
}

uint64_t region_bytes_prepared(const struct region *region)
{
        return region_state(region) == REGION_READY ? region->size : atomic_load(&region->private->bytes_prepared);
}

bool region_deleted(const struct region *region)
{
        return (atomic_load(&region->private->uses) & REGION_DELETED) != 0;
}

void region_state_set(struct region_private *private, enum region_state state)
{
        static const bool allowed[][3] = {
                [REGION_PREPARING] = { [REGION_READY] = true, [REGION_FAILED] = true },
                [REGION_FAILED] = { false },
        };

        assert(allowed[atomic_load(&private->state)][state]);
        atomic_store(&private->state, (int)state);
}

struct region_waiter *region_waiters_take(struct region_table *table, struct region_private *private)
{
        pthread_cond_broadcast(&table->changed);
        return FERRY_STEAL(private->waiters);
}

void region_waiters_wake(struct region_waiter *waiters)
{
        struct region_waiter *waiter, *next;

        DL_FOREACH_SAFE (waiters, waiter, next)
                waiter->wake(waiter);
}

bool region_table_ready(struct region_table *table, struct region_private *private)
{
        const uint64_t id = private->region.id;
        struct region_waiter *waiters = NULL;
        bool deleted;

        pthread_mutex_lock(&table->lock);
        deleted = region_deleted(&private->region);
        if (!deleted) {
                region_idle_touch(private);
                region_state_set(private, REGION_READY);
                waiters = region_waiters_take(table, private);
                /* Not the last one. Given back before the region can be deleted and its bytes be waited for. */
                atomic_fetch_sub(&private->references, 1);
        }
        pthread_mutex_unlock(&table->lock);
        if (!deleted)
                region_table_observe(table, id, NULL, REGION_CHANGED);
        region_waiters_wake(waiters);
        return !deleted;
}

bool region_table_failed(struct region_table *table, struct region_private *private)
{
        struct region_waiter *waiters = NULL;
        bool deleted;

        pthread_mutex_lock(&table->lock);
        deleted = region_deleted(&private->region);
        if (deleted) {
                table->bytes_freeing -= private->region.size;
        } else {
                table->bytes_reserved -= private->region.size;
                table->bytes_listed -= private->region.size;
                region_table_publish(table);
                region_idle_touch(private);
                region_state_set(private, REGION_FAILED);
                waiters = region_waiters_take(table, private);
        }
        pthread_mutex_unlock(&table->lock);
        if (!deleted)
                region_table_observe(table, private->region.id, NULL, REGION_CHANGED);
        makers_retry(table->makers);
        region_waiters_wake(waiters);
        return !deleted;
}

bool region_wait(struct region *region, struct region_waiter *waiter)
{
        struct region_private *private = region->private;
        bool waits;

        pthread_mutex_lock(&private->table->lock);
        waits = region_state(region) == REGION_PREPARING && !region_deleted(region);
        if (waits)
                DL_APPEND(private->waiters, waiter);
        pthread_mutex_unlock(&private->table->lock);
        return waits;
}

bool region_unwait(struct region *region, struct region_waiter *waiter)
{
        struct region_private *private = region->private;
        struct region_waiter *other;
        bool waited = false;

        pthread_mutex_lock(&private->table->lock);
        DL_FOREACH (private->waiters, other)
                if (other == waiter) {
                        waited = true;
                        DL_DELETE(private->waiters, waiter);
                        break;
                }
        pthread_mutex_unlock(&private->table->lock);
        return waited;
}

/* Under the lock. true: region_tell_unused will look for waiters. */
static bool await_use(struct region_private *private)
{
        return (atomic_fetch_or(&private->uses, REGION_AWAITED) & REGION_USES) > 0;
}

bool region_wait_unused(struct region *region, struct region_waiter *waiter)
{
        struct region_private *private = region->private;
        bool waits;

        pthread_mutex_lock(&private->table->lock);
        waits = await_use(private);
        if (waits)
                DL_APPEND(private->waiters, waiter);
        pthread_mutex_unlock(&private->table->lock);
        return waits;
}

void region_tell_unused(struct region *region)
{
        struct region_private *private = region->private;
        struct region_waiter *waiters = NULL;

        if (!(atomic_load(&private->uses) & REGION_AWAITED))
                return;
        pthread_mutex_lock(&private->table->lock);
        if (!(atomic_load(&private->uses) & REGION_USES)) {
                atomic_fetch_and(&private->uses, ~REGION_AWAITED);
                waiters = region_waiters_take(private->table, private);
        }
        pthread_mutex_unlock(&private->table->lock);
        region_waiters_wake(waiters);
}

void region_await_unused(struct region *region, uint64_t ms)
{
        struct region_table *table = region->private->table;
        const uint64_t until_us = clock_now_us() + ms * 1000;
        const struct timespec until = { .tv_sec = (time_t)(until_us / 1000000),
                                        .tv_nsec = (long)(until_us % 1000000) * 1000 };

        pthread_mutex_lock(&table->lock);
        while (await_use(region->private) && pthread_cond_timedwait(&table->changed, &table->lock, &until) == 0)
                ;
        pthread_mutex_unlock(&table->lock);
}

int region_await(struct region *region)
{
        struct region_table *table = region->private->table;
        int r;

        pthread_mutex_lock(&table->lock);
        while (region_state(region) == REGION_PREPARING && !region_deleted(region))
                pthread_cond_wait(&table->changed, &table->lock);
        r = region_deleted(region) ? FERRY_E_NOT_FOUND : region_state(region) == REGION_FAILED ? region->error : 0;
        pthread_mutex_unlock(&table->lock);
        return r;
}
