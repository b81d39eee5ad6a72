/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

/* The table of measurements, what a measurement tells bench.py, and the little arithmetic that all of them need. */

static const struct {
        const char *name;
        void (*run)(void);
        const char *what;
} measurements[] = {
        { "bulk", bench_bulk, "256 MiB through the whole REST cycle, beside memcpy and bare UCX" },
        { "own", bench_own, "256 MiB out of memory that an embedding program owns, beside memcpy" },
        { "writes", bench_writes, "network writes beside reads, the bytes alone" },
        { "threads", bench_threads, "local copies with --copy-threads 2 beside none, the bytes alone" },
        { "bytes", bench_bytes, "4 KiB on one host, the bytes alone, beside a bare Unix socket" },
        { "small", bench_small, "4 KiB through three HTTP calls, beside the bare libraries" },
        { "inside", bench_inside, "4 KiB between programs with a worker inside, from C and from asyncio" },
        { "nixl", bench_nixl, "4 KiB and 256 MiB on one host beside NIXL, where its wheel is installed" },
        { "batch", bench_batch, "64 reads of 4 KiB by one call" },
        { "scatter", bench_scatter, "many descriptors beside one" },
        { "scale", bench_scale, "many live operations and parked waits: time and memory" },
        { "idle", bench_idle, "processor time and memory of workers that have nothing to do" },
        { "fetch", bench_fetch, "ferry fetch of 1 GiB into a file in memory beside cp" },
        { "content", bench_content, "an operation's bytes over HTTP beside a download from a bare libmicrohttpd" },
        { "regions", bench_regions, "making a large region beside bare page faults" },
};

static bool full;

_Noreturn void bench_fail(const char *format, ...)
{
        va_list arguments;

        (void)fflush(stdout);
        (void)fputs("bench: ", stderr);
        va_start(arguments, format);
        (void)vfprintf(stderr, format, arguments);
        va_end(arguments);
        (void)fputc('\n', stderr);
        processes_end();
        _exit(EXIT_FAILURE);
}

void bench_check(struct ferry *f, int result, const char *what)
{
        if (result != 0)
                bench_fail("%s: %s (%d)", what, ferry_last_message(f), result);
}

char *bench_text(const char *format, ...)
{
        va_list arguments;
        char *text;

        va_start(arguments, format);
        if (vasprintf(&text, format, arguments) < 0)
                bench_fail("out of memory");
        va_end(arguments);
        return text;
}

/* ---- lines for bench.py ---- */

void sample(const char *unit, double value, const char *series, ...)
{
        va_list arguments;

        (void)fputs("S ", stdout);
        va_start(arguments, series);
        (void)vprintf(series, arguments);
        va_end(arguments);
        (void)printf(" %s %.9g\n", unit, value);
        (void)fflush(stdout);
}

static void say(char kind, const char *format, va_list arguments)
{
        (void)printf("%c ", kind);
        (void)vprintf(format, arguments);
        (void)putchar('\n');
        (void)fflush(stdout);
}

void begin_round(const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        say('R', format, arguments);
        va_end(arguments);
}

void note(const char *format, ...)
{
        va_list arguments;

        va_start(arguments, format);
        say('N', format, arguments);
        va_end(arguments);
}

/* ---- arithmetic ---- */

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

size_t quick_or_full(size_t quick, size_t full_value)
{
        return full ? full_value : quick;
}

int main(int argc, char **argv)
{
        struct rlimit files;
        const size_t n = sizeof(measurements) / sizeof(measurements[0]);

        if (argc == 2 && strcmp(argv[1], "--list") == 0) {
                for (size_t i = 0; i < n; i++)
                        (void)printf("%-14s%s\n", measurements[i].name, measurements[i].what);
                return EXIT_SUCCESS;
        }
        if (argc != 3 || (strcmp(argv[2], "quick") != 0 && strcmp(argv[2], "full") != 0))
                bench_fail("usage: ferry-bench MEASUREMENT quick|full; ferry-bench --list");
        full = strcmp(argv[2], "full") == 0;
        if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
                files.rlim_cur = files.rlim_max;
                (void)setrlimit(RLIMIT_NOFILE, &files);
        }
        processes_init();
        for (size_t i = 0; i < n; i++) {
                if (strcmp(measurements[i].name, argv[1]) == 0) {
                        measurements[i].run();
                        return EXIT_SUCCESS;
                }
        }
        bench_fail("no measurement %s (see --list)", argv[1]);
}
