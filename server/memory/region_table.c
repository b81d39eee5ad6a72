/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/buffer.h>
#include <ferry/error.h>

#include "base/thread.h"
#include "base/util.h"
#include "region_internal.h"

/*
 * A table: the number and the bytes of its regions, and the limits. Its lists are in region_list.c. A deleted region's
 * bytes count until they are free, so that the limit holds for what the system really has to provide; a region that
 * does not fit only because of them waits in the pool, and pool_retry() lets it try again.
 */

void region_table_publish(struct region_table *table)
{
        metric_set(table->count_gauge, (int64_t)table->n_regions);
        metric_set(table->bytes_gauge, (int64_t)table->bytes_listed);
}

int region_table_new(const struct region_config *config, struct region_table **ret_table)
{
        struct region_table *table = calloc(1, sizeof(*table));
        int r;

        if (!table)
                return -ENOMEM;
        r = pool_user_new(NULL, NULL, &table->tasks);
        if (r < 0) {
                free(table);
                return r;
        }
        table->config = *config;
        atomic_init(&table->references, 1);
        pthread_mutex_init(&table->lock, NULL);
        condition_init(&table->changed);
        table->count_gauge = metric_single(config->metrics, METRIC_GAUGE, "ferry_regions", "Regions of this worker");
        table->bytes_gauge = metric_single(config->metrics, METRIC_GAUGE, "ferry_region_bytes",
                                           "Bytes that this worker has allocated for its regions");
        metric_set(metric_single(config->metrics, METRIC_GAUGE, "ferry_memory_limit_bytes",
                                 "Most bytes of all regions that the worker allocates (--memory-limit)."),
                   (int64_t)config->memory_limit);
        *ret_table = table;
        return 0;
}

/* The last reference is never a task's: pool_user_stop comes before. */
void region_table_unref(struct region_table *table)
{
        if (atomic_fetch_sub(&table->references, 1) != 1)
                return;
        pool_user_free(table->tasks);
        maps_clear(&table->maps);
        pthread_cond_destroy(&table->changed);
        pthread_mutex_destroy(&table->lock);
        free(table->ordered);
        free(table);
}

/* Makes room for one more region in ordered, so that listing it cannot fail. Returns 0 or -ENOMEM. Under the lock. */
static int ordered_grow(struct region_table *table)
{
        struct region **ordered = ferry_reserve(table->ordered, &table->capacity,
                                                table->n_regions + table->n_pending + 1, sizeof(struct region *));
        if (!ordered)
                return -ENOMEM;
        table->ordered = ordered;
        return 0;
}

/* Writes why the memory limit refuses so many bytes. Returns FERRY_E_NO_SPACE. Under the lock. */
static int limit_refuse(const struct region_table *table, uint64_t bytes, char detail[REGION_DETAIL_SIZE])
{
        const uint64_t limit = table->config.memory_limit, owned = table->bytes_reserved;

        if (bytes > limit)
                (void)snprintf(detail, REGION_DETAIL_SIZE,
                               "%" PRIu64 " bytes are needed, and --memory-limit is %" PRIu64, bytes, limit);
        else
                (void)snprintf(detail, REGION_DETAIL_SIZE,
                               "%" PRIu64 " bytes are needed; --memory-limit is %" PRIu64 " and has room for %" PRIu64,
                               bytes, limit, owned < limit ? limit - owned : 0);
        return FERRY_E_NO_SPACE;
}

bool region_may_fit(const struct region_table *table, const char *device, uint64_t size)
{
        return size <= table->config.memory_limit && (strcmp(device, "cpu") != 0 || pages_may_have(size));
}

/* Whether all bytes together are within the limit. Under the lock. */
static bool limit_holds(const struct region_table *table)
{
        const uint64_t limit = table->config.memory_limit;

        return table->bytes_reserved <= limit && table->bytes_freeing <= limit - table->bytes_reserved;
}

int region_table_reserve(struct region_table *table, const struct region_spec *spec, uint64_t bytes, bool *ret_now,
                         char detail[REGION_DETAIL_SIZE])
{
        const struct region_config *config = &table->config;
        int r = 0;

        pthread_mutex_lock(&table->lock);
        if (!spec->held && table->n_regions + table->n_pending - table->n_held >= config->max_regions) {
                (void)snprintf(detail, REGION_DETAIL_SIZE,
                               "--max-regions is %zu, and clients have as many: delete regions, or use one region for "
                               "several slices",
                               config->max_regions);
                r = FERRY_E_LIMIT_REACHED;
        } else if (bytes > config->memory_limit || table->bytes_reserved > config->memory_limit - bytes) {
                r = limit_refuse(table, bytes, detail);
        } else {
                r = ordered_grow(table);
        }
        if (r == 0) {
                table->n_pending++;
                table->n_held += spec->held;
                table->bytes_reserved += bytes;
                *ret_now = limit_holds(table);
        }
        pthread_mutex_unlock(&table->lock);
        return r;
}

void region_table_cancel(struct region_table *table, const struct region_spec *spec, uint64_t bytes)
{
        pthread_mutex_lock(&table->lock);
        table->n_pending--;
        table->n_held -= spec->held;
        table->bytes_reserved -= bytes;
        pthread_mutex_unlock(&table->lock);
        pool_retry(table->tasks);
}

int region_table_check_limit(struct region_table *table, uint64_t bytes, bool *ret_freeing,
                             char detail[REGION_DETAIL_SIZE])
{
        int r = 0;

        pthread_mutex_lock(&table->lock);
        *ret_freeing = table->bytes_freeing > 0;
        if (!limit_holds(table))
                r = limit_refuse(table, bytes, detail);
        pthread_mutex_unlock(&table->lock);
        return r;
}

/* ---- bytes that are being freed ---- */

void region_table_begin_freeing_locked(struct region_table *table, struct region_private *private)
{
        if (private->freeing)
                return;
        private->freeing = true;
        table->bytes_reserved -= private->region.size;
        table->bytes_freeing += private->region.size;
}

void region_table_begin_freeing(struct region_table *table, struct region_private *private)
{
        pthread_mutex_lock(&table->lock);
        region_table_begin_freeing_locked(table, private);
        pthread_mutex_unlock(&table->lock);
}

void region_table_keep(struct region_table *table, struct region_private *private)
{
        bool streams;

        pthread_mutex_lock(&table->lock);
        streams = private->freeing && atomic_load(&private->streams) > 0;
        if (streams) {
                private->freeing = false;
                table->bytes_freeing -= private->region.size;
                table->bytes_reserved += private->region.size;
        }
        pthread_mutex_unlock(&table->lock);
        /* Tasks that have waited for these bytes fail now. */
        if (streams)
                pool_retry(table->tasks);
}

void region_table_end_freeing(struct region_table *table, struct region_private *private)
{
        pthread_mutex_lock(&table->lock);
        table->bytes_freeing -= private->region.size;
        pthread_mutex_unlock(&table->lock);
        pool_retry(table->tasks);
}

void region_table_observe(struct region_table *table, uint64_t id, struct region *deleted, enum region_change change)
{
        const struct region_observer *observer = &table->config.observer;

        if (observer->changed)
                observer->changed(observer->context, table, id, deleted, change);
}

void region_totals(struct region_table *table, size_t *ret_regions, uint64_t *ret_bytes)
{
        pthread_mutex_lock(&table->lock);
        *ret_regions = table->n_regions - table->n_held;
        *ret_bytes = table->bytes_listed;
        pthread_mutex_unlock(&table->lock);
}
