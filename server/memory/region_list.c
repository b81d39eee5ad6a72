/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include <ferry/encoding.h>
#include <ferry/error.h>

#include "base/log.h"
#include "base/util.h"
#include "region_internal.h"

/*
 * The lists of a table: adding a region, finding it, pages, and taking it off. A region is in by_id and in ordered, by
 * ascending serial number, which is the cursor of a page; both under the table's lock. Who takes a region off the lists
 * ends it (region_end), after the lock is given back, since that waits for the engine.
 */

/* Index of the first region whose serial is greater. Under the lock. */
static size_t ordered_after(const struct region_table *table, uint64_t serial)
{
        return FERRY_FIRST_INDEX(table->n_regions, i, table->ordered[i]->private->serial > serial);
}

/* Under the lock; the region is listed. */
static void unlist(struct region_table *table, struct region_private *private)
{
        HASH_DEL(table->by_id, private);
        size_t i = ordered_after(table, private->serial) - 1;
        memmove(&table->ordered[i], &table->ordered[i + 1], (table->n_regions - i - 1) * sizeof(struct region *));
        table->n_regions--;
        table->n_held -= private->region.held;
        if (region_state(&private->region) != REGION_FAILED)
                table->bytes_listed -= region_own_bytes(private);
        region_table_publish(table);
}

static struct region_private *find_listed(struct region_table *table, uint64_t id)
{
        struct region_private *private;
        HASH_FIND(hh, table->by_id, &id, sizeof(id), private);
        return private;
}

/* Takes a deleted region off the lists. Returns the waiters to be woken. Under the lock. */
static struct region_waiter *delete_locked(struct region_table *table, struct region_private *private)
{
        enum region_state state = region_state(&private->region);

        region_idle_disarm(private);
        unlist(table, private);
        /* Being freed from now on if a task is to do it, else from the last reference on. */
        if (private->owned &&
            (state == REGION_PREPARING || (state == REGION_READY && region_is_ended_in_pool(private))))
                region_table_begin_freeing_locked(table, private);
        return region_waiters_take(table, private);
}

struct region_table *region_table_free(struct region_table *table)
{
        struct region_waiter *waiters;

        if (!table)
                return NULL;
        pthread_mutex_lock(&table->lock);
        while (table->n_regions > 0) {
                struct region_private *private = table->ordered[table->n_regions - 1]->private;

                atomic_fetch_or(&private->uses, REGION_DELETED);
                waiters = delete_locked(table, private);
                pthread_mutex_unlock(&table->lock);
                region_waiters_wake(waiters);
                region_end(private);
                pthread_mutex_lock(&table->lock);
        }
        pthread_mutex_unlock(&table->lock);
        pool_user_stop(table->tasks);
        region_table_unref(table);
        return NULL;
}

struct region *region_find(struct region_table *table, uint64_t id)
{
        pthread_mutex_lock(&table->lock);
        struct region_private *private = find_listed(table, id);
        struct region *region = private ? region_ref(&private->region) : NULL;
        if (region)
                region_idle_touch(private);
        pthread_mutex_unlock(&table->lock);
        return region;
}

struct region *region_named(struct region_table *table, const char *name, struct region *before)
{
        uint64_t id;

        if (!ferry_id_parse("rgn_", name, &id))
                return NULL;
        return before && before->id == id ? region_ref(before) : region_find(table, id);
}

/* Marks a region without a use as deleted. Under the lock. */
static bool delete_unused(struct region_private *private)
{
        uint32_t uses = atomic_load(&private->uses) & REGION_AWAITED;

        return atomic_compare_exchange_strong(&private->uses, &uses, REGION_DELETED | uses);
}

enum deleter { BY_CLIENT, BY_HOLDER, BY_TIMER };

/*
 * Takes a region off the lists, and ends it. A timer that finds it in use is armed anew. Returns 0 or the FERRY_E_* of
 * region_delete().
 */
static int delete_listed(struct region_table *table, uint64_t id, enum deleter by)
{
        struct region_waiter *waiters = NULL;
        int r = 0;

        pthread_mutex_lock(&table->lock);
        struct region_private *private = find_listed(table, id);
        if (!private)
                r = FERRY_E_NOT_FOUND;
        else if (private->region.held && by != BY_HOLDER)
                r = FERRY_E_REGION_HELD;
        else if (by == BY_TIMER && !region_idle_is_over(private))
                r = FERRY_E_REGION_IN_USE;
        else if (!delete_unused(private))
                r = FERRY_E_REGION_IN_USE;
        else
                waiters = delete_locked(table, private);
        if (r == FERRY_E_REGION_IN_USE && by == BY_TIMER) /* if memory is short, the region stays */
                (void)region_idle_arm(private);
        pthread_mutex_unlock(&table->lock);
        if (r != 0)
                return r;
        region_waiters_wake(waiters);
        /* Tasks for deleted regions need not wait for room. */
        pool_retry(table->tasks);
        region_table_observe(table, id, &private->region, REGION_UNLISTED);
        region_end(private);
        return 0;
}

int region_delete(struct region_table *table, uint64_t id)
{
        return delete_listed(table, id, BY_CLIENT);
}

int region_delete_held(struct region_table *table, uint64_t id)
{
        return delete_listed(table, id, BY_HOLDER);
}

/* Thread: the loop's. */
static void idle_fired(struct loop_timer *timer)
{
        struct region_private *private = FERRY_CONTAINER_OF(timer, struct region_private, idle_timer);
        char id[FERRY_ID_TEXT_SIZE];

        ferry_id_format("rgn_", private->region.id, id);
        if (delete_listed(private->table, private->region.id, BY_TIMER) == 0)
                log_event(LOG_INFO, "idle region deleted", LOG_S("region", id),
                          LOG_U("idle_ms", private->region.idle_ms));
        (void)region_unref(&private->region);
}

int region_table_add(struct region_table *table, struct region_private *private)
{
        int r = -ENOMEM;
        pthread_mutex_lock(&table->lock);
        HASH_ADD(hh, table->by_id, region.id, sizeof(private->region.id), private);
        if (private->hh.tbl) {
                private->idle_timer.fired = idle_fired;
                region_idle_touch(private);
                r = region_idle_arm(private);
                if (r < 0)
                        HASH_DEL(table->by_id, private);
        }
        if (r == 0) {
                private->serial = ++table->last_serial;
                table->ordered[table->n_regions++] = &private->region;
                table->n_pending--;
                table->bytes_listed += region_own_bytes(private);
                region_table_publish(table);
        }
        pthread_mutex_unlock(&table->lock);
        if (r == 0)
                region_table_observe(table, private->region.id, NULL, REGION_LISTED);
        return r;
}

size_t region_page(struct region_table *table, uint64_t *cursor, struct region **page, size_t n)
{
        pthread_mutex_lock(&table->lock);
        size_t first = ordered_after(table, *cursor);
        size_t left = table->n_regions - first;
        size_t stored = left < n ? left : n;
        for (size_t i = 0; i < stored; i++)
                page[i] = region_ref(table->ordered[first + i]);
        if (stored == left)
                *cursor = 0;
        else if (stored > 0)
                *cursor = page[stored - 1]->private->serial;
        pthread_mutex_unlock(&table->lock);
        return stored;
}
