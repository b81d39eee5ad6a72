/* SPDX-License-Identifier: Apache-2.0 */
#include "base/metrics.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <ferry/error.h>

#include "base/clock.h"
#include "base/util.h"

#include <uthash.h>

/*
 * Metrics: see metrics.h. Families and series are made under the registry's lock, a leaf, and are freed with the
 * registry only, so that a pointer to a series may be kept and counted on without it. The label values are the key of a
 * series.
 *
 * Thread: any.
 */

enum { KEY_ON_STACK = 256 };

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

struct metrics {
        pthread_mutex_t lock; /* a leaf; guards the list and the families' series */
        struct metric_family *families, **last_family;
        atomic_bool has_process; /* metrics_process was called */
};

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

/* Finds or makes a series. NULL when memory is short. The lock is held. */
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

struct metric_family *metrics_by_code(struct metrics *metrics, const char *name, const char *help, const char *label)
{
        static const char *const codes[] = {
#define X(name, number, code, http, retryable, title) code,
                FERRY_ERRORS(X)
#undef X
        };
        struct metric_family *family = metrics_family(metrics, METRIC_COUNTER, name, help, 1, &label, NULL, 0);

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(codes); i++)
                (void)metric_get(family, &codes[i]);
        return family;
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

/* ---- the process ---- */

/* Fields of /proc/self/stat, counted from the one after the name, which ends at the last ')'. */
enum { STAT_UTIME = 11, STAT_STIME, STAT_START = 19, STAT_VSIZE, STAT_RSS, STAT_FIELDS };

enum value { CPU, RESIDENT, VIRTUAL, START, OPEN_FILES, MAX_FILES, VALUES };

static const struct {
        enum metric_type type;
        double scale;
        const char *name, *help;
} table[VALUES] = {
        [CPU] = { METRIC_COUNTER, 1e-3, "process_cpu_seconds_total", "User and system processor time in seconds." },
        [RESIDENT] = { METRIC_GAUGE, 0, "process_resident_memory_bytes", "Resident memory in bytes." },
        [VIRTUAL] = { METRIC_GAUGE, 0, "process_virtual_memory_bytes", "Virtual memory in bytes." },
        [START] = { METRIC_GAUGE, 1e-3, "process_start_time_seconds", "Start of the process, in seconds since 1970." },
        [OPEN_FILES] = { METRIC_GAUGE, 0, "process_open_fds", "Open file descriptors." },
        [MAX_FILES] = { METRIC_GAUGE, 0, "process_max_fds", "Most open file descriptors." },
};

/* The fields; false where there is no /proc. */
static bool stat_read(uint64_t fields[STAT_FIELDS])
{
        char text[1024], state;
        FERRY_CLEANUP(cleanup_file) FILE *file = fopen("/proc/self/stat", "re");
        size_t n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
        const char *at;
        int used;

        text[n] = '\0';
        at = strrchr(text, ')');
        if (!at || sscanf(at, ") %c%n", &state, &used) != 1)
                return false;
        at += used;
        for (size_t i = 1; i < STAT_FIELDS; i++, at += used)
                if (sscanf(at, " %" SCNu64 "%n", &fields[i], &used) != 1)
                        return false;
        return true;
}

/* Ticks of sysconf's clock in milliseconds. */
static int64_t ticks_ms(uint64_t ticks)
{
        return (int64_t)(ticks * 1000 / (uint64_t)sysconf(_SC_CLK_TCK));
}

/* The number of open descriptors; 0 where there is no /proc. */
static int64_t open_files(void)
{
        DIR *directory = opendir("/proc/self/fd");
        int64_t n = 0;

        if (!directory)
                return 0;
        while (readdir(directory))
                n++;
        (void)closedir(directory);
        return n - 3; /* ".", "..", and the directory's own */
}

/* Reads the process_ family anew. Called for each answer to a scrape. */
static void process_read(struct metrics *metrics)
{
        uint64_t fields[STAT_FIELDS];
        int64_t values[VALUES] = { 0 };
        struct rlimit files;
        struct timespec up;

        if (stat_read(fields)) {
                (void)clock_gettime(CLOCK_BOOTTIME, &up);
                values[CPU] = ticks_ms(fields[STAT_UTIME] + fields[STAT_STIME]);
                values[VIRTUAL] = (int64_t)fields[STAT_VSIZE];
                values[RESIDENT] = (int64_t)fields[STAT_RSS] * sysconf(_SC_PAGESIZE);
                values[START] = (int64_t)clock_unix_ms() - up.tv_sec * 1000 - up.tv_nsec / 1000000 +
                                ticks_ms(fields[STAT_START]);
        }
        values[OPEN_FILES] = open_files();
        if (getrlimit(RLIMIT_NOFILE, &files) == 0)
                values[MAX_FILES] = (int64_t)files.rlim_cur;
        for (size_t i = 0; i < VALUES; i++)
                metric_set(metric_single(metrics, table[i].type, table[i].name, table[i].help), values[i]);
}

