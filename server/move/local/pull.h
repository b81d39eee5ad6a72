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
 * which it checks after each. Any thread may copy a piece.
 */

enum {
        PULL_PIECE = 1 << 20,               /* bytes of a piece at most */
        PULL_PIECE_SHARED = PULL_PIECE / 4, /* the same while other transfers wait for messages */
        PULL_STEP = 64 << 20,       /* bytes that a GPU copies before the lease is checked; 16 MiB take it 8 us */
        PULL_PAST_CACHES = 4 << 20, /* bytes; copies of longer streams bypass the caches, which they would evict */
};

/* A piece of a pull, copied by one thread; with digests, of a whole FRAME_DIGEST_PIECE, unless it is the last. */
struct piece {
        struct pull *pull;
        size_t extent;
        uint64_t extent_offset;
        uint64_t offset, length;   /* in the payload */
        struct piece *prev, *next; /* of those being copied */
};

enum piece_result {
        PIECE_COPIED,
        PIECE_REVOKED, /* the lease has ended, or the memory cannot be read: the piece does not count */
        PIECE_DIFFERS, /* from its digest */
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
        /* Where either memory is a GPU's, a task of the pool copies it, step by step: */
        bool off_host;
        const struct space *from_gpu; /* of the first extent in GPU memory; NULL = none is */
        bool copying;                 /* the pool has the task */
        enum message_result result;   /* of a pull that was given up, and ends once the task has run; else MESSAGE_OK */
        struct pool_task task;
        atomic_bool unwanted;     /* the task may stop */
        int copy_result;          /* of the task: pull_copy's */
        _Atomic uint64_t stepped; /* bytes in place */
        struct pull *prev, *next; /* the transport's list */
        bool was_shared;          /* with helpers */

        /* Guarded by the lock of struct copies: */
        size_t extent; /* of the next piece, and the offset in it */
        uint64_t extent_offset;
        uint64_t taken;            /* bytes handed out */
        struct piece *running;     /* utlist; the pieces being copied, the first one first */
        enum piece_result stopped; /* not COPIED: no further piece, since one has ended so, or it was cancelled … */
        uint64_t stopped_at;       /* … and the offset of the first of those that have */
        bool is_shared;            /* in this list: */
        struct pull *shared_prev, *shared_next;

        uint64_t *digests; /* of each FRAME_DIGEST_PIECE bytes, behind the extents; NULL = none */
        size_t n;
        struct pull_extent extents[];
};

/* Makes a pull of n extents and so many digests, which the caller fills in. NULL: no memory. */
struct pull *pull_new(size_t n, size_t digests);
/* Frees the pull, and gives its mappings back. */
void pull_free(struct pull *pull);

/* Copies the next step of a pull off the host. 0 = that was all, 1 = there is more; -ESTALE: the lease has ended;
 * -EILSEQ: what was copied differs from a digest; -errno of space_copy. One thread at a time. */
int pull_copy(struct pull *pull);

/* memcpy; a separate function for tests/tsan.supp, since programs order the accesses to regions. Any thread. */
void local_copy(void *to, const void *from, size_t size, bool past_caches);

/* Takes the next piece, of at most limit bytes, which stays until pull_finish. false: none is left. Under the lock. */
bool pull_take(struct pull *pull, uint64_t limit, struct piece *ret_piece);
/* Copies a piece, and compares it with its digest. Any thread, without the lock. */
enum piece_result piece_copy(const struct piece *piece);
/* A piece was copied, with piece_copy's result. Under the lock. */
void pull_finish(struct piece *piece, enum piece_result result);
/* How many bytes are in place, from the first one on. Under the lock. */
static inline uint64_t pull_copied(const struct pull *pull)
{
        return pull->running ? pull->running->offset : pull->taken;
}

/*
 * The copies of mapped payloads: the progress thread takes their pieces, and for large ones helpers, threads of the
 * pool, do so as well. Each takes a piece when it runs, so that a helper without a core delays nothing but its piece.
 * All functions: the progress thread.
 */

enum { COPIES_SHARE_MIN = 4 << 20 }; /* bytes; shorter pulls are not worth waking threads */

struct copies;

/* notify: a helper has finished the last piece of a pull; on its thread, under a lock. 0 or -ENOMEM. */
int copies_new(unsigned helpers, void (*notify)(void *context), void *context, struct copies **ret_copies);
/* Waits for pieces under way. Takes NULL; returns NULL. */
struct copies *copies_free(struct copies *copies);

/* Offers a pull that has begun to the helpers, once, if it is large. */
void copies_share(struct copies *copies, struct pull *pull);
/*
 * Copies a piece of at most limit bytes, or one with a digest, on the calling thread. Returns its size; 0 = none is
 * left.
 */
uint64_t copies_copy(struct copies *copies, struct pull *pull, uint64_t limit);

enum copy_status { COPY_MORE, COPY_WAITS, COPY_COPIED, COPY_LEASE_ENDED, COPY_DIFFERS };
/*
 * The progress of a pull: *ret_copied bytes are in place, from the first one on. After COPY_COPIED, COPY_LEASE_ENDED
 * and COPY_DIFFERS no thread touches its memory.
 */
enum copy_status copies_status(struct copies *copies, const struct pull *pull, uint64_t *ret_copied);
/* Stops the pull: no thread touches its memory afterwards. Waits for pieces under way. */
void copies_stop(struct copies *copies, struct pull *pull);

#endif
