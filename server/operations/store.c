/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "operations_internal.h"

/*
 * The store from operation_store_new() to operation_store_free(). Its stage only goes forward: open, draining (nothing
 * is created, nobody begins a use), closed (no timer is armed, the data plane is not called). Its struct lives on until
 * the last operation and the last pending callback have given back their references (references.c).
 *
 * Thread: any.
 */

int operation_store_new(const struct operation_config *config, struct operation_store **ret_store)
{
        struct operation_store *store = calloc(1, sizeof(*store));
        int r;

        if (!store)
                return -ENOMEM;
        store->config = *config;
        store->refs = 1;
        store->timer.fired = retention_fired;
        (void)pthread_mutex_init(&store->lock, NULL);
        (void)pthread_mutex_init(&store->arrival_lock, NULL);
        r = gone_ids_init(&store->gone_ids, config->limits.gone_max);
        if (r < 0) {
                store_unref(store);
                return r;
        }
        operation_metrics_init(&store->metrics, config->metrics);
        throughput_init(&store->throughput, clock_now_us());
        *ret_store = store;
        return 0;
}

const struct operation_config *operation_store_config(const struct operation_store *store)
{
        return &store->config;
}

/* A passive operation that no peer uses at the moment: nobody has claimed it, or uses are left. */
static bool is_idle(const struct operation *operation)
{
        return ferry_kind_is_passive((int)operation->kind) && !operation->n_active;
}

/* Finds the first operation that has not ended, in order of creation from this one on. NULL = none. */
static struct operation *first_live(struct operation *operation)
{
        while (operation && operation_terminal(operation))
                operation = operation->newer;
        return operation;
}

/* Stops all operations, or the idle ones. With the lock held. Returns how many were live. */
static size_t store_stop(struct operation_store *store, bool only_idle, struct deferred_actions *deferred)
{
        struct operation *operation = first_live(store->oldest), *next;
        size_t n_live = store->n_live;

        if (store->stage == STORE_OPEN)
                store->stage = STORE_DRAINING;
        for (; operation; operation = next) {
                next = first_live(operation->newer);
                if (!only_idle || is_idle(operation))
                        operation_stop(operation, FERRY_E_CANCELLED, deferred);
                /* A follower ends with its source, and retention may have removed it; deferred has a reference. */
                if (next && !next->hh.tbl)
                        next = first_live(store->oldest);
        }
        return n_live;
}

size_t operation_store_cancel_all(struct operation_store *store)
{
        struct deferred_actions deferred = { 0 };
        size_t n_live;

        store_lock(store);
        n_live = store_stop(store, false, &deferred);
        store_unlock(store, &deferred);
        return n_live;
}

size_t operation_store_live(struct operation_store *store)
{
        size_t n_live;

        store_lock(store);
        n_live = store->n_live;
        store_unlock_plain(store);
        return n_live;
}

void operation_store_on_drained(struct operation_store *store, void (*drained)(void *context), void *context)
{
        struct deferred_actions deferred = { 0 };

        store_lock(store);
        store->drained = drained;
        store->drained_context = context;
        if (store_stop(store, true, &deferred) == 0) {
                deferred.drained = FERRY_STEAL(store->drained);
                deferred.drained_context = context;
        }
        store_unlock(store, &deferred);
}

struct operation_store *operation_store_free(struct operation_store *store)
{
        struct deferred_actions deferred = { 0 };

        if (!store)
                return NULL;
        store_lock(store);
        store->stage = STORE_CLOSED;
        (void)store_stop(store, false, &deferred);
        while (retention_evict(store))
                ;
        if (loop_timer_stop(store->config.loop, &store->timer))
                store_unref(store);
        store_unlock(store, &deferred);
        store_unref(store);
        return NULL;
}
