/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_REQUESTER_H
#define MOVE_REQUESTER_H

#include <stdbool.h>
#include <stdint.h>

#include "message/header.h"
#include "message/stream.h"
#include "move/engine.h"
#include "route.h"
#include "session.h"

/*
 * The chunks of one transfer that are in flight. The window of the link (struct transport_ops) bounds the bytes of all
 * transfers to the peer. Pure.
 *
 *   READ   taken when READ is sent; announced grows as DATA say what comes, arrived as it is in place; released when
 *          all of it has arrived.
 *   WRITE  taken when WRITE is sent, in one message or several; released when all are sent and the ACK is here.
 *
 * A chunk is busy while a transport may touch its memory.
 */
struct chunk {
        bool acked;   /* WRITE */
        uint32_t seq; /* names it to the peer; echoed */
        unsigned sends, receives;
        uint64_t copied;         /* WRITE: bytes that the peer is said to have copied, a part of requester->copying */
        uint64_t offset, length; /* length 0 = it is free */
        uint64_t announced, arrived; /* READ: bytes, from the start on */
};

struct window {
        struct chunk chunks[ENGINE_WINDOW_MAX];
        unsigned n_taken;
        uint32_t generation;
};

static inline bool chunk_is_busy(const struct chunk *chunk)
{
        return chunk->sends > 0 || chunk->receives > 0;
}

/* The chunk of that name, which is taken; NULL = none. */
struct chunk *window_find(struct window *window, uint32_t seq);

/*
 * The active side of one transfer, and what its parts share: requester.c begins and ends it, requester_request.c sends
 * its requests, requester_reply.c handles the replies. Thread: the holder of the progress lock.
 */

enum requester_state {
        REQUESTER_ROUTING,   /* resolving a name, or waiting for the link's carrier */
        REQUESTER_MOVING,    /* requests chunks */
        REQUESTER_FINISHING, /* DONE was sent; DONE_ACK decides, even if error is set */
        REQUESTER_COMPLETE,  /* every byte has moved, and the responder knows or will know */
        REQUESTER_FAILING,   /* it has failed: waits until its memory is not touched any more */
        REQUESTER_ENDED,
};

/* How the responder and this side agree on the end. */
enum requester_accord {
        REQUESTER_TELLS, /* the responder is told, by DONE */
        REQUESTER_ASKS,  /* one WRITE has carried the whole transfer, and its ACK has not come: DONE_ACK decides */
        REQUESTER_WAITS, /* the responder has ended its lease; a DONE_ACK with the reason follows */
        REQUESTER_TOLD,  /* the responder has ended, was told of the end, or never heard of the transfer */
};

struct requester {
        /* The transfer and its carrier: fixed but for the route and the session. */
        struct engine_transfer spec;
        struct route route; /* has the strings of spec.peer */
        struct engine *engine;
        struct session *session; /* NULL = none yet */
        enum requester_state state;
        struct stream stream;
        /* How far it is. Numbers are bytes of the transfer. */
        struct window window;
        uint64_t next;     /* offset of the next request */
        uint64_t done;     /* bytes moved and checked */
        uint64_t copying;  /* bytes in place of unfinished messages, not yet in done */
        uint64_t reported; /* the most that progress was reported, perhaps of bytes that did not count in the end */
        /* Its history so far, and its end. */
        bool started;
        bool was_up;  /* the link was up already when it was taken */
        bool retried; /* it is on its second link */
        enum requester_accord accord;
        bool waiting; /* listed in session->waiting: has more to request */
        bool marked;
        enum gpu_path gpu_path; /* the worst of its messages */
        int error;              /* 0, or why it is being ended */
        char detail[ENGINE_DETAIL_SIZE];
        /* Its share of the link, and its deadlines in us of the monotonic clock. */
        uint64_t in_flight;           /* of its chunks, a part of session->requested */
        uint64_t connect_deadline_us; /* for the peer's first message over a link that was not up */
        uint64_t grace_deadline_us;   /* 0 = none */
        struct requester *waiting_prev, *waiting_next;
        struct requester *marked_prev, *marked_next;
        struct requester *session_prev, *session_next;
        UT_hash_handle hh; /* requesters_by_id */
};

