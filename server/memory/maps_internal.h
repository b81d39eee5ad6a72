/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMORY_MAPS_INTERNAL_H
#define MEMORY_MAPS_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * The memory map of this process, as the kernel tells it. Linux 6.11 answers for one address in a microsecond
 * (PROCMAP_QUERY); before, /proc/self/maps is read up to the address: what a program has mapped last, and the heap, are
 * at its beginning. Any thread.
 */

struct maps {
        atomic_int fd; /* of /proc/self/maps, for the queries; 0 = not open yet */
};

/* The memory at an address. */
struct maps_facts {
        bool mapped;   /* all of it, and readable */
        bool writable; /* all of it */
        /*
         * No access can fail while the mapping stays: no file is behind any of it, or none that a program could
         * truncate or fill a disk with.
         */
        bool steady;
};

void maps_clear(struct maps *maps);

/* What is known of [address, address + size). Where the kernel does not tell, nothing is mapped, and all writable. */
void maps_look(struct maps *maps, const void *address, size_t size, struct maps_facts *ret_facts);

#endif
