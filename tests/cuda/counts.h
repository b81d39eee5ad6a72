/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_STANDIN_COUNTS_H
#define TESTS_STANDIN_COUNTS_H

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* What tests want to know of the driver that stands in. Zeros at first. */
struct standin_counts {
        atomic_int in_flight;              /* copies that are queued and have not been waited for */
        _Atomic uint64_t pinned, pageable; /* bytes between devices and such host memory */
        atomic_int pins;                   /* ranges that are registered now */
        atomic_int starting;               /* devices whose first context is being made */
        atomic_int freed_while_open;       /* cuMemFree of memory that another process had open */
};

/* A new file of them, which the processes that are started from now on share. NULL: it cannot be made. */
static inline struct standin_counts *standin_counts_new(const char *path)
{
        int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        void *address = MAP_FAILED;

        if (fd >= 0 && ftruncate(fd, sizeof(struct standin_counts)) == 0)
                address = mmap(NULL, sizeof(struct standin_counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (fd >= 0)
                (void)close(fd);
        (void)setenv("CUDA_STANDIN_COUNTS", path, 1);
        return address == MAP_FAILED ? NULL : address;
}

#endif
