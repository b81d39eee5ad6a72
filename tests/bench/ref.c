/* SPDX-License-Identifier: Apache-2.0 */
#include "ref.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE /* newer than Debian 12's headers */
#define MADV_COLLAPSE 25
#endif

enum { HUGE = 2 << 20 };

void *ref_memory_new(size_t size, int value)
{
        int fd = memfd_create("ferry-bench", MFD_CLOEXEC);
        uint8_t *start = mmap(NULL, size + HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        uint8_t *address = start + -(uintptr_t)start % HUGE;

        if (fd < 0 || start == MAP_FAILED || ftruncate(fd, (off_t)size) < 0 ||
            mmap(address, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
                return NULL;
        (void)close(fd);
        for (size_t i = 0; i < size; i += HUGE)
                address[i] = 0;
        (void)madvise(address, size / HUGE * HUGE, MADV_COLLAPSE);
        return memset(address, value, size);
}

double ref_now(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void ref_answer(double (*run)(uint64_t size))
{
        char line[64];

        while (fgets(line, sizeof(line), stdin)) {
                (void)printf("%.9f\n", run(strtoull(line, NULL, 10)));
                (void)fflush(stdout);
        }
}
