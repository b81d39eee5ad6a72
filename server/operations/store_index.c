/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "operations_internal.h"

/*
 * The operations of a store: by id, and by pages in order of creation. A page is gathered in strides of PAGE_STRIDE
 * operations, between which the lock is given back, so that a long list holds up no transfer. Lock: the store's.
 */

enum {
        PAGE_STRIDE = 1024, /* operations that are looked at in one go */
        BUCKETS_EACH = 4,
};

void store_count_pieces(struct operation_store *store, const struct operation *operation, bool come)
{
        const int64_t n = (int64_t)operation->n_pieces;

        store->n_pieces += come ? operation->n_pieces : -operation->n_pieces;
        metric_add(store->metrics.pieces, come ? n : -n);
}

int store_insert(struct operation_store *store, struct operation *operation)
{
        int r;

        HASH_ADD(hh, store->by_id, id, sizeof(operation->id), operation);
        if (!operation->hh.tbl)
                return -ENOMEM;
        /* Else the buckets double whenever one is long by chance, again and again. */
        if (store->by_id->hh.tbl->num_buckets / BUCKETS_EACH >= store->config.limits.operations_max)
                store->by_id->hh.tbl->noexpand = 1;
        r = deadline_arm(operation);
        if (r < 0) {
                HASH_DELETE(hh, store->by_id, operation);
                return r;
        }
        operation->serial = ++store->last_serial;
        DL_APPEND2(store->oldest, operation, older, newer);
        (void)operation_ref(operation);
        store->n_live++;
        store_count_pieces(store, operation, true);
        return 0;
}

/* The caller has a reference or the lock, so the operation is not freed before it returns. */
void store_remove(struct operation *operation)
{
        struct operation_store *store = operation->store;

        HASH_DELETE(hh, store->by_id, operation);
        operation->hh.tbl = NULL;
        DL_DELETE2(store->oldest, operation, older, newer);
        gone_ids_add(&store->gone_ids, operation->id);
        (void)operation_unref(operation);
}

enum operation_lookup operation_find(struct operation_store *store, uint64_t id, struct operation **ret_operation)
{
        enum operation_lookup lookup = OPERATION_UNKNOWN;
        struct operation *operation;

        store_lock(store);
        HASH_FIND(hh, store->by_id, &id, sizeof(id), operation);
        if (operation) {
                *ret_operation = operation_ref(operation);
                lookup = OPERATION_FOUND;
        } else if (gone_ids_has(&store->gone_ids, id)) {
                lookup = OPERATION_GONE;
        }
        store_unlock_plain(store);
        return lookup;
}

static bool uses_region(const struct operation *operation, uint64_t region)
{
        for (size_t i = 0; i < operation->n_descriptors; i++)
                if (operation->descriptors[i].region_id == region)
                        return true;
        return false;
}

/* Whether the filter of a page lets the operation through. */
static bool page_wants(const struct operation *operation, const struct operation_filter *filter)
{
        return (filter->kind < 0 || (int)operation->kind == filter->kind) &&
               (filter->status < 0 || (int)operation_status(operation) == filter->status) &&
               (filter->done < 0 || operation_terminal(operation) == (filter->done > 0)) &&
               (!filter->label || strcmp(operation->label, filter->label) == 0) &&
               (!filter->region || uses_region(operation, filter->region));
}

/* A page that is being filled. */
struct page {
        const struct operation_filter *filter;
        struct operation **items;
        size_t n, size;
        uint64_t serial;      /* of the last operation looked at; 0 = none */
        uint64_t cursor;      /* of the next page; 0 = this is the last */
        struct operation *at; /* a reference; where the walk goes on, unless it has been removed; NULL = at the start */
};

/* The next one in the page's order; operation NULL: the first one. NULL: none. */
static struct operation *page_next(const struct operation_store *store, const struct page *page,
                                   const struct operation *operation)
{
        if (!page->filter->newest)
                return operation ? operation->newer : store->oldest;
        if (!operation)
                return store->oldest ? store->oldest->older : NULL; /* utlist: the last one */
        return operation == store->oldest ? NULL : operation->older;
}

/* Whether the page, or one before it, has looked at the operation. */
static bool page_is_past(const struct page *page, const struct operation *operation)
{
        if (!page->serial)
                return false;
        return page->filter->newest ? operation->serial >= page->serial : operation->serial <= page->serial;
}

/* Looks at PAGE_STRIDE operations. true: the page is full and another one follows, or it is the last. */
static bool page_fill(struct operation_store *store, struct page *page)
{
        struct operation *operation = page->at && page->at->hh.tbl ? page->at : page_next(store, page, NULL);

        page->at = operation_unref(page->at);
        for (size_t i = 0; operation && i < PAGE_STRIDE; i++, operation = page_next(store, page, operation)) {
                if (page_is_past(page, operation))
                        continue;
                page->serial = operation->serial;
                if (!page_wants(operation, page->filter))
                        continue;
                if (page->n == page->size)
                        return true;
                page->items[page->n++] = operation_ref(operation);
                page->cursor = operation->serial;
        }
        if (operation) {
                page->at = operation_ref(operation);
                return false;
        }
        page->cursor = 0;
        return true;
}

