/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <utlist.h>

#include <ferry/error.h>

#include "base/util.h"
#include "region_internal.h"

/* What becomes of a region that is being prepared, and whoever waits for it. */

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
                region_state_set(private, REGION_READY);
                waiters = region_waiters_take(table, private);
                /* Not the last, and gone before anybody can delete the region and need its bytes. */
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
                table->bytes_leaving -= private->region.size;
        } else {
                table->bytes_owned -= private->region.size;
                table->bytes_listed -= private->region.size;
                region_table_publish(table);
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
