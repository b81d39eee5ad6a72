/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FABRIC_MAPPING_H
#define FABRIC_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uthash.h>

/*
 * Files of workers on this host that we have mapped: their regions and lease tables, kept for the next transfer. For
 * who has the turn.
 */

enum {
        MAPPING_LEASES = 0,  /* file: the lease table; else the id of a region */
        MAPPINGS_MAX = 4096, /* for short reads from a thousand peers: two for each */
};

struct mapping_key {
        uint64_t epoch, file, writable;
};

struct mapping {
        struct mapping_key key;
        uint8_t *address;
        size_t size;
        uint8_t *ready; /* a bit for each block whose pages are in our page table */
        unsigned users;
        bool doomed; /* the file is gone: to be dropped with the last user */
        uint64_t last_used_us;
        struct mapping *prev, *next; /* idle, while it has no users */
        UT_hash_handle hh;
};

struct mappings {
        struct mapping *by_key; /* uthash */
        struct mapping *idle;   /* utlist; the one that was not used for the longest time first */
};

/*
 * Maps the file, or takes the mapping there is; mapping_put gives it back. 0 with *ret_mapping; -ENOENT, -EACCES (see
 * presence_open_file), -ENOSPC (too many in use), other -errno.
 */
int mapping_get(struct mappings *mappings, uint64_t epoch, uint64_t file, bool writable, struct mapping **ret_mapping);
void mapping_put(struct mappings *mappings, struct mapping *mapping);
/* The same mapping for one more user. */
struct mapping *mapping_share(struct mapping *mapping);

/* Makes ready for a copy out of or into [offset, offset + size), so that it does not fault once a page. */
void mapping_prepare(struct mapping *mapping, size_t offset, size_t size);

/* The file is gone. */
void mappings_forget(struct mappings *mappings, uint64_t epoch, uint64_t file);
/* The worker is gone, or its endpoint. */
void mappings_forget_worker(struct mappings *mappings, uint64_t epoch);
/* Drops what was not used since then. */
void mappings_drop_unused(struct mappings *mappings, uint64_t before_us);
/* Drops everything; nothing may be in use. */
void mappings_clear(struct mappings *mappings);

#endif
