/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* A memfd whose pages are made by so many threads, and nothing else: what a region's memory cannot do without. */

enum { STRIPE = 32 << 20, THREADS_MAX = 8 };

static uint8_t *memory;
static size_t size;
static atomic_size_t taken;

static void *populate(void *context)
{
        size_t from;

        while ((from = atomic_fetch_add(&taken, STRIPE)) < size)
                if (madvise(memory + from, size - from < STRIPE ? size - from : STRIPE, MADV_POPULATE_WRITE) < 0)
                        exit(EXIT_FAILURE);
        return NULL;
}

int main(int argc, char **argv)
{
        long cores = sysconf(_SC_NPROCESSORS_ONLN);
        int n = cores <= 2 ? 1 : cores > THREADS_MAX ? THREADS_MAX : (int)cores - 1; /* as many as Ferry's */
        pthread_t threads[THREADS_MAX];
        char line[64];

        while (fgets(line, sizeof(line), stdin)) {
                struct timespec start, end;
                int fd;

                size = strtoull(line, NULL, 10);
                atomic_store(&taken, 0);
                (void)clock_gettime(CLOCK_MONOTONIC, &start);
                fd = memfd_create("ferry-bench", MFD_CLOEXEC);
                if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
                        return EXIT_FAILURE;
                memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
                if (memory == MAP_FAILED)
                        return EXIT_FAILURE;
                for (int i = 0; i < n; i++)
                        if (pthread_create(&threads[i], NULL, populate, NULL) != 0)
                                return EXIT_FAILURE;
                for (int i = 0; i < n; i++)
                        (void)pthread_join(threads[i], NULL);
                (void)clock_gettime(CLOCK_MONOTONIC, &end);
                (void)munmap(memory, size);
                (void)close(fd);
                (void)printf("%.9f\n",
                             (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9);
                (void)fflush(stdout);
        }
        return EXIT_SUCCESS;
}
