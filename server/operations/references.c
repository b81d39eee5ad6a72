/* SPDX-License-Identifier: Apache-2.0 */
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
