/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "operations_internal.h"

/* The operations of a store: by id, and by pages in order of creation. */

enum {
        PAGE_STRIDE = 1024, /* entries that are looked at in one go */
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

        operation->serial = ++store->last_serial;
        r = order_append(&store->order, operation);
        if (r < 0)
                return r;
        HASH_ADD(hh, store->by_id, id, sizeof(operation->id), operation);
        if (!operation->hh.tbl) {
                order_remove(&store->order, operation);
                return -ENOMEM;
        }
        /* Else the buckets double whenever one is long by chance, again and again. */
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
        uint64_t serial; /* of the last entry looked at; 0 = none */
        uint64_t cursor; /* of the next page; 0 = this is the last */
};

/* How many entries follow serial in the page's order; *ret_next: index of the first of them. */
static size_t page_left(const struct creation_order *order, const struct page *page, size_t *ret_next)
{
        if (page->filter->newest) {
                size_t n = page->serial ? order_seek(order, page->serial - 1) : order->n;

                *ret_next = n - 1;
                return n;
        }
        *ret_next = order_seek(order, page->serial);
        return order->n - *ret_next;
}

/* Looks at PAGE_STRIDE entries. true: the page is full and another one follows, or it is the last. */
static bool page_fill(const struct creation_order *order, struct page *page)
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
        bool done = !n;

        while (!done) {
                store_lock(store);
                done = page_fill(&store->order, &page);
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
                        lets_go &= operation_terminal(page[i]) ||
                                   (page[i]->n_active &&
                                    page[i]->n_active + page[i]->n_completed >= operation_uses_max(page[i]));
                store_unlock_plain(store);
                for (size_t i = 0; i < n; i++)
                        (void)operation_unref(page[i]);
        } while (cursor && lets_go);
        return lets_go;
}
