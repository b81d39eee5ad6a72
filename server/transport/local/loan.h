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
 * The leases of one link to its peer, one for each message with a lent payload, and the ring of buffers for bytes that
 * are in no memfd. A slot stays in use until the peer releases it, also after its lease has ended, so that a release is
 * never ambiguous. The progress thread.
 */

enum { LOAN_BUFFER_SIZE = 1 << 20, LOAN_BUFFERS = 8 };

struct loan {
        struct message *message; /* NULL = the lease has ended */
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
/* No message may be lent. Also takes a zeroed struct. The copier unmaps the ring. */
void loans_clear(struct loans *loans, struct copier *copier);

/* Makes the ring. 0 with the memfd to send to the peer, a reference; -errno. */
int loans_make_ring(struct loans *loans, struct memfd **ret_memfd);
/* Finds a free buffer of the ring; -1 = none. */
int loans_find_buffer(const struct loans *loans);
static inline uint8_t *loans_buffer(const struct loans *loans, int buffer)
{
        return loans->ring + (size_t)buffer * LOAN_BUFFER_SIZE;
}

/* Lends a message under an unused number. Returns the slot; one must be free. */
uint32_t loan_grant(struct loans *loans, uint64_t number, struct message *message, int buffer);
/* Ends the lease: the caller owns the message again. */
struct message *loan_end(struct loans *loans, uint32_t slot);
/* The peer released the lease: ends it and frees the slot. false: no such lease. */
bool loan_release(struct loans *loans, uint32_t slot, uint64_t number, struct message **ret_message);

#endif
