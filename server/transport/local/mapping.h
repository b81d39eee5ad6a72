/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_MAPPING_H
#define LOCAL_MAPPING_H

#include <stddef.h>
#include <stdint.h>

#include "memory/gpu.h"

#include <uthash.h>

/* The memories that a peer has lent over one link, mapped or opened here. The progress thread. */

struct mapping {
        uint64_t id;
        const uint8_t *address;    /* NULL = not opened yet, or it cannot be: a GPU's */
        const struct space *space; /* of the address; NULL = host memory */
        uint64_t size;             /* that was lent */
        struct gpu_pin range;      /* the whole file; size 0 = a GPU's */
        unsigned users;
        UT_hash_handle hh;
};

struct mappings {
        struct mapping *by_id;
        size_t n;              /* also those that are forgotten and still in use */
        uint64_t bytes;        /* of these */
        struct copier *copier; /* where they are unmapped */
        void (*close)(struct mappings *mappings, uint64_t id,
                      const struct space *space); /* a GPU's; space may be NULL */
};

/*
 * A peer lends a memory; fd stays the caller's. 0; -EBADMSG when it cannot be: known already, or not such a file;
 * -ENOSPC over the bounds of a link; -errno.
 */
int mappings_add(struct mappings *mappings, uint64_t id, uint64_t size, int fd);

/* The same of a GPU's memory, with one more use for the caller, who opens it. */
int mappings_add_gpu(struct mappings *mappings, uint64_t id, uint64_t size, struct mapping **ret_mapping);

/* The memory is gone: unmaps it with its last user. -EBADMSG when it is not known. */
int mappings_forget(struct mappings *mappings, uint64_t id);

/* The bytes of [offset, offset + size) of a memory, with a use of *ret_mapping; NULL when they are not here. */
const uint8_t *mapping_get(struct mappings *mappings, uint64_t id, uint64_t offset, uint64_t size,
                           struct mapping **ret_mapping);
void mapping_put(struct mappings *mappings, struct mapping *mapping);

/* None may be in use. */
void mappings_clear(struct mappings *mappings);

#endif