/*
 * The lock is given back after each PAGE_STRIDE operations: a page of few hits among a million must hold up no
 * transfer.
 */
size_t operation_page(struct operation_store *store, const struct operation_filter *filter, uint64_t *cursor,
                      struct operation **items, size_t n)
{
        static const struct operation_filter all = { .kind = -1, .status = -1, .done = -1 };
        struct page page = {
                .filter = filter ? filter : &all, .items = items, .size = n, .serial = *cursor, .cursor = *cursor
        };
        bool done = !n;

        while (!done) {
                store_lock(store);
                done = page_fill(store, &page);
                store_unlock_plain(store);
        }
        *cursor = page.cursor;
        return page.n;
}

bool operation_store_lets_go(struct operation_store *store, uint64_t region)
{
        const struct operation_filter filter = { .kind = -1, .status = -1, .done = 0, .region = region };
        struct operation *page[32];
        uint64_t cursor = 0;
        bool lets_go = true;

        do {
                size_t n = operation_page(store, &filter, &cursor, page, FERRY_ARRAY_SIZE(page));

                store_lock(store);
                for (size_t i = 0; i < n; i++)
                        lets_go &= operation_terminal(page[i]) || (page[i]->n_active && operation_is_used_up(page[i]));
                store_unlock_plain(store);
                for (size_t i = 0; i < n; i++)
                        (void)operation_unref(page[i]);
        } while (cursor && lets_go);
        return lets_go;
}

/*
 * Terminal operations that are kept for a while, oldest first, and the limits into which a new operation must fit. One
 * lazy timer of the loop, for the oldest; its callback owns a reference to the store. Lock: the store's.
 */

#define RETENTION_SLACK_US UINT64_C(1000000) /* least time between two runs: idle workers sleep */

/*
 * Arms the timer for the oldest terminal operation, at earliest_us or later. If memory is short, the next terminal
 * operation arms it. The store's lock is held.
 */
static void retention_arm(struct operation_store *store, uint64_t earliest_us)
{
        uint64_t due_us;

        if (store->stage == STORE_CLOSED || store->timer_armed || !store->terminal)
                return;
        due_us = deadline_after(store->terminal->ended_us, store->config.limits.retention_ms);
        if (due_us == OPERATION_NEVER)
                return;
        (void)store_ref(store);
        store->timer_armed = true;
        if (loop_timer_start(store->config.loop, &store->timer, due_us > earliest_us ? due_us : earliest_us) < 0) {
                store->timer_armed = false;
                store_unref(store);
        }
}

void retention_forget(struct operation *operation)
{
        struct operation_store *store = operation->store;

        DL_DELETE2(store->terminal, operation, terminal_prev, terminal_next);
        store->n_terminal--;
        store_count_pieces(store, operation, false);
}

bool retention_evict(struct operation_store *store)
{
        struct operation *oldest = store->terminal;

        if (!oldest)
                return false;
        operation_metrics_move(&store->metrics, oldest->kind, operation_status(oldest), FERRY_UNINITIALIZED);
        retention_forget(oldest);
        store_remove(oldest);
        return true;
}

void retention_keep(struct operation *operation)
{
        struct operation_store *store = operation->store;

        DL_APPEND2(store->terminal, operation, terminal_prev, terminal_next);
        store->n_terminal++;
        while (store->n_terminal > store->config.limits.terminal_max)
                (void)retention_evict(store);
        retention_arm(store, 0);
}

/* A terminal operation makes room for a new one, whatever its age; one that has not ended never does. */
int retention_make_room(struct operation_store *store, const struct operation *operation,
                        char detail[OPERATION_DETAIL_SIZE])
{
        const struct operation_limits *limits = &store->config.limits;
        bool full;

        while ((full = store->n_live + store->n_terminal >= limits->operations_max) ||
               operation->n_pieces > limits->pieces_max - store->n_pieces) {
                if (retention_evict(store))
                        continue;
                if (full)
                        return operation_refuse(detail, FERRY_E_LIMIT_REACHED,
                                                "--max-operations is %zu, and as many have not ended",
                                                limits->operations_max);
                return operation_refuse(detail, FERRY_E_LIMIT_REACHED,
                                        "pieces_max is %zu, and operations that have not ended leave too few",
                                        limits->pieces_max);
        }
        return 0;
}

void retention_fired(struct loop_timer *timer)
{
        struct operation_store *store = FERRY_CONTAINER_OF(timer, struct operation_store, timer);
        uint64_t now;

        store_lock(store);
        store->timer_armed = false;
        now = clock_now_us();
        while (store->terminal && deadline_after(store->terminal->ended_us, store->config.limits.retention_ms) <= now)
                (void)retention_evict(store);
        retention_arm(store, now + RETENTION_SLACK_US);
        store_unlock_plain(store);
        store_unref(store);
}
