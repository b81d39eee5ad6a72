/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_LOCAL_LEASES_H
#define MOVE_LOCAL_LEASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"
#include "frame.h"
#include "mapping.h"
#include "message/lease.h"
#include "message/transport.h"

/*
 * The leases of one link to its peer, one for each message whose payload is mapped, and the bounce
 * buffers for bytes that are in no memfd. A slot stays in use until the peer releases it, also after its lease has
 * ended, so that a release is never ambiguous. The progress thread.
 */

enum { BOUNCE_SIZE = 1 << 20, BOUNCE_BUFFERS = 16 };

struct lease {
        struct message *message; /* NULL = the lease has ended */
        uint64_t number;         /* 0 = the slot is free */
        int buffer;              /* index of the bounce buffer; -1 = none */
        uint64_t owner;          /* leases_owner */
};

/* Zeroed at first. */
struct leases {
        struct lease_slot *words; /* FRAME_LEASES of them, which the peer reads; borrowed */
        struct lease slots[FRAME_LEASES];
        size_t n_used;                         /* slots */
        uint8_t *bounce;                       /* NULL = not used yet */
        uint64_t bounce_owner[BOUNCE_BUFFERS]; /* leases_owner; 0 = the buffer is free */
        struct gpu_pin pin;                    /* of the bounce buffers */
};

/* No lease may be valid. The pool unmaps the bounce buffers. */
void leases_clear(struct leases *leases, struct pool_user *tasks);

/* Makes the bounce buffers. 0 with the memfd to send to the peer, a reference; -errno. */
int leases_make_bounce(struct leases *leases, struct memfd **ret_memfd);
/* Not 0. Who shares slots and bounce buffers: the GPU of the byte at offset or behind, or the transfer that has the
 * stream. */
uint64_t leases_owner(const struct stream *stream, uint64_t offset);
/* Finds a free bounce buffer; -1 = none, or the owner has as many as are free. owner 0 = any. */
int leases_find_bounce(const struct leases *leases, uint64_t owner);
static inline uint8_t *leases_bounce(const struct leases *leases, int buffer)
{
        return leases->bounce + (size_t)buffer * BOUNCE_SIZE;
}

/* Whether the owner may have one more lease: it has fewer than are free. */
bool leases_may_grant(const struct leases *leases, uint64_t owner);
/* The number of the oldest lease that the peer has not released; UINT64_MAX = none. */
uint64_t leases_oldest(const struct leases *leases);
/* Grants a lease of the message's payload under an unused number. Returns the slot; one must be free. */
uint32_t leases_grant(struct leases *leases, uint64_t number, struct message *message, int buffer);
/* Ends the lease: the caller owns the message again. */
struct message *leases_end(struct leases *leases, uint32_t slot);
/* The peer released the lease: ends it and frees the slot. false: no such lease. */
bool leases_release(struct leases *leases, uint32_t slot, uint64_t number, struct message **ret_message);

#endif
