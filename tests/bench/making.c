/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"

/* The making of a large region, and what others notice of it. */

#ifndef MADV_POPULATE_WRITE /* newer than Debian 12's headers */
#define MADV_POPULATE_WRITE 23
#endif

enum { THREADS_MAX = 16, ASKS_MAX = 1 << 16, PAUSE_US = 500 };

/* ---- as many threads that populate the same memory, and nothing else ---- */

struct part {
        pthread_t thread;
        uint8_t *address;
        size_t size;
};

static void *populate_part(void *context)
{
        const struct part *part = context;

        if (madvise(part->address, part->size, MADV_POPULATE_WRITE) < 0)
                bench_fail("memory cannot be populated: %s", strerror(errno));
        return NULL;
}

static double populate_seconds(uint64_t size, unsigned threads)
{
        int fd = memfd_create("ferry-bench", MFD_CLOEXEC);
        uint8_t *memory = fd < 0 || ftruncate(fd, (off_t)size) < 0
                                  ? MAP_FAILED
                                  : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        struct part parts[THREADS_MAX];
        uint64_t start;
        double seconds;

        if (memory == MAP_FAILED)
                bench_fail("no memory to populate: %s", strerror(errno));
        start = now_ns();
        for (unsigned i = 0; i < threads; i++) {
                parts[i].address = memory + i * (size / threads);
                parts[i].size = size / threads;
                if (pthread_create(&parts[i].thread, NULL, populate_part, &parts[i]) != 0)
                        bench_fail("no thread");
        }
        for (unsigned i = 0; i < threads; i++)
                (void)pthread_join(parts[i].thread, NULL);
        seconds = seconds_since(start);
        (void)munmap(memory, size);
        (void)close(fd);
        return seconds;
}

/* ---- a region, and another client meanwhile ---- */

struct maker {
        struct ferry *client;
        uint64_t size;
        double seconds;
        struct region region;
        atomic_bool over;
};

static void *make(void *context)
{
        struct maker *maker = context;
        uint64_t start = now_ns();

        region_create(maker->client, maker->size, &maker->region);
        maker->seconds = seconds_since(start);
        atomic_store(&maker->over, true);
        return NULL;
}

static int compare(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

/* The 99th percentile of GET /livez, asked now and then until over, or for so many seconds. */
static double livez_p99(struct http *http, atomic_bool *over, double seconds)
{
        static double asks[ASKS_MAX];
        uint64_t start = now_ns();
        size_t n = 0;

        while (n < ASKS_MAX && (over ? !atomic_load(over) : seconds_since(start) < seconds)) {
                uint64_t asked = now_ns();

                http_call(http, "GET", "/livez", NULL, 200);
                asks[n++] = seconds_since(asked);
                (void)usleep(PAUSE_US);
        }
        if (n == 0)
                bench_fail("the region was there before anybody could ask");
        qsort(asks, n, sizeof(asks[0]), compare);
        return asks[n * 99 / 100];
}

void bench_making(void)
{
        uint64_t size = bench_full ? 8 * GIB : 2 * GIB;
        long cores = sysconf(_SC_NPROCESSORS_ONLN);
        unsigned n = rounds(3, 7), threads = cores > 8 ? 8 : (unsigned)cores; /* as many makers as a worker has */
        struct maker maker = { 0 };
        struct http http;
        struct worker w;

        while (size > memory_available() / 2)
                size /= 2;
        if (size < 8 * GIB)
                note("making: regions of %llu MiB instead of 8 GiB", (unsigned long long)(size / MIB));
        worker_start(&w, (const char *const[]){ "--memory-limit", "9G", NULL });
        http_open(&http, w.url);
        maker.client = worker_connect(&w);
        maker.size = size;
        for (unsigned i = 0; i < n; i++) {
                double populate, alone, busy;
                pthread_t thread;

                begin_round("round %u of %u", i + 1, n);
                populate = populate_seconds(size, threads);
                alone = livez_p99(&http, NULL, populate);
                atomic_store(&maker.over, false);
                if (pthread_create(&thread, NULL, make, &maker) != 0)
                        bench_fail("no thread");
                busy = livez_p99(&http, &maker.over, 0);
                (void)pthread_join(thread, NULL);
                bench_check(maker.client, ferry_delete_region(maker.client, maker.region.info.id), "delete region");
                sample("GB/s", gigabytes_per_second(size, populate), "making.populate");
                sample("GB/s", gigabytes_per_second(size, maker.seconds), "making.region");
                sample("us", alone * 1e6, "making.livez.alone");
                sample("us", busy * 1e6, "making.livez.busy");
        }
        maker.client = ferry_free(maker.client);
        http_close(&http);
        worker_stop(&w);
}
