/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPERATIONS_CONTENT_TRANSFER_H
#define OPERATIONS_CONTENT_TRANSFER_H

#include "content_ranges.h"
#include "operations/content.h"
#include "operations_internal.h"

/*
 * A transfer over HTTP: one claim, and the ranges that have moved. The store's content lock guards it and its list. It
 * comes before the loop's; the store's lock is taken, and callbacks are called, without it. Any thread.
 */
struct content_transfer {
        struct content_transfer *prev, *next; /* of the operation's; while it is not over */
        struct operation *operation;          /* a reference */
        uint64_t id;                          /* 0 = the client gave none */
        const char *transport;
        uint64_t peer_epoch;
        char peer_name[FERRY_METADATA_NAME_SIZE]; /* "" = not known */
        struct engine_claim claim;                /* of the claim */
        struct stream stream;                     /* of memory that is pinned until over */
        uint64_t announced;              /* bytes that its client moves, parts of the stream; 0 = all of the stream */
        unsigned gpu;                    /* as operation_content_gpu */
        unsigned references;             /* the operation's list, each open range, each connection, the timer */
        unsigned n_connections;          /* over which its client can ask for more */
        unsigned copying;                /* threads that touch the memory: the transfer cannot end meanwhile */
        struct operation_content *parts; /* open ranges */
        size_t n_parts;
        struct content_ranges moved; /* of a transfer of all bytes */
        uint64_t bytes;              /* moved, of a transfer of parts; those that the client repeats count again */
        uint64_t reported;           /* the most that progress was reported */
        int revoke_reason;           /* the error it ends with; 0 = not revoked */
        int revoke_wire_reason;      /* the error for the client */
        const char *fault;           /* why memory could not be copied, which is the reason; NULL = another reason */
        bool revoked_by_peer;        /* revoke_reason is its client's */
        bool claimed;                /* claim, stream and gpu are valid */
        bool over;
        bool timed;         /* the timer is armed, or its callback is about to run */
        uint64_t absent_us; /* when the client is lost; of CLOCK_MONOTONIC; valid while timed */
        struct loop_timer timer;
};

struct operation_content {
        struct operation_content *prev, *next; /* of the transfer's */
        struct content_transfer *transfer;     /* a reference */
        uint64_t first, position, end;
};

/* Bytes that it moves. */
static inline uint64_t content_transfer_total(const struct content_transfer *transfer)
{
        return transfer->announced ? transfer->announced : transfer->operation->bytes_total;
}

/* Bytes that have moved. Parts may be too many to remember: their client says when it has all of them. */
static inline uint64_t content_transfer_moved(const struct content_transfer *transfer)
{
        const uint64_t bytes = transfer->announced ? transfer->bytes : transfer->moved.total;
        const uint64_t total = content_transfer_total(transfer);

        return bytes < total ? bytes : total;
}

static inline void content_lock(struct operation_store *store)
{
        (void)pthread_mutex_lock(&store->content_lock);
}

static inline void content_unlock(struct operation_store *store)
{
        (void)pthread_mutex_unlock(&store->content_lock);
}

/* ---- with the content lock held; those that end in _unlock give it back ---- */

/* Gives a reference back. */
void content_transfer_put_unlock(struct content_transfer *transfer);

/* Ends the transfer. No thread copies. error 0 = complete. */
void content_transfer_end_unlock(struct content_transfer *transfer, int error, const char *detail);

/*
 * Ends it if no thread copies and it was revoked, or its client has no id for it, every byte has moved, and no range is
 * open.
 */
void content_transfer_end_due_unlock(struct content_transfer *transfer);

/* Revokes it: it ends with reason, its client is told wire_reason. */
void content_transfer_revoke_unlock(struct content_transfer *transfer, int reason, int wire_reason);

/*
 * Ends it as peer-lost unless its client, of which no range and no connection is open, opens a range within absence_ms.
 * If memory is short, the stall limit does.
 */
void content_transfer_arm(struct content_transfer *transfer);
/* A callback that runs already sees an open range, a later absent_us, or that the transfer is over. */
void content_transfer_disarm(struct content_transfer *transfer);

/* ---- without it ---- */

/* Tells the data plane that the transfer begins (outcome NULL) or has ended. */
void content_transfer_note(const struct content_transfer *transfer, const struct engine_outcome *outcome);

/* The range's memory could not be copied, with a -errno of space_error: ends the transfer for that reason. */
void content_fault(struct operation_content *part, int error);

/* Whether the memory may be touched; if so, content_transfer_copy_end must follow. */
bool content_transfer_copy_begin(struct content_transfer *transfer);
void content_transfer_copy_end(struct content_transfer *transfer);

#endif