/* Changes the state. A change that the table does not allow aborts the process. */
void requester_set_state(struct requester *requester, enum requester_state state);
/* Has the next round take the step of its state. */
void requester_mark(struct requester *requester);
/* NULL = none of that id. */
struct requester *requester_find(struct engine *engine, uint64_t id);

struct wire_header requester_header(const struct requester *requester, enum wire_type type);
void requester_send_done(struct requester *requester, uint16_t flags);
/* Connected, and the first chunk is requested: calls started, once. */
void requester_note_started(struct requester *requester);
void requester_report_progress(struct requester *requester);
/* A message of it has ended: notes its GPU path, and fails if this worker is short of memory or cannot copy its own. */
void requester_note_message(struct requester *requester, const struct message *message, enum message_result result);
/* Counts what has been copied of an unfinished message since the last call, here or by the peer. Returns the bytes. */
uint64_t requester_count_copied(struct message *message);
/* Counts bytes moved and checked. */
void requester_count_done(struct requester *requester, uint64_t bytes);

/* Enter and leave session->waiting. */
void requester_enqueue(struct requester *requester);
void requester_dequeue(struct requester *requester);
/* Takes a free chunk for the next length bytes, and counts them to the link. NULL = none is free. */
struct chunk *requester_take_chunk(struct requester *requester, uint64_t length);
void requester_release_chunk(struct requester *requester, struct chunk *chunk);
/* Frees the chunks whose memory no transport touches. Whether all are free. */
bool requester_release_idle(struct requester *requester);

/* Fails it; it ends once its memory is not touched any more. The first reason counts; none does once it is complete. */
__attribute__((format(printf, 3, 4))) void requester_fail(struct requester *requester, int error, const char *format,
                                                          ...);

/* ---- requester_request.c: sends its READs and WRITEs ---- */

/* Says which parts of the offer the transfer is of, if not of all. */
void requester_name_parts(struct requester *requester);
/* Requests the next chunk. false: no chunk is free, or there is no room for a message. */
bool requester_request_next(struct requester *requester);
/* Has the session's requesters send round-robin, while their shared window has room. */
void requesters_send(struct session *session);
/* A fragment of a WRITE was sent or confirmed: frees its chunk if that was the last. */
void requester_chunk_written(struct requester *requester, struct chunk *chunk);

/* ---- requester_reply.c: handles the messages of the responder ---- */

void requester_on_data(struct session *session, const struct wire_header *header, struct payload *payload);
void requester_on_ack(struct session *session, const struct wire_header *header, struct payload *payload);
void requester_on_done_ack(struct session *session, const struct wire_header *header, struct payload *payload);
/* The responder holds a READ until its bytes arrive. */
void requester_on_held(struct session *session, const struct wire_header *header);

/* ---- requester.c: begins and ends it ---- */

/* Any thread. 0; -ENOMEM; -EINVAL when the sizes do not add up. */
int requester_new(struct engine *engine, const struct engine_transfer *spec, struct requester **ret_requester);
/* Frees one that was never begun (any thread), or has ended. */
void requester_free(struct requester *requester);

/* Connects and requests the first chunks; ends it on failure. */
void requester_begin(struct requester *requester);
void requester_cancel(struct requester *requester, int reason, const char *detail);
/* The link has ended. */
void requester_link_ended(struct requester *requester, int error, const char *detail);
/* A name was resolved: tries again. */
void requester_resolved(struct requester *requester);
/* The link is up. */
void requester_link_up(struct requester *requester);
void requester_tick(struct requester *requester, uint64_t now_us);
/* Takes the step of each marked requester's state. Whether any was marked. */
bool requesters_step(struct engine *engine);

#endif
