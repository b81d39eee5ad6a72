/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMORY_ROOM_H
#define MEMORY_ROOM_H

#include <stddef.h>
#include <stdint.h>

/*
 * Memory that the system lets this process have: the machine's, and the limits of its control group and of those above
 * it (cgroup v1 and v2). The kernel answers a full control group and a full machine not with an error but by killing a
 * process, so Ferry looks before it takes.
 */

enum { ROOM_LIMIT_SIZE = 80 };

/* Where the system tells; a test passes files of its own. */
struct room_paths {
        const char *meminfo;   /* /proc/meminfo */
        const char *cgroup;    /* /proc/self/cgroup */
        const char *mountinfo; /* /proc/self/mountinfo */
};

/* Bytes; UINT64_MAX = not known. The limits are noun phrases for users. */
struct room {
        uint64_t total; /* the least of the limits */
        char total_limit[ROOM_LIMIT_SIZE];
        uint64_t left; /* what may still be taken, with what the kernel would reclaim from page cache */
        char left_limit[ROOM_LIMIT_SIZE];
};

/* paths NULL = the system's. Takes about 0.1 ms; any thread. */
void room_look(const struct room_paths *paths, struct room *ret_room);

#endif
