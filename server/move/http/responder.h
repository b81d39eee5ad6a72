/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_HTTP_RESPONDER_H
#define MOVE_HTTP_RESPONDER_H

#include <pthread.h>

#include "base/loop.h"
#include "move/content.h"
#include "operations/content_ranges.h"
#include "operations/operations.h"
#include "transfer.h"

/* What HTTP keeps with a passive operation: made by the first request of a client, freed with the operation. */
struct http_offer {
        struct operation_attachment attachment;
        const struct http_mover_config *config;
        struct operation_store *store;
        struct operation *operation; /* that owns it */
        /* Guards what follows, and all responders. Before the loop's; the store's lock is taken, and callbacks are
         * called, without it. */
        pthread_mutex_t lock;
        struct http_responder *responders;
        struct http_end *ends; /* a ring of those that clients have ended; owned; NULL = none */
        uint32_t n_ends;       /* so far */
};

/* The passive side of a transfer over HTTP: one claim, and the ranges that have moved. Any thread. */
struct http_responder {
        struct http_responder *prev, *next; /* of the offer's; while it is not over */
        struct http_transfer base;          /* its state is guarded by the offer's lock */
        struct http_offer *offer;
        struct operation *operation; /* a reference */
        uint64_t id;                 /* 0 = the client gave none */
        struct engine_claim claim;   /* with the stream and gpu, valid once it is moving */
        uint64_t announced;          /* bytes that its client moves, parts of the stream; 0 = all of the stream */
        unsigned gpu;                /* as http_content_gpu */
        unsigned references;         /* the offer's list, each open range, each connection, the timer */
        unsigned n_connections;      /* over which its client can ask for more */
        unsigned copying;            /* threads that touch the memory: the transfer cannot end meanwhile */
        struct http_content *parts;  /* open ranges */
        size_t n_parts;
        struct content_ranges moved; /* of a transfer of all bytes */
        uint64_t bytes;              /* moved, of a transfer of parts; those that the client repeats count again */
        int revoke_reason;           /* the error it ends with; 0 = not revoked */
        int revoke_wire_reason;      /* the error for the client */
        const char *fault;           /* why memory could not be copied, which is the reason; NULL = another reason */
        bool revoked_by_peer;        /* revoke_reason is its client's */
        bool timed;                  /* the timer is armed, or its callback is about to run */
        uint64_t absent_us;          /* when the client is lost; of CLOCK_MONOTONIC; valid while timed */
        struct loop_timer timer;
};

struct http_content {
        struct http_content *prev, *next; /* of the responder's */
        struct http_responder *responder; /* a reference */
        uint64_t first, position, end;
};

/* Bytes that it moves. */
static inline uint64_t responder_total(const struct http_responder *responder)
{
        return responder->announced ? responder->announced : operation_bytes_total(responder->operation);
}

/* Bytes that have moved. Parts may be too many to remember: their client says when it has all of them. */
static inline uint64_t responder_moved(const struct http_responder *responder)
{
        const uint64_t bytes = responder->announced ? responder->bytes : responder->moved.total;
        const uint64_t total = responder_total(responder);

        return bytes < total ? bytes : total;
}

static inline bool offer_is_readable(const struct http_offer *offer)
{
        return operation_kind(offer->operation) == FERRY_READABLE;
}

static inline void offer_lock(struct http_offer *offer)
{
        (void)pthread_mutex_lock(&offer->lock);
}

static inline void offer_unlock(struct http_offer *offer)
{
        (void)pthread_mutex_unlock(&offer->lock);
}

/* ---- with the offer's lock held; those that end in _unlock give it back ---- */

/* Gives a reference back. */
void responder_put_unlock(struct http_responder *responder);

/* Bytes [first, end) have moved. */
void responder_note_moved(struct http_responder *responder, uint64_t first, uint64_t end);

/* Ends the transfer. No thread copies. error 0 = complete. */
void responder_end_unlock(struct http_responder *responder, int error, const char *detail);

/*
 * Ends it if no thread copies and it was revoked, or its client has no id for it, every byte has moved, and no range is
 * open.
 */
void responder_end_due_unlock(struct http_responder *responder);

/* Revokes it: it ends with reason, its client is told wire_reason. */
void responder_revoke_unlock(struct http_responder *responder, int reason, int wire_reason);

/*
 * Ends it as peer-lost unless its client, of which no range and no connection is open, opens a range within absence_ms.
 * If memory is short, the stall limit does.
 */
void responder_arm(struct http_responder *responder);
/* A callback that runs already sees an open range, a later absent_us, or that the transfer is over. */
void responder_disarm(struct http_responder *responder);

/* ---- without it ---- */

/* The memory could not be copied, with a -errno of space_error: ends the transfer for that reason. */
void responder_fault(struct http_responder *responder, int error);

/* Whether the memory may be touched; if so, responder_copy_end must follow. */
bool responder_copy_begin(struct http_responder *responder);
void responder_copy_end(struct http_responder *responder);

/* ---- mover.c ---- */

const struct http_mover_config *mover_config(const struct http_mover *mover);

/* ---- offer.c ---- */

/* Finds or makes what HTTP keeps with the operation. NULL: memory is short. Any thread. */
struct http_offer *offer_get(struct http_mover *mover, struct operation_store *store, struct operation *operation);
/* With the lock held: whether the client has ended its transfer of that id, which is not 0. */
bool offer_has_ended(const struct http_offer *offer, uint64_t id);

#endif
