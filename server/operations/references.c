/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "operations_internal.h"

/*
 * References to operations and to the store, and their end. Counts are atomic: any thread, with the store's lock or
 * without.
 */

struct operation_store *store_ref(struct operation_store *store)
{
        atomic_fetch_add_explicit(&store->refs, 1, memory_order_relaxed);
        return store;
}

void store_unref(struct operation_store *store)
{
        if (atomic_fetch_sub_explicit(&store->refs, 1, memory_order_acq_rel) != 1)
                return;
        gone_ids_clear(&store->gone_ids);
        (void)pthread_mutex_destroy(&store->lock);
        (void)pthread_mutex_destroy(&store->arrival_lock);
        free(store);
}

struct operation *operation_ref(struct operation *operation)
{
        atomic_fetch_add_explicit(&operation->refs, 1, memory_order_relaxed);
        return operation;
}

struct operation_attachment *operation_attach(struct operation *operation, struct operation_attachment *attachment)
{
        struct operation_attachment *before = NULL;

        return atomic_compare_exchange_strong(&operation->attachment, &before, attachment) ? attachment : before;
}

struct operation_attachment *operation_attached(struct operation *operation)
{
        return atomic_load(&operation->attachment);
}

static void follow_free(struct follow_map *follow)
{
        if (!follow)
                return;
        (void)operation_unref(follow->source);
        free(follow->pieces);
        free(follow);
}

/*
 * May run under the store's lock, without which the pins' regions must be let go: but only an operation that was never
 * in a store still has pins.
 */
struct operation *operation_unref(struct operation *operation)
{
        struct operation_attachment *attachment;

        if (!operation || atomic_fetch_sub_explicit(&operation->refs, 1, memory_order_acq_rel) != 1)
                return NULL;
        attachment = atomic_load(&operation->attachment);
        if (operation->pins)
                operation_pins_unuse(operation->pins);
        operation->pins = operation_pins_free(operation->pins);
        follow_free(operation->follow);
        free(operation->remote);
        store_unref(operation->store);
        free(operation->detail);
        if (attachment)
                attachment->free(attachment);
        free(operation->declined);
        explicit_bzero(operation->key, sizeof(operation->key));
        free(operation);
        return NULL;
}

/*
 * A hash table of fixed size, chained through the ring. In a growing table the buckets would double from time to time
 * for as long as ids come and go, because any new id may make the longest chain so far.
 */

int gone_ids_init(struct gone_ids *ids, size_t size)
{
        size_t n_heads = 1;

        *ids = (struct gone_ids){ .size = size };
        if (!size)
                return 0;
        while (n_heads < size)
                n_heads *= 2;
        ids->n_heads = n_heads;
        ids->ring = calloc(size, sizeof(ids->ring[0]));
        ids->heads = calloc(n_heads, sizeof(ids->heads[0]));
        return ids->ring && ids->heads ? 0 : -ENOMEM;
}

void gone_ids_clear(struct gone_ids *ids)
{
        free(ids->heads);
        free(ids->ring);
        *ids = (struct gone_ids){ 0 };
}

/* The ids are random: their low bits are the best hash. */
static uint32_t *head_of(const struct gone_ids *ids, uint64_t id)
{
        return &ids->heads[id & (ids->n_heads - 1)];
}

/* Takes the entry that is about to be overwritten off its chain. */
static void unlink_oldest(struct gone_ids *ids)
{
        const struct gone_entry *oldest = &ids->ring[ids->next];
        uint32_t *link = head_of(ids, oldest->id);

        if (!oldest->id)
                return;
        while (*link != ids->next + 1)
                link = &ids->ring[*link - 1].chain;
        *link = oldest->chain;
}

void gone_ids_add(struct gone_ids *ids, uint64_t id)
{
        uint32_t *head;

        if (!ids->size)
                return;
        unlink_oldest(ids);
        head = head_of(ids, id);
        ids->ring[ids->next] = (struct gone_entry){ .id = id, .chain = *head };
        *head = (uint32_t)ids->next + 1;
        ids->next = (ids->next + 1) % ids->size;
}

bool gone_ids_has(const struct gone_ids *ids, uint64_t id)
{
        if (!ids->size || !id)
                return false;
        for (uint32_t at = *head_of(ids, id); at; at = ids->ring[at - 1].chain)
                if (ids->ring[at - 1].id == id)
                        return true;
        return false;
}
