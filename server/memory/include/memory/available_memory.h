/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMORY_AVAILABLE_MEMORY_H
#define MEMORY_AVAILABLE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/*
 * The memory that this process may still take: the machine's, within its commit limit and the limits of this process's
 * control group and of those above it (cgroup v1 and v2). When a group or the machine is full the kernel kills a
 * process instead of returning an error, so Ferry checks first.
 */

enum { AVAILABLE_LIMIT_SIZE = 80 };

/* The files to read; a test passes its own. */
struct available_memory_paths {
        const char *meminfo;    /* /proc/meminfo */
        const char *overcommit; /* /proc/sys/vm/overcommit_memory */
        const char *cgroup;     /* /proc/self/cgroup */
        const char *mountinfo;  /* /proc/self/mountinfo */
};

/* Bytes; UINT64_MAX = not known. The limits are noun phrases for users. */
struct available_memory {
        uint64_t total; /* the smallest of the limits */
        char total_limit[AVAILABLE_LIMIT_SIZE];
        uint64_t available; /* may still be taken, page cache that can be reclaimed included */
        char available_limit[AVAILABLE_LIMIT_SIZE];
};

/* paths NULL = the system's. Takes about 0.1 ms; any thread. */
void available_memory_read(const struct available_memory_paths *paths, struct available_memory *ret_memory);

#endif
