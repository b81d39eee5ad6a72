/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PAGES_INTERNAL_H
#define PAGES_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Memory of a region: a memfd, sealed against shrinking and growing, mapped once. Plain data; the owner synchronises.
 */
struct pages {
        int fd; /* -1 = none */
        void *address;
        size_t size;
};

/* Whether RLIMIT_FSIZE, beyond which growing a file would raise SIGXFSZ, allows so many bytes. */
bool pages_may_have(uint64_t size);

/* Reserves address space without pages, in a file that has the region's id in its name. 0 or -errno; -EFBIG also where
 * RLIMIT_FSIZE is too small. */
int pages_new(uint64_t region, size_t size, struct pages *ret_pages);

/*
 * Makes and maps every page of [offset, offset + size); offset is a multiple of PAGES_HUGE. Several threads may fill
 * parts of one memory. huge: huge pages are tried while it is true; set to false once there are none. 0 or -errno.
 */
enum { PAGES_HUGE = 2 << 20 };
int pages_fill(const struct pages *pages, size_t offset, size_t size, atomic_bool *huge);

/*
 * Adds the last seals; none can be added or removed after it. future_write: from now on no process can map the memory
 * for writing or write it, but through the mapping that exists. 0 or -errno.
 */
int pages_seal(const struct pages *pages, bool future_write);

/* Frees the memory. May take 0.2 s per GiB of ordinary pages. Harmless without memory. */
void pages_free(struct pages *pages);

#endif