void metrics_process(struct metrics *metrics)
{
        for (size_t i = 0; i < VALUES; i++)
                metrics_scale(metrics_family(metrics, table[i].type, table[i].name, table[i].help, 0, NULL, NULL, 0),
                              table[i].scale);
        atomic_store(&metrics->has_process, true);
}

/* ---- the text format ---- */

static const char *const type_names[] = {
        [METRIC_COUNTER] = "counter",
        [METRIC_GAUGE] = "gauge",
        [METRIC_HISTOGRAM] = "histogram",
};

/* HELP escapes backslash and newline; a label value also the quote. */
static void put_escaped(FILE *out, const char *text, bool quote)
{
        for (; *text; text++) {
                if (*text == '\n')
                        fputs("\\n", out);
                else if (*text == '\\' || (quote && *text == '"'))
                        fprintf(out, "\\%c", *text);
                else
                        fputc(*text, out);
        }
}

/* Prints the shorter of two forms that parses back to the same number. */
static void put_double(FILE *out, double value)
{
        if (isinf(value)) {
                fputs(value > 0 ? "+Inf" : "-Inf", out);
                return;
        }
        char text[32];
        (void)snprintf(text, sizeof(text), "%.15g", value);
        double back = strtod(text, NULL);
        fprintf(out, "%.*g", memcmp(&back, &value, sizeof(value)) == 0 ? 15 : 17, value);
}

/* name{a="b",le="0.1"} and a space; bound is NULL but for the buckets of a histogram. */
static void put_name(FILE *out, const struct metric *metric, const char *suffix, const double *bound)
{
        const struct metric_family *family = metric->family;
        const char *value = metric->key;
        char separator = '{';
        fprintf(out, "%s%s", family->name, suffix);
        for (size_t i = 0; i < family->n_labels; i++) {
                fprintf(out, "%c%s=\"", separator, family->label_names[i]);
                put_escaped(out, value, true);
                fputc('"', out);
                separator = ',';
                value += strlen(value) + 1;
        }
        if (bound) {
                fprintf(out, "%cle=\"", separator);
                put_double(out, *bound);
                fputc('"', out);
                separator = ',';
        }
        fputs(separator == ',' ? "} " : " ", out);
}

/* The count is the sum of the buckets as read here, so that both agree while others observe. */
static void put_histogram(FILE *out, struct metric *metric)
{
        const struct metric_family *family = metric->family;
        uint64_t count = 0;
        for (size_t i = 0; i <= family->n_buckets; i++) {
                double bound = i < family->n_buckets ? family->bounds[i] : INFINITY;
                count += atomic_load_explicit(&metric->buckets[i], memory_order_relaxed);
                put_name(out, metric, "_bucket", &bound);
                fprintf(out, "%" PRIu64 "\n", count);
        }
        put_name(out, metric, "_sum", NULL);
        put_double(out, atomic_load_explicit(&metric->sum, memory_order_relaxed));
        fputc('\n', out);
        put_name(out, metric, "_count", NULL);
        fprintf(out, "%" PRIu64 "\n", count);
}

static void put_value(FILE *out, const struct metric *metric)
{
        int64_t value = atomic_load_explicit(&metric->value, memory_order_relaxed);

        put_name(out, metric, "", NULL);
        if (metric->family->scale != 0)
                put_double(out, (double)value * metric->family->scale);
        else
                fprintf(out, "%" PRId64, value);
        fputc('\n', out);
}

/* Prints a family and its series. The lock is held. */
static void put_family(FILE *out, const struct metric_family *family)
{
        fprintf(out, "# HELP %s ", family->name);
        put_escaped(out, family->help, false);
        fprintf(out, "\n# TYPE %s %s\n", family->name, type_names[family->type]);
        struct metric *metric, *next;
        HASH_ITER (hh, family->series, metric, next) {
                if (family->type == METRIC_HISTOGRAM) {
                        put_histogram(out, metric);
                } else {
                        put_value(out, metric);
                }
        }
}

char *metrics_render(struct metrics *metrics, size_t *ret_size)
{
        if (!metrics)
                return NULL;
        if (atomic_load(&metrics->has_process))
                process_read(metrics);

        FERRY_CLEANUP(cleanup_free) char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);
        if (!out)
                return NULL;
        /* The embedding program may have set a locale that writes 0,5. */
        locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
        locale_t before = plain ? uselocale(plain) : (locale_t)0;
        pthread_mutex_lock(&metrics->lock);
        for (const struct metric_family *family = metrics->families; family; family = family->next)
                put_family(out, family);
        pthread_mutex_unlock(&metrics->lock);
        if (plain) {
                (void)uselocale(before);
                freelocale(plain);
        }
        bool failed = ferror(out) != 0;
        if (fclose(out) != 0 || failed || !plain)
                return NULL;
        *ret_size = size;
        return FERRY_STEAL(text);
}
