/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <utlist.h>

#include <ferry/error.h>

#include "base/clock.h"
#include "base/thread.h"
#include "base/util.h"
#include "memory/gpu.h"
#include "region_internal.h"

/*
 * The states of a region, its waiters, its idle timer, and its end. A state changes once, under the table's lock, after
 * the fields that are valid from then on were set; readers load it without. Waiters are taken under the lock and woken
 * without.
 */

/* ---- states, and the waiters for one that is being prepared ---- */

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
        pool_retry(table->tasks);
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
        const uint64_t deadline_us = clock_now_us() + ms * 1000;

        pthread_mutex_lock(&table->lock);
        while (await_use(region->private) && condition_wait(&table->changed, &table->lock, deadline_us))
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

/* ---- idle regions ---- */

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

/* us plus idle_ms; UINT64_MAX when that is too far. */
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

/* ---- the end ---- */

/*
 * References to a region, and the end of its memory in two steps. region_end, when the region is off the
 * lists: the registrar deregisters the memory. free_region, when the last reference is given back: the pages are freed.
 * Large memory takes both steps on a thread of the pool; small memory that a GPU has pinned, the first.
 */

struct pool_devices region_devices(const struct region_private *private)
{
        const struct region_registrar *registrar = &private->table->config.registrar;
        unsigned n;

        if (private->on_gpu)
                return (struct pool_devices){ .one = gpu_parse(private->region.device, &n) ? 1 + n : 0 };
        return (struct pool_devices){ .one = private->registered && registrar->gpu
                                                     ? registrar->gpu(private->region.registration)
                                                     : 0 };
}

bool region_task_add(struct region_private *private, void (*work)(struct pool_task *task))
{
        private->task = (struct pool_task){ .done = work, .class = POOL_MAKE, .devices = region_devices(private) };
        return pool_add(private->table->tasks, &private->task);
}

bool region_is_ended_in_pool(const struct region_private *private)
{
        return region_is_large(private) || (private->owned && region_devices(private).one > 0);
}

void region_deregister(struct region_private *private)
{
        const struct region_registrar *registrar = &private->table->config.registrar;

        if (private->registered && registrar->deregister_region)
                registrar->deregister_region(registrar->context, private->region.registration);
        private->registered = false;
}

void region_memory_free(struct region_private *private)
{
        struct region *region = &private->region;

        if (private->on_gpu)
                gpu_free(FERRY_STEAL(region->space));
        else
                pages_free(&private->pages);
        region->address = NULL;
}

struct region_private *region_private_free(struct region_private *private)
{
        if (private->on_gpu)
                gpu_free(private->region.space);
        else
                foreign_free(private->region.space);
        region_table_unref(private->table);
        free(private);
        return NULL;
}

/* The last step of large memory, on a thread of the pool, or on the caller's where there is none. */
static void free_now(struct pool_task *task)
{
        struct region_private *private = region_of_task(task);

        region_memory_free(private);
        region_table_end_freeing(private->table, private);
        region_private_free(private);
}

/* Frees the worker's own memory of a region without references, then the region; large memory in the pool. */
static void free_region(struct region_private *private)
{
        region_table_begin_freeing(private->table, private);
        if (!region_is_large(private) || !region_task_add(private, free_now))
                free_now(&private->task);
}

struct region *region_ref(struct region *region)
{
        atomic_fetch_add(&region->private->references, 1);
        return region;
}

struct region *region_unref(struct region *region)
{
        if (!region || atomic_fetch_sub(&region->private->references, 1) != 1)
                return NULL;
        if (region->private->owned && region->address)
                free_region(region->private);
        else
                region_private_free(region->private);
        return NULL;
}

/* The first step: waits for the engine, then gives back the table's reference. */
static void deregister_now(struct pool_task *task)
{
        struct region_private *private = region_of_task(task);

        region_deregister(private);
        region_table_keep(private->table, private);
        (void)region_unref(&private->region);
}

void region_end(struct region_private *private)
{
        const bool ready = region_state(&private->region) == REGION_READY;

        if (!ready || !region_is_ended_in_pool(private)) {
                if (ready)
                        region_deregister(private);
                (void)region_unref(&private->region);
        } else if (!region_task_add(private, deregister_now)) {
                deregister_now(&private->task);
        }
}
