/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_HTTP_INTERNAL_H
#define MOVE_HTTP_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include <ferry/encoding.h>
#include <ferry/metadata.h>

#include "base/loop.h"
#include "easy/thread.h"
#include "message/stream.h"
#include "move/content.h"
#include "move/engine.h"
#include "move/http.h"
#include "operations/content_ranges.h"
#include "operations/operations.h"

struct http_requester;
struct mover_thread;

/* ---- transfer.c ---- */

/*
 * A transfer over HTTP, of either side: a requester is the active one, a responder the passive one. The side says which
 * thread or lock guards it.
 */

enum http_state {
        HTTP_CLAIMING, /* the operation of the passive side is not claimed yet */
        HTTP_MOVING,
        HTTP_OVER, /* ended was called: nothing touches the memory any more */
};

struct http_transfer {
        const struct http_mover_config *config;
        enum http_state state;
        bool accepted;       /* the peer began it */
        const char *carrier; /* "http" or "https"; a literal */
        uint64_t peer_epoch; /* 0 = not known */
        char peer_name[FERRY_METADATA_NAME_SIZE];
        struct stream stream; /* of memory that is pinned until it is over */
        uint64_t reported;    /* the most that progress was reported */
};

/* Changes the state, which only goes on. */
void http_transfer_set_state(struct http_transfer *transfer, enum http_state state);

/* Tells that it begins (outcome NULL) or has ended. With no lock held. */
void http_transfer_note(const struct http_transfer *transfer, const struct engine_outcome *outcome);

/* Transfers have started or ended: their waiters are woken. With no lock held. */
void http_transfer_wake_waiters(const struct http_transfer *transfer);

/* It is over. Returns the outcome: error 0 = bytes have moved, and both sides know. */
struct engine_outcome http_transfer_end(struct http_transfer *transfer, int error, uint64_t bytes, const char *detail);

/* Tells everybody of the end: ended is the callback of the operation. With no lock held; it is over. */
void http_transfer_tell_end(const struct http_transfer *transfer, const struct engine_outcome *outcome,
                            void (*ended)(void *context, const struct engine_outcome *outcome), void *context);

/* ---- lane.c: one connection of the active side ---- */

enum { HTTP_LANES = 4 };

/* A connection, which moves one range after the other. */
struct http_lane {
        struct easy easy;
        struct http_requester *requester;
        struct curl_slist *headers;    /* of the current request */
        bool busy;                     /* its handle is in the multi handle */
        bool waiting;                  /* it retries the range at requester->retry_us */
        bool closing;                  /* the request is the DELETE */
        uint64_t first, position, end; /* of the range, in the transfer's stream */
        bool in_range;                 /* the answer is of the range that was asked for */
        const char *fault;             /* why the bytes of the request could not be moved; NULL = none */
        bool has_digest;
        uint64_t digest; /* of the range, from the peer */
        size_t n_text;
        char text[2048]; /* body of an answer that is not bytes of the range */
};

/* The active side of a transfer: its connections, and what they share. */
struct http_requester {
        struct mover_thread *thread;        /* that moves it; fixed once it is listed */
        struct http_requester *prev, *next; /* of the mover's list, guarded by its lock */
        atomic_int stop_reason;             /* why the transfer is to end; 0 = it is not. Any thread */
        struct http_transfer base;
        struct engine_transfer spec; /* as given to http_requester_new, without peer; its key is wiped */
        char key[FERRY_KEY_TEXT_SIZE], id[FERRY_ID_TEXT_SIZE]; /* of the operation, and of the transfer */
        struct easy_multi *multi;                              /* NULL = not started yet */
        uint64_t next_offset;                                  /* first byte that no lane has taken */
        uint64_t bytes;                                        /* of finished ranges */
        uint64_t retry_us;                                     /* when waiting lanes retry */
        uint64_t failing_us; /* time of the first failure since bytes last moved; 0 = none */
        bool contacted;      /* a request was sent */
        bool broken;         /* a connection broke after that: the peer may have the request */
        int error;           /* once it has ended: why; 0 = it is complete */
        size_t n_lanes;
        struct http_lane lanes[HTTP_LANES];
};

