/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "operations_internal.h"

enum { ORDER_SLACK = 64 };

/* A sorted array finds a page's start in O(log n), which a list could not; holes are closed when they are the most. */
static void order_compact(struct order *order)
{
        size_t n = 0;

        for (size_t i = 0; i < order->n; i++)
                if (order->entries[i].operation)
                        order->entries[n++] = order->entries[i];
        order->n = n;
        order->n_removed = 0;
}

int order_append(struct order *order, struct operation *operation)
{
        if (order->n == order->capacity) {
                size_t capacity = order->capacity ? 2 * order->capacity : ORDER_SLACK;
                struct order_entry *entries = realloc(order->entries, capacity * sizeof(entries[0]));

                if (!entries)
                        return -ENOMEM;
                order->entries = entries;
                order->capacity = capacity;
        }
        order->entries[order->n++] = (struct order_entry){ operation->serial, operation };
        return 0;
}

/* Where it would be if all holes were spread evenly. */
static size_t guess(const struct order *order, uint64_t serial)
{
        uint64_t first = order->entries[0].serial, last = order->entries[order->n - 1].serial;

        if (serial <= first)
                return 0;
        if (serial >= last)
                return order->n - 1;
        return (size_t)((double)(serial - first) / (double)(last - first) * (double)(order->n - 1));
}

/* Around a guess, in steps that double: each halving of the whole would be another cold line of memory. */
size_t order_seek(const struct order *order, uint64_t serial)
{
        const struct order_entry *entries = order->entries;
        size_t low = 0, high = order->n, step = 1, start;

        if (high == 0)
                return 0;
        start = guess(order, serial);
        if (entries[start].serial > serial) {
                for (high = start; step <= high && entries[high - step].serial > serial; step *= 2)
                        high -= step;
                if (step <= high)
                        low = high - step + 1;
        } else {
                for (low = start + 1; step <= high - low && entries[low + step - 1].serial <= serial; step *= 2)
                        low += step;
                if (step <= high - low)
                        high = low + step - 1;
        }
        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (entries[middle].serial > serial)
                        high = middle;
                else
                        low = middle + 1;
        }
        return low;
}

void order_remove(struct order *order, const struct operation *operation)
{
        size_t i = order_seek(order, operation->serial - 1);

        order->entries[i].operation = NULL;
        if (++order->n_removed > ORDER_SLACK && order->n_removed > order->n / 2)
                order_compact(order);
}
