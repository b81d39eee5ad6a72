/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>

#include "base/util.h"
#include "region_internal.h"

enum { CAPACITY_FIRST = 16 };

/* Under the lock, so that the gauges never show an older state last. */
static void totals_publish(struct region_table *table)
{
        metric_set(table->count_gauge, (int64_t)table->n_regions);
        metric_set(table->bytes_gauge, (int64_t)table->bytes_listed);
}

int region_table_new(const struct region_config *config, struct region_table **ret_table)
{
        struct region_table *table = calloc(1, sizeof(*table));
        if (!table)
                return -ENOMEM;
        table->config = *config;
        atomic_init(&table->references, 1);
        pthread_mutex_init(&table->lock, NULL);
        table->count_gauge = metric_get(metrics_family(config->metrics, METRIC_GAUGE, "ferry_regions",
                                                       "Regions of this worker", 0, NULL, NULL, 0),
                                        NULL);
        table->bytes_gauge = metric_get(metrics_family(config->metrics, METRIC_GAUGE, "ferry_region_bytes",
                                                       "Bytes of all regions of this worker", 0, NULL, NULL, 0),
                                        NULL);
        *ret_table = table;
        return 0;
}

void region_table_unref(struct region_table *table)
{
        if (atomic_fetch_sub(&table->references, 1) != 1)
                return;
        pthread_mutex_destroy(&table->lock);
        free(table->ordered);
        free(table);
}

static int ordered_grow(struct region_table *table)
{
        if (table->n_regions + table->n_pending < table->capacity)
                return 0;
        size_t capacity = table->capacity ? table->capacity * 2 : CAPACITY_FIRST;
        struct region **ordered = reallocarray(table->ordered, capacity, sizeof(struct region *));
        if (!ordered)
                return -ENOMEM;
        table->ordered = ordered;
        table->capacity = capacity;
        return 0;
}

int region_table_reserve(struct region_table *table, uint64_t owned_bytes)
{
        pthread_mutex_lock(&table->lock);
        int r = 0;
        if (table->n_regions + table->n_pending >= table->config.max_regions)
                r = FERRY_E_LIMIT_REACHED;
        else if (owned_bytes > table->config.memory_limit ||
                 table->bytes_owned > table->config.memory_limit - owned_bytes)
                r = FERRY_E_NO_SPACE;
        else
                r = ordered_grow(table);
        if (r == 0) {
                table->n_pending++;
                table->bytes_owned += owned_bytes;
        }
        pthread_mutex_unlock(&table->lock);
        return r;
}

void region_table_cancel(struct region_table *table, uint64_t owned_bytes)
{
        pthread_mutex_lock(&table->lock);
        table->n_pending--;
        table->bytes_owned -= owned_bytes;
        pthread_mutex_unlock(&table->lock);
}

void region_table_release_bytes(struct region_table *table, uint64_t owned_bytes)
{
        pthread_mutex_lock(&table->lock);
        table->bytes_owned -= owned_bytes;
        pthread_mutex_unlock(&table->lock);
}

int region_table_add(struct region_table *table, struct region_private *private)
{
        int r = 0;
        pthread_mutex_lock(&table->lock);
        HASH_ADD(hh, table->by_id, region.id, sizeof(private->region.id), private);
        if (private->hh.tbl) {
                private->serial = ++table->last_serial;
                table->ordered[table->n_regions++] = &private->region;
                table->n_pending--;
                table->bytes_listed += private->region.size;
                totals_publish(table);
        } else {
                r = -ENOMEM;
        }
        pthread_mutex_unlock(&table->lock);
        return r;
}

/* Index of the first region whose serial is greater. Under the lock. */
static size_t ordered_after(const struct region_table *table, uint64_t serial)
{
        size_t low = 0, high = table->n_regions;
        while (low < high) {
                size_t middle = low + (high - low) / 2;
                if (table->ordered[middle]->private->serial > serial)
                        high = middle;
                else
                        low = middle + 1;
        }
        return low;
}

/* Under the lock; the region is listed. */
static void unlist(struct region_table *table, struct region_private *private)
{
        HASH_DEL(table->by_id, private);
        size_t i = ordered_after(table, private->serial) - 1;
        memmove(&table->ordered[i], &table->ordered[i + 1], (table->n_regions - i - 1) * sizeof(struct region *));
        table->n_regions--;
        table->bytes_listed -= private->region.size;
        totals_publish(table);
}

static struct region_private *find_listed(struct region_table *table, uint64_t id)
{
        struct region_private *private;
        HASH_FIND(hh, table->by_id, &id, sizeof(id), private);
        return private;
}

struct region_table *region_table_free(struct region_table *table)
{
        if (!table)
                return NULL;
        pthread_mutex_lock(&table->lock);
        while (table->n_regions > 0) {
                struct region *region = table->ordered[table->n_regions - 1];
                atomic_fetch_or(&region->private->state, REGION_DELETED);
                unlist(table, region->private);
                pthread_mutex_unlock(&table->lock);
                region_retire(region);
                pthread_mutex_lock(&table->lock);
        }
        pthread_mutex_unlock(&table->lock);
        region_table_unref(table);
        return NULL;
}

struct region *region_find(struct region_table *table, uint64_t id)
{
        pthread_mutex_lock(&table->lock);
        struct region_private *private = find_listed(table, id);
        struct region *region = private ? region_ref(&private->region) : NULL;
        pthread_mutex_unlock(&table->lock);
        return region;
}

int region_delete(struct region_table *table, uint64_t id)
{
        int r = 0;
        pthread_mutex_lock(&table->lock);
        struct region_private *private = find_listed(table, id);
        uint32_t unused = 0;
        if (!private)
                r = FERRY_E_NOT_FOUND;
        else if (!atomic_compare_exchange_strong(&private->state, &unused, REGION_DELETED))
                r = FERRY_E_REGION_IN_USE;
        else
                unlist(table, private);
        pthread_mutex_unlock(&table->lock);
        if (r != 0)
                return r;
        region_retire(&private->region);
        return 0;
}

size_t region_page(struct region_table *table, uint64_t *cursor, struct region **page, size_t n)
{
        pthread_mutex_lock(&table->lock);
        size_t first = ordered_after(table, *cursor);
        size_t left = table->n_regions - first;
        size_t stored = left < n ? left : n;
        for (size_t i = 0; i < stored; i++)
                page[i] = region_ref(table->ordered[first + i]);
        if (stored == left)
                *cursor = 0;
        else if (stored > 0)
                *cursor = page[stored - 1]->private->serial;
        pthread_mutex_unlock(&table->lock);
        return stored;
}

void region_totals(struct region_table *table, size_t *ret_regions, uint64_t *ret_bytes)
{
        pthread_mutex_lock(&table->lock);
        *ret_regions = table->n_regions;
        *ret_bytes = table->bytes_listed;
        pthread_mutex_unlock(&table->lock);
}
