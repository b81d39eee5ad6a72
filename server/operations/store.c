/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "operations_internal.h"

enum { PAGE_STRIDE = 1024 }; /* entries looked at under one hold of the lock */

struct operation_store *store_ref(struct operation_store *store)
{
        atomic_fetch_add_explicit(&store->refs, 1, memory_order_relaxed);
        return store;
}

void store_unref(struct operation_store *store)
{
        if (atomic_fetch_sub_explicit(&store->refs, 1, memory_order_acq_rel) != 1)
                return;
        free(store->order.entries);
        gone_clear(&store->gone);
        (void)pthread_mutex_destroy(&store->lock);
        (void)pthread_mutex_destroy(&store->content_lock);
        free(store);
}

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
        (void)pthread_mutex_init(&store->content_lock, NULL);
        r = gone_init(&store->gone, config->limits.gone_max);
        if (r < 0) {
                store_unref(store);
                return r;
        }
        tally_init(&store->tally, config->metrics);
        *ret_store = store;
        return 0;
}

void store_lock(struct operation_store *store)
{
        (void)pthread_mutex_lock(&store->lock);
}

void store_revoke(struct operation *operation, int reason, int wire_reason)
{
        const struct operation_mover *mover = &operation->store->config.mover;

        content_revoke(operation, reason, wire_reason);
        mover->offer_revoke(mover->context, operation->id, reason, wire_reason);
}

/* Passive operations are told by their own id, active ones by that of their transfer. */
static void mover_tell(const struct operation_mover *mover, struct operation *operation)
{
        int reason = operation->stop_reason;

        if (ferry_kind_is_passive((int)operation->kind))
                store_revoke(operation, reason, reason == FERRY_E_CANCELLED ? FERRY_E_CANCELLED_BY_PEER : reason);
        else
                mover->transfer_cancel(mover->context, operation->transfer, reason);
}

void store_unlock(struct operation_store *store, struct aftermath *after)
{
        bool closed = store->closed;
        struct operation_waiter *waiter;
        struct operation *operation;

        (void)pthread_mutex_unlock(&store->lock);
        while ((operation = after->stopping)) {
                after->stopping = operation->stopping_next;
                if (!closed)
                        mover_tell(&store->config.mover, operation);
                (void)operation_unref(operation);
        }
        while ((waiter = after->woken)) {
                after->woken = waiter->next; /* the waiter may be freed by its wake */
                waiter->wake(waiter);
        }
        if (after->changed)
                operation_log_changed(after->changed, after->changed_to);
        while ((operation = after->ended)) {
                after->ended = operation->ended_next;
                operation_log_ended(operation);
                operation->hold = operation_hold_free(operation->hold);
                (void)operation_unref(operation);
        }
        if (after->drained)
                after->drained(after->drained_context);
}

void store_unlock_unsettled(struct operation_store *store, struct aftermath *after)
{
        struct aftermath *later = &store->unsettled;
        struct operation_waiter *waiter;
        struct operation *operation;

        while ((waiter = after->woken)) {
                after->woken = waiter->next;
                waiter->next = later->woken;
                later->woken = waiter;
        }
        while ((operation = after->ended)) {
                after->ended = operation->ended_next;
                operation->ended_next = later->ended;
                later->ended = operation;
        }
        if (after->drained) {
                later->drained = FERRY_STEAL(after->drained);
                later->drained_context = after->drained_context;
        }
        store_unlock(store, after);
}

void operation_store_settle(void *context)
{
        struct operation_store *store = context;
        struct aftermath after;

        store_lock(store);
        after = store->unsettled;
        store->unsettled = (struct aftermath){ 0 };
        store_unlock(store, &after);
}

static int store_admit(struct operation_store *store)
{
        size_t max = store->config.limits.operations_max;

        if (store->draining)
                return FERRY_E_DRAINING;
        while (store->n_live + store->n_terminal >= max)
                if (!retention_evict(store))
                        return FERRY_E_LIMIT_REACHED;
        return 0;
}

int store_insert(struct operation_store *store, struct operation *operation)
{
        int r = store_admit(store);

        if (r)
                return r;
        operation->serial = ++store->last_serial;
        r = order_append(&store->order, operation);
        if (r < 0)
                return r;
        HASH_ADD(hh, store->by_id, id, sizeof(operation->id), operation);
        if (!operation->hh.tbl) {
                order_remove(&store->order, operation);
                return -ENOMEM;
        }
        r = deadline_arm(operation);
        if (r < 0) {
                HASH_DELETE(hh, store->by_id, operation);
                order_remove(&store->order, operation);
                return r;
        }
        (void)operation_ref(operation);
        store->n_live++;
        return 0;
}

void store_remove(struct operation *operation)
{
        struct operation_store *store = operation->store;

        HASH_DELETE(hh, store->by_id, operation);
        operation->hh.tbl = NULL;
        order_remove(&store->order, operation);
        if (operation_terminal(operation))
                retention_forget(operation);
        gone_add(&store->gone, operation->id);
        (void)operation_unref(operation);
}

enum operation_lookup operation_find(struct operation_store *store, uint64_t id, struct operation **ret_operation)
{
        enum operation_lookup lookup = OPERATION_UNKNOWN;
        struct aftermath after = { 0 };
        struct operation *operation;

        store_lock(store);
        HASH_FIND(hh, store->by_id, &id, sizeof(id), operation);
        if (operation) {
                *ret_operation = operation_ref(operation);
                lookup = OPERATION_FOUND;
        } else if (gone_has(&store->gone, id)) {
                lookup = OPERATION_GONE;
        }
        store_unlock(store, &after);
        return lookup;
}

static bool page_wants(const struct operation *operation, int kind, int status)
{
        return operation && (kind < 0 || (int)operation->kind == kind) &&
               (status < 0 || (int)operation->status == status);
}

/* Looks at PAGE_STRIDE entries after *serial. true: the page is full and a further operation fits, or the end is
 * reached (*serial 0). */
static bool page_fill(const struct order *order, int kind, int status, uint64_t *serial, struct operation **page,
                      size_t n, size_t *n_page, uint64_t *last)
{
        size_t i = order_seek(order, *serial), stop = i + PAGE_STRIDE;

        for (; i < order->n && i < stop; i++) {
                struct operation *operation = order->entries[i].operation;

                *serial = order->entries[i].serial;
                if (!page_wants(operation, kind, status))
                        continue;
                if (*n_page == n)
                        return true;
                page[(*n_page)++] = operation_ref(operation);
                *last = operation->serial;
        }
        if (i < order->n)
                return false;
        *last = 0;
        return true;
}

size_t operation_page(struct operation_store *store, int kind, int status, uint64_t *cursor, struct operation **page,
                      size_t n)
{
        uint64_t serial = *cursor, last = *cursor;
        struct aftermath after = { 0 };
        size_t n_page = 0;
        bool done = !n;

        while (!done) {
                store_lock(store);
                done = page_fill(&store->order, kind, status, &serial, page, n, &n_page, &last);
                store_unlock(store, &after);
        }
        *cursor = last;
        return n_page;
}