/* Whether the peer has answered a range. */
static inline bool http_requester_is_claimed(const struct http_requester *requester)
{
        return requester->base.state != HTTP_CLAIMING;
}

/* Reports bytes of a read that are in place, and verified if asked for. */
static inline void http_requester_arrived(const struct http_requester *requester, uint64_t offset, uint64_t length)
{
        if (requester->spec.arrived)
                requester->spec.arrived(requester->spec.context, offset, length);
}

/* Bytes have moved: reports them, and the first of them as the start. */
void http_requester_moved(struct http_requester *requester);

/* Makes the handle, after easy_admit of lane->easy. false: memory is short. */
bool lane_prepare(struct http_lane *lane);

/* Requests [first, end) from position on, or sends the DELETE when closing. false: memory is short. */
bool lane_send(struct http_lane *lane);

/* Aborts the request: the memory is not touched any more. */
void lane_stop(struct http_lane *lane);

/* The HTTP status of the answer. */
long lane_status(const struct http_lane *lane);

/*
 * Copies a string member of the answer's JSON; "" = there is none. Returns the number of an error code of that name, or
 * -1.
 */
int lane_answer(const struct http_lane *lane, const char *member, char text[64]);

/* Classifies a status other than success: FERRY_E_* and a sentence. */
int lane_classify(const struct http_lane *lane, long status, char detail[EASY_DETAIL_SIZE]);

/* Aborts the request and frees handle and headers. */
void lane_clear(struct http_lane *lane);

/* ---- requester.c ---- */

/*
 * The active side of a transfer over HTTP: ranges of the peer's /v1/operations/{id}/content, by GET or PUT over a few
 * connections, then a DELETE, which reports that all has arrived. A failed request is retried for a second, the DELETE
 * too. Thread: the one that moves it, but for http_requester_new.
 */

/*
 * Checks the peer's URL as easy_locate does and makes a transfer, which borrows config; key and strings are copied.
 * Sends nothing. 0; FERRY_E_* with a sentence; -ENOMEM. Any thread.
 */
int http_requester_new(const struct http_mover_config *config, const struct engine_transfer *spec,
                       struct http_requester **ret_requester, char *detail, size_t detail_size);

/* Ends it with reason, at once: the memory is not touched any more. The peer is told afterwards. */
void http_requester_stop(struct http_requester *requester, int reason, const char *detail);

/*
 * Starts the first range at the first call; ends it with stop_reason, unless the DELETE after the last range is under
 * way: then the peer's answer decides; retries due requests. Returns when to be called again, in microseconds of
 * CLOCK_MONOTONIC; UINT64_MAX = no need.
 */
uint64_t http_requester_run(struct http_requester *requester, struct easy_multi *multi, uint64_t now_us);

/* No request runs and ended was called: it can be freed. */
bool http_requester_is_over(const struct http_requester *requester);

/* Aborts running requests. After ended was called. Takes NULL; returns NULL. */
struct http_requester *http_requester_free(struct http_requester *requester);

/* ---- responder.c: one transfer, and the transfers of an operation ---- */

/* A transfer that its client has ended. */
struct http_end {
        uint64_t id; /* 0 = none */
        bool complete;
};

/* What HTTP keeps with a passive operation: made by the first request of a client, freed with the operation. */
struct http_offer {
        struct operation_attachment attachment;
        struct operation_store *store;
        struct operation *operation; /* that owns it; the next two are the operation's */
        bool readable;
        uint64_t total;
        /* Guards what follows, and all responders. Before the loop's; the store's lock is taken, and callbacks are
         * called, without it. */
        pthread_mutex_t lock;
        struct http_responder *responders;
        uint32_t n_ends; /* so far */
        uint32_t ends_max;
        struct http_end ends[]; /* a ring of those that clients have ended */
};

