/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_PULL_H
#define LOCAL_PULL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mapping.h"
#include "transport/copier.h"
#include "transport/transport.h"
#include "wire/lease.h"

/*
 * A payload that a peer has lent, and its copy into the place that the engine chose, piece by piece under the lease.
 * Fields in the second part are guarded by the crew's lock (crew.h), the others belong to the progress thread; a piece
 * may be copied by any thread.
 */

enum {
        PULL_PIECE = 1 << 20,               /* of a pull that is copied at once, at most */
        PULL_PIECE_SHARED = PULL_PIECE / 4, /* the same where other transfers wait for messages meanwhile */
        PULL_PAST_CACHES = 4 << 20, /* a stream of so many bytes would throw everything else out of the caches */
};

struct pull_extent {
        const uint8_t *address;
        uint64_t size;
        struct mapping *mapping;   /* in use */
        const struct space *space; /* of the address; NULL = host memory */
};

struct pull {
        struct channel *channel;
        struct message *message; /* NULL = the engine has not taken it */
        uint64_t length;
        const struct lease_slot *lease;
        uint64_t number;
        uint32_t slot;
        bool begun;             /* message->begin was asked */
        enum transport_way way; /* how the bytes have moved, so far */
        /* Where a GPU's memory is on either side, a thread of the copier copies all of it. */
        bool off_host;
        bool from_gpu; /* there is some in the extents */
        bool copying;  /* the copier has the task */
        bool ended;    /* it ends as soon as the task has run, with the next two */
        bool tell;
        enum message_result result;
        struct copier_task task;
        atomic_bool unwanted;     /* the task need not go on */
        int copy_result;          /* of the task: pull_copy's */
        struct pull *prev, *next; /* the transport's list */

        size_t extent; /* of the next piece, and where in it */
        uint64_t inside;
        uint64_t claimed, copied; /* bytes handed out, bytes in place */
        unsigned running;         /* pieces being copied */
        bool stopped;             /* no further piece: the lease has ended, or nobody wants it */

        size_t n;
        struct pull_extent extents[];
};

/* A part of a pull that one thread copies. */
struct piece {
        struct pull *pull;
        size_t extent;
        uint64_t inside;
        uint64_t offset, length; /* in the payload */
};

/* For n extents, which the caller fills in. NULL when memory is short. */
struct pull *pull_new(size_t n);
/* Ends the use of the mappings. */
void pull_free(struct pull *pull, struct mappings *mappings);

/* Copies all of it, off the host. 0; -ESTALE: the lease has ended; -errno of space_copy. Any thread. */
int pull_copy(const struct pull *pull);

/* memcpy, known to tests/tsan.supp: the bytes of regions are for their programs to order. Any thread. */
void local_copy(void *to, const void *from, size_t size, bool past_caches);

/* The next piece, of at most limit bytes; false = none is left. With the lock. */
bool pull_claim(struct pull *pull, uint64_t limit, struct piece *ret_piece);
/* Copies it; false: the lease has ended, and what is in place does not count. Any thread, without the lock. */
bool piece_copy(const struct piece *piece);
/* Takes note of a piece that was copied. With the lock. */
void pull_finish(struct pull *pull, const struct piece *piece, bool held);

/* Nothing can be done for it before other threads have finished their pieces. With the lock. */
static inline bool pull_waits(const struct pull *pull)
{
        return pull->running > 0 && (pull->stopped || pull->claimed == pull->length);
}

#endif
