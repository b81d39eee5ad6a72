/* SPDX-License-Identifier: Apache-2.0 */
#ifndef METRICS_INTERNAL_H
#define METRICS_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/metrics.h"

#include <uthash.h>

/* One series. Values are atomic, the rest is fixed from creation on. */
struct metric {
        struct metric_family *family;
        UT_hash_handle hh; /* under the registry's lock; iterates in order of creation */
        _Atomic int64_t value;
        _Atomic double sum;
        _Atomic uint64_t buckets[METRIC_BUCKETS_MAX + 1]; /* each bucket's own count; the last is +Inf */
        size_t key_size;
        char key[]; /* the label values, each with its NUL */
};

/* Fixed from creation on, but for the series. */
struct metric_family {
        struct metrics *metrics;
        struct metric_family *next; /* in order of registration */
        enum metric_type type;
        size_t n_labels, n_buckets;
        const char *label_names[METRIC_LABELS_MAX];
        double bounds[METRIC_BUCKETS_MAX];
        double scale;            /* of counters and gauges; 0 = they are integers */
        const char *name, *help; /* borrowed */
        struct metric *series;   /* under the registry's lock */
};

/* A node never changes once it is in the list, so that a walk from a head read under the lock needs no lock. */
struct metric_collector {
        const struct metric_collector *next;
        void (*collect)(void *context);
        void *context;
};

struct metrics {
        pthread_mutex_t lock; /* a leaf; guards the lists and the families' series */
        struct metric_family *families, **last_family;
        const struct metric_collector *collectors;
};

#endif
