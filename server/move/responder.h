/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_RESPONDER_H
#define MOVE_RESPONDER_H

#include "message/header.h"
#include "message/ranges.h"
#include "message/stream.h"
#include "message/transport.h"
#include "move/engine.h"
#include "session.h"

/*
 * The passive side of one transfer, a claim of an operation, and what its parts share: responder.c begins and ends it,
 * responder_requests.c answers READs and WRITEs. It uses the operation's own list of memory; an address never comes
 * from the wire. Each request carries the full authority (operation, key), so no session has any; the first one
 * claims. Thread: the holder of the progress lock.
 */

enum responder_state {
        RESPONDER_SERVING,
        RESPONDER_SERVED,   /* one message has carried the whole transfer; the requester's DONE follows */
        RESPONDER_COMPLETE, /* every byte has moved and is confirmed */
        RESPONDER_FAILING,  /* it has failed: waits until its memory is not touched any more */
        RESPONDER_ENDED,
};

enum { RESPONDER_PARTS_MAX = 1 << 18 }; /* as many as one operation may have pieces */

/* A READ to answer. */
struct responder_read {
        uint32_t seq;
        bool verify;
        uint64_t offset, length, sent;
};

struct responder {
        /* The transfer's identity: fixed from the claim on. */
        struct session *session;
        enum responder_state state; /* responder_set_state */
        uint64_t number;            /* unique in this engine, unlike the transfer's id, which the peer chooses */
        struct wire_header request; /* that claimed: operation, key and sizes of the transfer */
        enum engine_direction direction;
        /* The bytes: where they are, and how many have moved. */
        struct engine_claim claim;
        struct stream stream; /* of the transfer, once its parts are named; else of all of the offer */
        struct range *named;  /* by PARTS so far … */
        size_t n_named, named_room;
        uint64_t named_bytes;
        struct ranges *parts;     /* … and once all are; NULL = of all of the offer */
        struct segment *segments; /* of these */
        uint64_t answered;        /* bytes of READs that were sent, or are being sent */
        uint64_t bytes;           /* moved, as far as the responder knows */
        uint64_t copying;         /* bytes in place of unfinished messages, not yet in bytes */
        uint64_t reported; /* the most that progress was reported, perhaps of bytes that did not count in the end */
        uint32_t fragments_seq; /* of the WRITE whose fragments [fragments_start, fragments_end) are in place */
        uint64_t fragments_start, fragments_end; /* fragments_end 0 = none */
        /* Messages under way, and requests that wait. */
        unsigned in_flight;                             /* sends and receives whose memory a transport may touch */
        unsigned n_receives;                            /* WRITEs whose bytes a transport fetches, or will */
        uint64_t sending;                               /* of its sends, a part of session->served */
        uint64_t held_us;                               /* when the requester was last told that a READ is held */
        struct responder_read reads[ENGINE_WINDOW_MAX]; /* a ring of those that wait */
        unsigned first_read, n_reads;
        bool pending; /* listed in session->pending: has READs to answer */
        bool held;    /* listed in engine->held_responders: the next READ waits for bytes */
        /* The end. */
        bool done_received, wants_done_ack; /* DONE came; it asked for a DONE_ACK */
        enum gpu_path gpu_path;             /* the worst of its messages */
        int error;                          /* why it is being ended */
        int wire_error;                     /* told to the peer */
        char detail[ENGINE_DETAIL_SIZE];
        uint64_t grace_deadline_us; /* 0 = none */
        bool marked;
        struct responder *marked_prev, *marked_next;
        struct responder *pending_prev, *pending_next;
        struct responder *held_prev, *held_next;
        struct responder *session_prev, *session_next;
        UT_hash_handle hh; /* responders_by_transfer */
};

/* Changes the state. A change that the table does not allow aborts the process. */
void responder_set_state(struct responder *responder, enum responder_state state);
/* Has the next round take the step of its state. */
void responder_mark(struct responder *responder);
/* NULL = none of that transfer. */
struct responder *responder_find(struct engine *engine, uint64_t transfer);

/* Refuses a request, which need not have a responder: status is FERRY_E_*. */
void responder_refuse(struct session *session, const struct wire_header *request, enum wire_type type, int status);

void responder_report_progress(struct responder *responder);
/* A message of it has ended: notes its GPU path, and fails if this worker is short of memory or cannot copy its own. */
void responder_note_message(struct responder *responder, const struct message *message, enum message_result result);
/* Counts what has been copied of a message so far, here or by the peer. */
void responder_count_copied(struct message *message);
/* Counts moved bytes. */
void responder_add_progress(struct responder *responder, uint64_t bytes);
/* Takes it off session->pending: it has no READ left. */
void responder_stop_pending(struct responder *responder);
/* Notes whether its next READ waits for bytes. */
void responder_set_held(struct responder *responder, bool held);
/* Tells the requester that its READ is held until the bytes arrive. */
void responder_send_held(struct responder *responder, uint32_t seq);

/* Fails it; it ends once its memory is not touched any more. The first reason counts; none does once it is complete. */
void responder_fail(struct responder *responder, int error, int wire_error, const char *detail);

/* ---- responder.c: its end ---- */

void responder_on_done(struct session *session, const struct wire_header *header, struct payload *payload);
/* The link has ended. */
void responder_link_ended(struct responder *responder, int error, const char *detail);
void responder_tick(struct responder *responder, uint64_t now_us);
/* Takes the step of each marked responder's state. Whether any was marked. */
bool responders_step(struct engine *engine);

/* ---- responder.c: its begin ---- */

void responder_on_parts(struct session *session, const struct wire_header *header, struct payload *payload);
/*
 * Finds the responder of a request; the first request of a transfer claims the operation and makes one. 0, or the
 * FERRY_E_* to answer.
 */
int responder_claim(struct session *session, const struct wire_header *header, struct responder **ret);

/* ---- responder_requests.c: READs (a responder sends bytes) and WRITEs (it receives bytes) ---- */

void responder_on_read(struct session *session, const struct wire_header *header, struct payload *payload);
/* The link may have room: answers READs of the session's responders. */
void responders_send(struct session *session);
/* Bytes may have arrived: retries the held READs. */
void responders_retry_held(struct engine *engine);

void responder_on_write(struct session *session, const struct wire_header *header, struct payload *payload);

#endif
