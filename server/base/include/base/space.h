/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_SPACE_H
#define BASE_SPACE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Memory that host code must not touch: of a GPU, whose driver copies its bytes, or of a mapping whose file the program
 * may truncate, which the kernel copies. Where a struct space is asked for, NULL is other host memory.
 * server/memory/gpu.c and server/memory/foreign.c make them.
 */

struct space;

/* The device of every space that is no GPU's; above the numbers of GPUs. */
enum { SPACE_NO_GPU = 64 };

struct space_ops {
        /*
         * Queues a copy of size bytes, of which to or from lies in a space of these ops. 0; -EFAULT when the program
         * that owns the memory has freed it; -ENODEV when the device is gone or was reset; -EROFS, -ENXIO, -ENODATA of
         * mapped memory (memory/region_internal.h); -EMFILE; -ENOMEM; -EIO.
         */
        int (*copy)(const struct space *to_space, void *to, const struct space *from_space, const void *from,
                    size_t size);
        /* Waits for all copies that this thread has queued with these ops. 0, or the first of their errors. */
        int (*finish)(const struct space *space);
        /* Whether the memory is still there: 0, -EFAULT, -ENODEV. */
        int (*check)(const struct space *space);
        bool any; /* copy takes a space of other ops as the other one of the two */
};

struct space {
        const struct space_ops *ops;
        bool foreign;     /* the program's, which may free it at any time: check says so, and copy */
        bool only_copied; /* no other process and no network card may reach the memory in place */
        unsigned device;  /* one that stands still holds up its own copies alone */
};

/*
 * Copies between any two spaces. Where one of them is not host memory, the copy is only queued: source and destination
 * stay untouched until the same thread has called space_finish, also after an error. Any thread; may block.
 */
int space_copy(const struct space *to_space, void *to, const struct space *from_space, const void *from, size_t size);

/* Waits for all copies that this thread has queued with the ops of the two; either may be NULL. 0 or -errno. */
int space_finish(const struct space *to_space, const struct space *from_space);

/* Whether memory off the host is still there: 0, -EFAULT, -ENODEV. Any thread; may block. */
int space_check(const struct space *space);

/* The number of the GPU that has the memory; -1 = no GPU has it. */
static inline int space_gpu(const struct space *space)
{
        return space && space->device != SPACE_NO_GPU ? (int)space->device : -1;
}

/* A sentence for users about an error of the two. */
const char *space_error(int error);

#endif
