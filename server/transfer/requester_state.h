/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_REQUESTER_STATE_H
#define TRANSFER_REQUESTER_STATE_H

#include "peer.h"
#include "route.h"
#include "transfer/engine.h"
#include "window.h"
#include "wire/header.h"
#include "wire/stream.h"

/*
 * The active side of one transfer, and what its parts share: requester.c begins and ends it, request.c asks, answer.c
 * takes what comes. Thread: who holds the progress lock.
 */

enum requester_state {
        REQUESTER_ROUTING,   /* a name is being resolved, or what the link will be carried by is not known yet */
        REQUESTER_MOVING,    /* it asks for chunks */
        REQUESTER_FINISHING, /* DONE was sent; DONE_ACK decides, also when error says why it should end */
        REQUESTER_COMPLETE,  /* every byte moved, and the responder knows or will know */
        REQUESTER_FAILING,   /* its end is decided: it waits until nobody touches the memory */
        REQUESTER_ENDED,
};

struct requester {
        struct engine_transfer spec;
        struct route route; /* has the strings of spec.peer */
        struct engine *engine;
        struct peer *peer; /* NULL = none yet */
        enum requester_state state;
        struct stream stream;
        struct window window;
        uint64_t next;    /* everything before was asked for */
        uint64_t done;    /* bytes moved and checked */
        uint64_t copying; /* of what arrives: bytes in place and not yet in done */
        bool moved;       /* progress was told, be it of bytes that do not count in the end */
        bool started;
        bool was_up;       /* the link had been up when the requester came to it */
        bool retried;      /* it came to a second link already */
        bool final_sent;   /* the whole transfer was sent by one WRITE, and it is not known what became of it */
        bool peer_knows;   /* the responder has ended, or was told */
        bool word_awaited; /* the responder took its memory back: its DONE_ACK says why */
        bool waiting;      /* in the peer's list of those that have more to ask for */
        bool marked;
        enum gpu_path gpu_path; /* the worst of its messages */
        int error;              /* 0, or why it is being ended */
        char detail[128];
        uint64_t connect_deadline_us; /* the peer must have been heard by then */
        uint64_t grace_deadline_us;   /* 0 = none */
        struct requester *waiting_prev, *waiting_next;
        struct requester *marked_prev, *marked_next;
        struct requester *peer_prev, *peer_next;
        UT_hash_handle hh; /* requesters_by_id */
};

/* The only way to change the state; a step that the table does not allow aborts. */
void requester_set_state(struct requester *requester, enum requester_state state);
/* The next pass takes the step that its state asks for. */
void requester_mark(struct requester *requester);
/* NULL = none of that id. */
struct requester *requester_find(struct engine *engine, uint64_t id);

struct wire_header requester_header(const struct requester *requester, enum wire_type type);
void requester_send_done(struct requester *requester, uint32_t flags);
/* Connected, and the first chunk is asked for: tells once. */
void requester_note_started(struct requester *requester);
void requester_tell_progress(struct requester *requester);
/* How a message of it moved its bytes. */
void requester_note_gpu_path(struct requester *requester, enum gpu_path path);
/* This side's memory cannot be copied: fault is -errno. */
void requester_fault(struct requester *requester, int fault);
/* So many bytes more are moved and checked. */
void requester_count_done(struct requester *requester, uint64_t bytes);

/* Enters and leaves the peer's list of those that have more to ask for. */
void requester_wait_for_turn(struct requester *requester);
void requester_stop_waiting(struct requester *requester);
void requester_release_chunk(struct requester *requester, struct chunk *chunk);
/* Releases the chunks that no transport touches. Whether all are released. */
bool requester_release_idle(struct requester *requester);

/* Ends it as soon as it is quiet; the first reason counts, and none counts when it is complete. */
__attribute__((format(printf, 3, 4))) void requester_fail(struct requester *requester, int error, const char *format,
                                                          ...);

#endif
