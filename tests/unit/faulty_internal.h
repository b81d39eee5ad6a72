/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FAULTY_INTERNAL_H
#define TESTS_FAULTY_INTERNAL_H

#include "faulty_transport.h"
#include "message/transport.h"

/*
 * The wrapped transport keeps its struct; its table of functions and its handlers are exchanged. So a link, a message
 * and registered memory are its own, and what meets no fault passes through.
 *
 * What does is kept: its payload is received into a buffer of ours, and it is handed over from there when it is due. A
 * payload that did not come inside its message is handed over as if it came in two halves, with time between begin,
 * the first half and done, in which a cancel or the end of the link may come.
 *
 * Thread: who holds the progress lock of the engine, as for every transport.
 */

enum delivery_stage {
        STAGE_ARRIVING, /* its payload is on its way into the buffer */
        STAGE_WAITING,  /* to be handed over */
        STAGE_TAKEN,    /* the engine has taken its payload */
        STAGE_BEGUN,    /* … and half of it is in place */
};

/* A message that is kept. */
struct delivery {
        struct faulty *faulty;
        struct link *link;
        enum delivery_stage stage;
        bool ordered; /* later messages of its transfer wait for it */
        bool is_inline;
        bool again; /* it is handed over once more */
        bool flip;
        uint64_t due_us;
        struct wire_header header;
        struct segment buffer;
        struct stream stream; /* of the buffer */
        uint64_t length;      /* of the payload that is handed over */
        enum message_result result;
        struct message *message; /* the engine's receive */
        struct delivery *prev, *next;
};

struct faulty {
        struct transport_ops ops; /* the transport's; by them it is found */
        const struct transport_ops *inner;
        struct transport_handlers above;
        struct faulty_plan plan;
        uint64_t random;
        struct delivery *deliveries;       /* utlist, in the order in which they came */
        const struct delivery *delivering; /* its payload may be taken now */
};

uint64_t faulty_draw(struct faulty *f);
/* A time within the plan's delay from now. */
uint64_t faulty_later(struct faulty *f);

/* ---- faulty_delivery.c: messages that are kept ---- */

struct delivery *delivery_new(struct faulty *f, struct link *link, const struct wire_header *header, uint64_t length);
void delivery_free(struct delivery *d);
/* Receives its payload, which changes on the way if it is to be flipped. */
void delivery_fetch(struct delivery *d, struct payload *payload);
/* Ends the engine's receive, unless it was not begun: then its done does not run. */
void delivery_finish(struct delivery *d, enum message_result result);
/* Takes the next step of one that is due. */
void delivery_advance(struct delivery *d);
/* Whether a message of its transfer is kept that it must not overtake. */
bool delivery_must_wait(const struct delivery *first, const struct delivery *end, const struct link *link,
                        uint64_t transfer);
bool delivery_is_due(const struct delivery *d, uint64_t now_us);
/* One that is due at that time; NULL = none. */
struct delivery *delivery_find_due(const struct faulty *f, uint64_t now_us);
/* One whose payload the engine has taken; transfer NULL = any. */
struct delivery *delivery_find_taken(const struct faulty *f, const struct link *link, const uint64_t *transfer);

#endif
