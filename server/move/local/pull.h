/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_LOCAL_PULL_H
#define MOVE_LOCAL_PULL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"
#include "frame.h"
#include "mapping.h"
#include "message/lease.h"
#include "message/transport.h"

/*
 * A pull copies a mapped payload of a peer into the place that the engine chose, in pieces, under the peer's lease,
 * which it checks after each. Any thread may copy a piece; where either memory is a GPU's, one task of the pool copies
 * all of them, one after the other.
 */

enum {
        PULL_PIECE = 1 << 20,               /* bytes of a piece at most */
        PULL_PIECE_SHARED = PULL_PIECE / 4, /* the same while other transfers wait for messages */
        PULL_STEP = 64 << 20,               /* the same where a GPU copies; 16 MiB take it 8 us */
        PULL_PAST_CACHES = 4 << 20, /* bytes; copies of longer streams bypass the caches, which they would evict */
};

/* A piece of a pull, copied by one thread; with digests, of whole FRAME_DIGEST_PIECEs, unless it is the last. */
struct piece {
        struct pull *pull;
        size_t extent;
        uint64_t extent_offset;
        uint64_t offset, length;   /* in the payload */
        uint64_t failed_at;        /* the bytes before it are right: offset, or that of a digest */
        struct piece *prev, *next; /* of those being copied */
};

struct pull_extent {
        struct mapping *mapping; /* in use */
        uint64_t offset, size;   /* in it */
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
        enum {
                PULL_DUE,     /* begin() was not called yet */
                PULL_COPYING, /* by the progress thread and the helpers */
                PULL_IN_POOL, /* by the task, whose end ends the pull */
        } state;
        bool off_host;                /* either memory is a GPU's … */
        const struct space *from_gpu; /* … of the first extent in GPU memory; NULL = none is */
        struct pool_task task;
        struct pull *prev, *next; /* the transport's list */

        /* Guarded by the lock of struct copies: */
        size_t extent; /* of the next piece, and the offset in it */
        uint64_t extent_offset;
        uint64_t taken;        /* bytes handed out */
        struct piece *running; /* utlist; the pieces being copied, the first one first */
        /* Not MESSAGE_OK: no further piece, since one has failed, or the pull was given up; a copy off the host reads
         * it without the lock. */
        _Atomic enum message_result result;
        uint64_t failed_at; /* of the first piece that has failed; 0 = given up */
        bool is_shared;     /* in this list: */
        struct pull *shared_prev, *shared_next;

        uint64_t *digests; /* of each FRAME_DIGEST_PIECE bytes, behind the extents; NULL = none */
        size_t n;
        struct pull_extent extents[];
};

/* Makes a pull of n extents and so many digests, which the caller fills in. NULL: no memory. */
struct pull *pull_new(size_t n, size_t digests);
/* Frees the pull, and gives its mappings back. */
void pull_free(struct pull *pull);

/* memcpy; a separate function for tests/tsan.supp, since programs order the accesses to regions. Any thread. */
void local_copy(void *to, const void *from, size_t size, bool past_caches);

/* Takes the next piece, of at most limit bytes or one digest's, which stays until pull_finish. false: none is left.
 * Under the lock. */
bool pull_take(struct pull *pull, uint64_t limit, struct piece *ret_piece);
/*
 * Copies a piece, and compares it with its digests. 0; -ESTALE: the lease has ended, or the memory cannot be read, so
 * that the piece does not count; -EILSEQ: it differs from a digest; -ECANCELED: the pull was given up; other -errno as
 * of space_copy. Any thread, without the lock.
 */
int piece_copy(struct piece *piece);
/* A piece was copied, with piece_copy's result. Under the lock. */
void pull_finish(struct piece *piece, int r);
/* Whether no piece is left to be taken. Under the lock. */
static inline bool pull_is_taken(const struct pull *pull)
{
        return pull->result != MESSAGE_OK || pull->taken == pull->length;
}
/* How many bytes are in place, from the first one on. Under the lock. */
static inline uint64_t pull_copied(const struct pull *pull)
{
        return pull->running ? pull->running->offset : pull->taken;
}

#endif