/* The passive side of a transfer over HTTP: one claim, and the ranges that have moved. Any thread. */
struct http_responder {
        struct http_responder *prev, *next; /* of the offer's; while it is not over */
        struct http_transfer base;          /* its state is guarded by the offer's lock */
        struct http_offer *offer;           /* a reference to the operation */
        uint64_t id;                        /* 0 = the client gave none */
        struct engine_claim claim;          /* with the stream and gpu, valid once it is moving */
        uint64_t announced;     /* bytes that its client moves, parts of the stream; 0 = all of the stream */
        unsigned gpu;           /* as http_content_gpu */
        unsigned references;    /* the offer's list, each open range, each connection, the timer */
        unsigned n_connections; /* over which its client can ask for more */
        unsigned copying;       /* threads that touch the memory: the transfer cannot end meanwhile */
        struct http_content *open_ranges;
        struct content_ranges moved; /* of a transfer of all bytes */
        uint64_t bytes;              /* moved, of a transfer of parts; those that the client repeats count again */
        int revoke_reason;           /* the error it ends with; 0 = not revoked */
        int revoke_wire_reason;      /* the error for the client */
        const char *revoke_detail;   /* a literal; NULL = the reason says all */
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
static inline uint64_t http_responder_total(const struct http_responder *responder)
{
        return responder->announced ? responder->announced : responder->offer->total;
}

/* Bytes that have moved. Parts may be too many to remember: their client says when it has all of them. */
static inline uint64_t http_responder_moved(const struct http_responder *responder)
{
        const uint64_t bytes = responder->announced ? responder->bytes : responder->moved.total;
        const uint64_t total = http_responder_total(responder);

        return bytes < total ? bytes : total;
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
void http_responder_put_unlock(struct http_responder *responder);

/* Bytes [first, end) have moved. */
void http_responder_note_moved(struct http_responder *responder, uint64_t first, uint64_t end);

/* Ends the transfer. No thread copies. error 0 = complete. */
void http_responder_end_unlock(struct http_responder *responder, int error, const char *detail);

/*
 * Ends it if no thread copies and it was revoked, or its client has no id for it, every byte has moved, and no range is
 * open.
 */
void http_responder_end_due_unlock(struct http_responder *responder);

/* Revokes it: it ends with reason, its client is told wire_reason. The first one counts. detail: a literal, or NULL. */
void http_responder_revoke_unlock(struct http_responder *responder, int reason, int wire_reason, const char *detail);

/*
 * Ends it as peer-lost unless its client, of which no range and no connection is open, opens a range within absence_ms.
 * If memory is short, the stall limit does.
 */
void http_responder_arm(struct http_responder *responder);
/* A callback that runs already sees an open range, a later absent_us, or that the transfer is over. */
void http_responder_disarm(struct http_responder *responder);

/* ---- without it ---- */

/* The memory could not be copied, with a -errno of space_error: ends the transfer for that reason. */
void http_responder_fault(struct http_responder *responder, int error);

/* Whether the memory may be touched; if so, http_responder_copy_end must follow. */
bool http_responder_copy_begin(struct http_responder *responder);
void http_responder_copy_end(struct http_responder *responder);

/* ---- mover.c ---- */

const struct http_mover_config *mover_config(const struct http_mover *mover);

/* ---- responder.c: finds the transfers of an operation ---- */

/* Finds or makes what HTTP keeps with the operation. 0; FERRY_E_NOT_PASSIVE; -ENOMEM. Any thread. */
int offer_get(struct operation_store *store, struct operation *operation, struct http_offer **ret_offer);
/* With the lock held: the end that a client has told of its transfer; NULL = none. */
const struct http_end *offer_find_end(const struct http_offer *offer, uint64_t id);

#endif
