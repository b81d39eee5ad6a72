/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

#include "bench.h"

/* What a measurement tells bench.py, and the little arithmetic that all of them need. */

static void line(char kind, const char *format, va_list arguments)
{
        (void)printf("%c ", kind);
        (void)vprintf(format, arguments);
}

void sample(const char *unit, double value, const char *series, ...)
{
        va_list arguments;

        va_start(arguments, series);
        line('S', series, arguments);
        va_end(arguments);
        (void)printf(" %s %.9g\n", unit, value);
        (void)fflush(stdout);
}

void progress(const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        line('P', format, arguments);
        va_end(arguments);
        (void)putchar('\n');
        (void)fflush(stdout);
}

void begin_round(const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        line('R', format, arguments);
        va_end(arguments);
        (void)putchar('\n');
        (void)fflush(stdout);
}

void note(const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        line('N', format, arguments);
        va_end(arguments);
        (void)putchar('\n');
}

uint64_t now_ns(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

double seconds_since(uint64_t start_ns)
{
        return (double)(now_ns() - start_ns) / 1e9;
}

double gigabytes_per_second(uint64_t bytes, double seconds)
{
        return (double)bytes / seconds / 1e9;
}

static int compare(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

double median(double *values, size_t n)
{
        qsort(values, n, sizeof(*values), compare);
        return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double midmean(double *values, size_t n)
{
        size_t from = n / 4, to = n - n / 4;
        double sum = 0;

        qsort(values, n, sizeof(*values), compare);
        for (size_t i = from; i < to; i++)
                sum += values[i];
        return sum / (double)(to - from);
}
