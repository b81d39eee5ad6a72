/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_PULL_H
#define LOCAL_PULL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"
#include "mapping.h"
#include "transport/transport.h"
#include "wire/lease.h"

/*
 * A pull copies a mapped payload of a peer into the place that the engine chose, in pieces, under the peer's lease.
 * Any thread may copy a piece.
 */

enum {
        PULL_PIECE = 1 << 20,               /* bytes of a piece at most */
        PULL_PIECE_SHARED = PULL_PIECE / 4, /* the same while other transfers wait for messages */
        PULL_PAST_CACHES = 4 << 20, /* bytes; copies of longer streams bypass the caches, which they would evict */
};

struct pull_extent {
        const uint8_t *address;    /* NULL = to be read from the mapping's fd */
        uint64_t offset, size;     /* in the mapping */
        struct mapping *mapping;   /* in use */
        const struct space *space; /* of the address; NULL = host memory */
};

struct pull {
        /* The progress thread's: */
        struct channel *channel;
        struct message *message; /* NULL = the engine has not called receive(). Its begin is NULL once it was called */
        uint64_t length;
        const struct lease_slot *lease;
        uint64_t number;
        uint32_t slot;
        enum gpu_path gpu_path; /* of the bytes so far */
        /* Where either memory is a GPU's, a task of the pool copies all of it: */
        bool off_host;
        const struct space *from_gpu; /* of the first extent in GPU memory; NULL = none is */
        bool copying;                 /* the pool has the task */
        enum message_result result;   /* of a pull that was given up, and ends once the task has run; else MESSAGE_OK */
        struct pool_task task;
        atomic_bool unwanted;     /* the task may stop */
        int copy_result;          /* of the task: pull_copy's */
        struct pull *prev, *next; /* the transport's list */
        bool was_shared;          /* with helpers */

        /* Guarded by the lock of copies.c: */
        size_t extent; /* of the next piece, and the offset in it */
        uint64_t extent_offset;
        uint64_t taken, copied; /* bytes handed out, bytes in place */
        unsigned running;       /* pieces being copied */
        bool stopped;           /* no further piece: the lease has ended, or it was cancelled */
        bool is_shared;         /* in this list: */
        struct pull *shared_prev, *shared_next;

        size_t n;
        struct pull_extent extents[];
};

/* A piece of a pull, copied by one thread. */
struct piece {
        struct pull *pull;
        size_t extent;
        uint64_t extent_offset;
        uint64_t offset, length; /* in the payload */
};

/* Makes a pull of n extents, which the caller fills in. NULL: no memory. */
struct pull *pull_new(size_t n);
/* Frees the pull, and gives its mappings back. */
void pull_free(struct pull *pull, struct mappings *mappings);

/* Copies all of a pull off the host. 0; -ESTALE: the lease has ended; -errno of space_copy. Any thread. */
int pull_copy(const struct pull *pull);

/* memcpy; a separate function for tests/tsan.supp, since programs order the accesses to regions. Any thread. */
void local_copy(void *to, const void *from, size_t size, bool past_caches);

/* Takes the next piece, of at most limit bytes. false: none is left. Under the lock. */
bool pull_take(struct pull *pull, uint64_t limit, struct piece *ret_piece);
/* Copies a piece. false: the lease has ended, so the piece does not count. Any thread, without the lock. */
bool piece_copy(const struct piece *piece);
/* Counts a copied piece; valid: piece_copy's result. Under the lock. */
void pull_finish(struct pull *pull, const struct piece *piece, bool valid);

#endif
