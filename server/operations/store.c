/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "operations_internal.h"

enum {
        PAGE_STRIDE = 1024, /* entries looked at under one hold of the lock */
        BUCKETS_EACH = 4,
};

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
        (void)pthread_mutex_destroy(&store->arrival_lock);
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
        (void)pthread_mutex_init(&store->arrival_lock, NULL);
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

/* What the peers of a passive operation are told: only what may have become of their own transfer. */
static int wire_reason(int reason)
{
        switch (reason) {
        case FERRY_E_CANCELLED:
                return FERRY_E_CANCELLED_BY_PEER;
        case FERRY_E_CANCELLED_BY_PEER:
        case FERRY_E_EXPIRED:
        case FERRY_E_TIMEOUT:
        case FERRY_E_STALLED:
        case FERRY_E_CHECKSUM_MISMATCH:
        case FERRY_E_PEER_LOST:
                return reason;
        default:
                return FERRY_E_TRANSFER_FAILED;
        }
}

static void observe(struct operation *operation, enum operation_change change)
{
        const struct operation_observer *observer = &operation->store->config.observer;

        if (observer->changed)
                observer->changed(observer->context, operation->store, operation, change);
}

/* Passive operations are told by their own id, active ones by that of their transfer. */
static void mover_tell(const struct operation_mover *mover, struct operation *operation)
{
        int reason = operation->stop_reason;

        if (ferry_kind_is_passive((int)operation->kind))
                store_revoke(operation, reason, wire_reason(reason));
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
                observe(operation, OPERATION_CHANGED);
                (void)operation_unref(operation);
        }
        if (after->offers_changed && !closed)
                store->config.mover.offers_look(store->config.mover.context);
        while ((waiter = after->woken)) {
                after->woken = waiter->next; /* the waiter may be freed by its wake */
                waiter->wake(waiter);
        }
        if (after->changed) {
                operation_log_changed(after->changed, after->changed_to);
                observe(after->changed, after->changed_to == FERRY_INITIALIZED ? OPERATION_MADE : OPERATION_CHANGED);
        }
        if (after->moved)
                observe(after->moved, OPERATION_CHANGED);
        while ((operation = after->ended)) {
                after->ended = operation->ended_next;
                operation_log_ended(operation);
                observe(operation, OPERATION_ENDED);
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

void operation_store_wake_waiters(void *context)
{
        struct operation_store *store = context;
        struct aftermath after;

        store_lock(store);
        after = store->unsettled;
        store->unsettled = (struct aftermath){ 0 };
        store_unlock(store, &after);
}

void store_count_pieces(struct operation_store *store, const struct operation *operation, bool come)
{
        const int64_t n = (int64_t)operation->n_pieces;

        store->n_pieces += come ? operation->n_pieces : -operation->n_pieces;
        metric_add(store->tally.pieces, come ? n : -n);
}

static bool store_is_full(const struct operation_store *store, const struct operation *operation)
{
        const struct operation_limits *limits = &store->config.limits;

        return store->n_live + store->n_terminal >= limits->operations_max ||
               operation->n_pieces > limits->pieces_max - store->n_pieces;
}

static int store_admit(struct operation_store *store, const struct operation *operation)
{

        if (store->draining)
                return FERRY_E_DRAINING;
        while (store_is_full(store, operation))
                if (!retention_evict(store))
                        return FERRY_E_LIMIT_REACHED;
        return 0;
}

int store_insert(struct operation_store *store, struct operation *operation)
{
        int r = store_admit(store, operation);

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
        /* They double when a bucket is long by chance, which in time happens again and again. */
        if (store->by_id->hh.tbl->num_buckets / BUCKETS_EACH >= store->config.limits.operations_max)
                store->by_id->hh.tbl->noexpand = 1;
        r = deadline_arm(operation);
        if (r < 0) {
                HASH_DELETE(hh, store->by_id, operation);
                order_remove(&store->order, operation);
                return r;
        }
        (void)operation_ref(operation);
        store->n_live++;
        store_count_pieces(store, operation, true);
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

static bool uses_region(const struct operation *operation, uint64_t region)
{
        for (size_t i = 0; i < operation->n_descriptors; i++)
                if (operation->descriptors[i].region_id == region)
                        return true;
        return false;
}

static bool page_wants(const struct operation *operation, const struct operation_filter *filter)
{
        return (filter->kind < 0 || (int)operation->kind == filter->kind) &&
               (filter->status < 0 || (int)operation->status == filter->status) &&
               (filter->done < 0 || operation_terminal(operation) == (filter->done > 0)) &&
               (!filter->label || strcmp(operation->label, filter->label) == 0) &&
               (!filter->region || uses_region(operation, filter->region));
}

/* A page that is being filled. */
struct page {
        const struct operation_filter *filter;
        struct operation **items;
        size_t n, size;
        uint64_t serial; /* of the entry that was looked at last; 0 = none was */
        uint64_t cursor; /* of the next page; 0 = there is none */
};

/* How many entries come after serial in the page's order; *ret_next: the first of them. */
static size_t page_left(const struct order *order, const struct page *page, size_t *ret_next)
{
        if (page->filter->newest) {
                size_t n = page->serial ? order_seek(order, page->serial - 1) : order->n;

                *ret_next = n - 1;
                return n;
        }
        *ret_next = order_seek(order, page->serial);
        return order->n - *ret_next;
}

/* Looks at PAGE_STRIDE entries. true: the page is full and there is one more for the next, or the end is reached. */
static bool page_fill(const struct order *order, struct page *page)
{
        size_t next, left = page_left(order, page, &next);

        for (size_t i = 0; left > 0 && i < PAGE_STRIDE; i++, left--) {
                const struct order_entry *entry = &order->entries[next];

                next += page->filter->newest ? SIZE_MAX : 1;
                page->serial = entry->serial;
                if (entry->operation && page_wants(entry->operation, page->filter)) {
                        if (page->n == page->size)
                                return true;
                        page->items[page->n++] = operation_ref(entry->operation);
                        page->cursor = entry->serial;
                }
        }
        if (left > 0)
                return false;
        page->cursor = 0;
        return true;
}

size_t operation_page(struct operation_store *store, const struct operation_filter *filter, uint64_t *cursor,
                      struct operation **items, size_t n)
{
        static const struct operation_filter all = { .kind = -1, .status = -1, .done = -1 };
        struct page page = {
                .filter = filter ? filter : &all, .items = items, .size = n, .serial = *cursor, .cursor = *cursor
        };
        struct aftermath after = { 0 };
        bool done = !n;

        while (!done) {
                store_lock(store);
                done = page_fill(&store->order, &page);
                store_unlock(store, &after);
        }
        *cursor = page.cursor;
        return page.n;
}
