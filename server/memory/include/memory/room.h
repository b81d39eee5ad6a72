/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMORY_ROOM_H
#define MEMORY_ROOM_H

#include <stddef.h>
#include <stdint.h>

/*
 * Memory that this process may still take: the machine's, within the limits of its control group and of those above it
 * (cgroup v1 and v2). When a group or the machine is full the kernel kills a process instead of returning an error, so
 * Ferry checks first.
 */

enum { ROOM_LIMIT_SIZE = 80 };

/* The files to read; a test passes its own. */
struct room_paths {
        const char *meminfo;   /* /proc/meminfo */
        const char *cgroup;    /* /proc/self/cgroup */
        const char *mountinfo; /* /proc/self/mountinfo */
};

/* Bytes; UINT64_MAX = not known. The limits are noun phrases for users. */
struct room {
        uint64_t total; /* the smallest of the limits */
        char total_limit[ROOM_LIMIT_SIZE];
        uint64_t left; /* what may still be taken, page cache that can be reclaimed included */
        char left_limit[ROOM_LIMIT_SIZE];
};

/* paths NULL = the system's. Takes about 0.1 ms; any thread. */
void room_look(const struct room_paths *paths, struct room *ret_room);

#endif
