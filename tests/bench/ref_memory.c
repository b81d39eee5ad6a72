/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ref.h"

/*
 * "ref_memory copy MAX_SIZE": memcpy between two memories as regions are: no copy between processes of one machine is
 * faster in one thread. "ref_memory populate": a memfd whose pages are made by as many threads as Ferry has for that:
 * what a region's memory cannot do without.
 */

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { STRIPE = 32 << 20, THREADS_MAX = 8 };

static uint8_t *from, *to;
static size_t size_max;

static double copy(uint64_t size)
{
        volatile uint8_t sink;
        double start;

        if (size == 0 || size > size_max)
                exit(EXIT_FAILURE);
        start = ref_now();
        memcpy(to, from, size);
        sink = to[size - 1]; /* the copy has a reader */
        (void)sink;
        return ref_now() - start;
}

static struct {
        uint8_t *start;
        size_t size;
        atomic_size_t taken;
} memory;

static void *populate_stripes(void *context)
{
        size_t at;

        while ((at = atomic_fetch_add(&memory.taken, STRIPE)) < memory.size)
                if (madvise(memory.start + at, memory.size - at < STRIPE ? memory.size - at : STRIPE,
                            MADV_POPULATE_WRITE) < 0)
                        exit(EXIT_FAILURE);
        return NULL;
}

static double populate(uint64_t size)
{
        long cores = sysconf(_SC_NPROCESSORS_ONLN);
        int n = cores <= 2 ? 1 : cores > THREADS_MAX ? THREADS_MAX : (int)cores - 1, fd;
        pthread_t threads[THREADS_MAX];
        double start = ref_now(), seconds;

        fd = memfd_create("ferry-bench", MFD_CLOEXEC);
        if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
                exit(EXIT_FAILURE);
        memory.start = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (memory.start == MAP_FAILED)
                exit(EXIT_FAILURE);
        memory.size = size;
        atomic_store(&memory.taken, 0);
        for (int i = 0; i < n; i++)
                if (pthread_create(&threads[i], NULL, populate_stripes, NULL) != 0)
                        exit(EXIT_FAILURE);
        for (int i = 0; i < n; i++)
                (void)pthread_join(threads[i], NULL);
        seconds = ref_now() - start;
        (void)munmap(memory.start, size);
        (void)close(fd);
        return seconds;
}

int main(int argc, char **argv)
{
        if (argc == 3 && strcmp(argv[1], "copy") == 0) {
                size_max = strtoull(argv[2], NULL, 10);
                from = ref_memory_new(size_max, 0x5a);
                to = ref_memory_new(size_max, 0);
                if (!from || !to)
                        return EXIT_FAILURE;
                ref_answer(copy);
        } else if (argc == 2 && strcmp(argv[1], "populate") == 0) {
                ref_answer(populate);
        } else {
                return EXIT_FAILURE;
        }
        return EXIT_SUCCESS;
}
