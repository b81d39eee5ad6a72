/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "metrics_internal.h"

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
        pthread_mutex_lock(&metrics->lock);
        const struct metric_collector *collector = metrics->collectors;
        pthread_mutex_unlock(&metrics->lock);
        for (; collector; collector = collector->next)
                collector->collect(collector->context);

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
