/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_METRICS_H
#define BASE_METRICS_H

#include <stddef.h>
#include <stdint.h>

/*
 * Prometheus metrics. A registry holds families; a family holds series, one for each combination of label values.
 * Series are found or made once and kept for ever, so label values must come from closed sets. Counting is an atomic
 * add; everything may be called from any thread.
 */

struct metrics;
struct metric_family;
struct metric;

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };
enum { METRIC_LABELS_MAX = 3, METRIC_BUCKETS_MAX = 20 };

int metrics_new(struct metrics **ret_metrics);
struct metrics *metrics_free(struct metrics *metrics);

/*
 * A family. label_names: n_labels names, borrowed (string literals). buckets: upper bounds, ascending, for histograms
 * (+Inf is added). Returns NULL when memory is short. The registry owns it. metrics may be NULL: then NULL, and all
 * functions below take NULL and do nothing, so that units can be tested without metrics.
 */
struct metric_family *metrics_family(struct metrics *metrics, enum metric_type type, const char *name, const char *help,
                                     size_t n_labels, const char *const *label_names, const double *buckets,
                                     size_t n_buckets);

/* A family of counters with one label, which has a series for every error code (ferry/error.h) from the start. */
struct metric_family *metrics_by_code(struct metrics *metrics, const char *name, const char *help, const char *label);

/* Counters and gauges of the family are counted in units of scale: 1e-6 shows microseconds as seconds. NULL is fine. */
void metrics_scale(struct metric_family *family, double scale);

/* The process_ family that every Prometheus client has: processor time, memory, files, start. Read when rendered. */
void metrics_process(struct metrics *metrics);

/* The series with these label values (copied); made at the first call. NULL when memory is short. */
struct metric *metric_get(struct metric_family *family, const char *const *label_values);

/* The only series of a family without labels or buckets. */
struct metric *metric_single(struct metrics *metrics, enum metric_type type, const char *name, const char *help);

void metric_add(struct metric *metric, int64_t by);       /* counters (by >= 0) and gauges */
void metric_set(struct metric *metric, int64_t value);    /* gauges */
void metric_observe(struct metric *metric, double value); /* histograms */
int64_t metric_value(const struct metric *metric);        /* of a counter or gauge; count of a histogram */

/* All metrics in the text format 0.0.4. A string for free(), NULL when memory is short. */
char *metrics_render(struct metrics *metrics, size_t *ret_size);

#endif
