/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_LOAN_H
#define LOCAL_LOAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame.h"
#include "memfd.h"
#include "transport/copier.h"
#include "transport/transport.h"
#include "wire/lease.h"

/*
 * What one link has lent to its peer: a lease for each message, and the ring of buffers for bytes that are in no memfd.
 * A slot is busy until the peer releases it, also when the lease was ended before: so a release always names what the
 * slot stands for. The progress thread.
 */

enum { LOAN_BUFFER_SIZE = 1 << 20, LOAN_BUFFERS = 8 };

struct loan {
        struct message *message; /* NULL = taken back already */
        uint64_t number;         /* 0 = the slot is free */
        int buffer;              /* of the ring; -1 = none */
};

struct loans {
        struct lease_slot *page; /* FRAME_LEASES of them */
        struct memfd *memfd;     /* of the page */
        struct loan loans[FRAME_LEASES];
        uint16_t free[FRAME_LEASES]; /* slots; n_free */
        size_t n_free;
        uint8_t *ring; /* NULL = not used yet */
        bool buffer_used[LOAN_BUFFERS];
        struct gpu_pin pin; /* of the ring */
};

/* 0 or -errno. */
int loans_new(struct loans *loans);
/* No message may be lent. Takes one that loans_new never filled, too. The ring is unmapped by a thread of the copier.
 */
void loans_clear(struct loans *loans, struct copier *copier);

/* Makes the ring. 0 with what to send to the peer, which the caller drops; -errno. */
int loans_make_ring(struct loans *loans, struct memfd **ret_memfd);
/* A buffer of the ring; -1 = none is free. */
int loans_find_buffer(const struct loans *loans);
static inline uint8_t *loans_buffer(const struct loans *loans, int buffer)
{
        return loans->ring + (size_t)buffer * LOAN_BUFFER_SIZE;
}

/* Lends a message under a number that was never used. The slot, of which one must be free. */
uint32_t loan_grant(struct loans *loans, uint64_t number, struct message *message, int buffer);
/* Takes it back: the caller owns the message again. */
struct message *loan_end(struct loans *loans, uint32_t slot);
/* The peer released it: ends it and frees the slot. false: that number is not lent. */
bool loan_release(struct loans *loans, uint32_t slot, uint64_t number, struct message **ret_message);

#endif
