/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_MAPPING_H
#define LOCAL_MAPPING_H

#include <stddef.h>
#include <stdint.h>

#include "memory/gpu.h"
#include "transport/copier.h"

#include <uthash.h>

/* A peer's memory, mapped or opened here. The progress thread. */

struct mapping {
        uint64_t id;
        const uint8_t *address;    /* NULL = GPU memory that is not open, or host memory that is read by fd */
        int fd;                    /* of host memory for which this process has no address space; -1 = mapped */
        const struct space *space; /* of the address; NULL = host memory */
        uint64_t size;             /* as the peer says */
        struct gpu_pin range;      /* size 0 = GPU memory */
        unsigned users;
        UT_hash_handle hh;
};

struct mappings {
        struct mapping *by_id;
        size_t n;              /* including removed ones still in use */
        uint64_t bytes;        /* of these */
        struct copier *copier; /* where they are unmapped */
        void (*close)(struct mappings *mappings, uint64_t id,
                      const struct space *space); /* closes GPU memory; space may be NULL */
};

/*
 * Maps a memory of the peer, or keeps a duplicate of fd where it does not fit into the address space (RLIMIT_AS); fd
 * stays the caller's. 0; -EBADMSG: the id is known, or fd is not a sealed memfd; -ENOSPC: beyond the limits of a link;
 * other -errno: this process is short of something.
 */
int mappings_add(struct mappings *mappings, uint64_t id, uint64_t size, int fd);

/* Adds GPU memory, which the caller opens; the caller gets a use of it. */
int mappings_add_gpu(struct mappings *mappings, uint64_t id, uint64_t size, struct mapping **ret_mapping);

/* Unmaps a memory after its last use. 0; -EBADMSG: unknown. */
int mappings_remove(struct mappings *mappings, uint64_t id);

/* Finds the memory that has the bytes [offset, offset + size), and takes a use of it. NULL: not known here. */
struct mapping *mapping_get(struct mappings *mappings, uint64_t id, uint64_t offset, uint64_t size);
void mapping_put(struct mappings *mappings, struct mapping *mapping);

/* None may be in use. */
void mappings_clear(struct mappings *mappings);

/* Unmaps a range; one that is pinned or large on a thread of the copier. Copies *range. */
void unmap_range(struct gpu_pin *range, struct copier *copier);
/* Closes another process's memory, on a thread of the copier; takes NULL. */
void unmap_gpu(const struct space *space, struct copier *copier);

#endif
