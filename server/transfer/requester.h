/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_REQUESTER_H
#define TRANSFER_REQUESTER_H

#include "peer.h"
#include "route.h"
#include "transfer/engine.h"
#include "window.h"
#include "wire/header.h"
#include "wire/stream.h"

/*
 * The active side of one transfer: it asks for chunks, or sends them, and says when it is done. Thread: who holds the
 * progress lock, unless a function says otherwise.
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
        int error; /* 0, or why it is being ended */
        char detail[128];
        uint64_t connect_deadline_us; /* the peer must have been heard by then */
        uint64_t grace_deadline_us;   /* 0 = none */
        struct requester *waiting_prev, *waiting_next;
        struct requester *marked_prev, *marked_next;
        struct requester *peer_prev, *peer_next;
        UT_hash_handle hh; /* requesters_by_id */
};

/* Any thread. 0; -ENOMEM; -EINVAL when the sizes do not add up. */
int requester_new(struct engine *engine, const struct engine_transfer *spec, struct requester **ret_requester);
/* Of one that was never begun. */
void requester_free(struct requester *requester);

/* ---- events ---- */

/* Connects and asks for the first chunks; whatever fails ends it. */
void requester_begin(struct requester *requester);
void requester_cancel(struct requester *requester, int reason, const char *detail);
/* The link has ended. */
void requester_link_ended(struct requester *requester, int error, const char *detail);
/* A part of a long receive is in place. */
void requester_copied(struct message *message);
/* A name is resolved. */
void requester_resolved(struct requester *requester);
/* The link is up. */
void requester_link_up(struct requester *requester);
void requester_tick(struct requester *requester, uint64_t now_us);
/* The peer's requesters ask in turn, while the window that they share has room. */
void requesters_ask(struct peer *peer);
/* Takes the step that the state of each marked one asks for. Whether there was any. */
bool requesters_step(struct engine *engine);
/* Whether the message, a receive, is a requester's. */
bool requester_owns(const struct message *message);

/* ---- messages of responders ---- */

void requester_on_data(struct engine *engine, struct peer *peer, const struct wire_header *header,
                       struct payload *payload);
void requester_on_ack(struct engine *engine, struct peer *peer, const struct wire_header *header,
                      struct payload *payload);
void requester_on_done_ack(struct engine *engine, struct peer *peer, const struct wire_header *header,
                           struct payload *payload);

#endif
