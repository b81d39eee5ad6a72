/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "metrics_internal.h"

enum { KEY_ON_STACK = 256 };

int metrics_new(struct metrics **ret_metrics)
{
        struct metrics *metrics = calloc(1, sizeof(*metrics));
        if (!metrics)
                return -ENOMEM;
        pthread_mutex_init(&metrics->lock, NULL);
        metrics->last_family = &metrics->families;
        *ret_metrics = metrics;
        return 0;
}

static void family_free(struct metric_family *family)
{
        struct metric *metric, *next;
        HASH_ITER (hh, family->series, metric, next) {
                HASH_DEL(family->series, metric);
                free(metric);
        }
        free(family);
}

struct metrics *metrics_free(struct metrics *metrics)
{
        if (!metrics)
                return NULL;
        for (struct metric_family *family = metrics->families, *next; family; family = next) {
                next = family->next;
                family_free(family);
        }
        for (const struct metric_collector *collector = metrics->collectors, *next; collector; collector = next) {
                next = collector->next;
                free((void *)(uintptr_t)collector);
        }
        pthread_mutex_destroy(&metrics->lock);
        free(metrics);
        return NULL;
}

static struct metric_family *family_find(struct metrics *metrics, const char *name)
{
        for (struct metric_family *family = metrics->families; family; family = family->next)
                if (strcmp(family->name, name) == 0)
                        return family;
        return NULL;
}

struct metric_family *metrics_family(struct metrics *metrics, enum metric_type type, const char *name, const char *help,
                                     size_t n_labels, const char *const *label_names, const double *buckets,
                                     size_t n_buckets)
{
        if (!metrics)
                return NULL;
        assert(n_labels <= METRIC_LABELS_MAX && n_buckets <= METRIC_BUCKETS_MAX);
        pthread_mutex_lock(&metrics->lock);
        struct metric_family *family = family_find(metrics, name);
        /* Two modules may count into one family; they must mean the same. */
        assert(!family || (family->type == type && family->n_labels == n_labels && family->n_buckets == n_buckets));
        if (!family)
                family = calloc(1, sizeof(*family));
        if (family && !family->metrics) {
                family->metrics = metrics;
                family->type = type;
                family->name = name;
                family->help = help;
                family->n_labels = n_labels;
                for (size_t i = 0; i < n_labels; i++)
                        family->label_names[i] = label_names[i];
                family->n_buckets = n_buckets;
                for (size_t i = 0; i < n_buckets; i++)
                        family->bounds[i] = buckets[i];
                *metrics->last_family = family;
                metrics->last_family = &family->next;
        }
        pthread_mutex_unlock(&metrics->lock);
        return family;
}

void metrics_scale(struct metric_family *family, double scale)
{
        if (family)
                family->scale = scale;
}

static struct metric *series_find_or_add(struct metric_family *family, const char *key, size_t key_size)
{
        struct metric *metric;
        HASH_FIND(hh, family->series, key, key_size, metric);
        if (metric)
                return metric;
        metric = calloc(1, sizeof(*metric) + key_size);
        if (!metric)
                return NULL;
        metric->family = family;
        metric->key_size = key_size;
        memcpy(metric->key, key, key_size);
        HASH_ADD_KEYPTR(hh, family->series, metric->key, key_size, metric);
        if (!metric->hh.tbl) {
                free(metric);
                return NULL;
        }
        return metric;
}

struct metric *metric_get(struct metric_family *family, const char *const *label_values)
{
        if (!family)
                return NULL;
        size_t key_size = 0;
        for (size_t i = 0; i < family->n_labels; i++)
                key_size += strlen(label_values[i]) + 1;

        char stack[KEY_ON_STACK] = "";
        FERRY_CLEANUP(cleanup_free) char *heap = key_size > sizeof(stack) ? malloc(key_size) : NULL;
        if (key_size > sizeof(stack) && !heap)
                return NULL;
        char *key = heap ? heap : stack;
        for (size_t i = 0, used = 0; i < family->n_labels; i++) {
                size_t n = strlen(label_values[i]) + 1;
                memcpy(key + used, label_values[i], n);
                used += n;
        }

        pthread_mutex_lock(&family->metrics->lock);
        struct metric *metric = series_find_or_add(family, key, key_size);
        pthread_mutex_unlock(&family->metrics->lock);
        return metric;
}

struct metric *metric_single(struct metrics *metrics, enum metric_type type, const char *name, const char *help)
{
        return metric_get(metrics_family(metrics, type, name, help, 0, NULL, NULL, 0), NULL);
}

void metric_add(struct metric *metric, int64_t by)
{
        if (metric)
                atomic_fetch_add_explicit(&metric->value, by, memory_order_relaxed);
}

void metric_set(struct metric *metric, int64_t value)
{
        if (metric)
                atomic_store_explicit(&metric->value, value, memory_order_relaxed);
}

void metric_observe(struct metric *metric, double value)
{
        if (!metric || isnan(value))
                return;
        const struct metric_family *family = metric->family;
        size_t i = 0;
        while (i < family->n_buckets && value > family->bounds[i])
                i++;
        atomic_fetch_add_explicit(&metric->buckets[i], 1, memory_order_relaxed);
        double sum = atomic_load_explicit(&metric->sum, memory_order_relaxed);
        while (!atomic_compare_exchange_weak_explicit(&metric->sum, &sum, sum + value, memory_order_relaxed,
                                                      memory_order_relaxed))
                continue;
}

int64_t metric_value(const struct metric *metric)
{
        if (!metric)
                return 0;
        if (metric->family->type != METRIC_HISTOGRAM)
                return atomic_load_explicit(&metric->value, memory_order_relaxed);
        uint64_t count = 0;
        for (size_t i = 0; i <= metric->family->n_buckets; i++)
                count += atomic_load_explicit(&metric->buckets[i], memory_order_relaxed);
        return (int64_t)count;
}

void metrics_on_render(struct metrics *metrics, void (*collect)(void *context), void *context)
{
        if (!metrics)
                return;
        struct metric_collector *collector = calloc(1, sizeof(*collector));
        if (!collector)
                return;
        collector->collect = collect;
        collector->context = context;
        pthread_mutex_lock(&metrics->lock);
        collector->next = metrics->collectors;
        metrics->collectors = collector;
        pthread_mutex_unlock(&metrics->lock);
}
