/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include <ferry/buffer.h>

#include "operations_internal.h"

enum { ORDER_SLACK = 64 };

/* A sorted array finds the start of a page in O(log n). It is compacted when more than half of it is holes. */
static void order_compact(struct creation_order *order)
{
        size_t n = 0;

        for (size_t i = 0; i < order->n; i++)
                if (order->entries[i].operation)
                        order->entries[n++] = order->entries[i];
        order->n = n;
        order->n_removed = 0;
}

int order_append(struct creation_order *order, struct operation *operation)
{
        struct order_entry *entries = ferry_reserve(order->entries, &order->capacity, order->n + 1, sizeof(entries[0]));

        if (!entries)
                return -ENOMEM;
        order->entries = entries;
        order->entries[order->n++] = (struct order_entry){ operation->serial, operation };
        return 0;
}

size_t order_seek(const struct creation_order *order, uint64_t serial)
{
        return FERRY_FIRST_INDEX(order->n, i, order->entries[i].serial > serial);
}

void order_remove(struct creation_order *order, const struct operation *operation)
{
        size_t i = order_seek(order, operation->serial - 1);

        order->entries[i].operation = NULL;
        if (++order->n_removed > ORDER_SLACK && order->n_removed > order->n / 2)
                order_compact(order);
}
