/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_HTTP_TRANSFER_H
#define MOVE_HTTP_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

#include <ferry/metadata.h>

#include "move/http.h"
#include "transfer/engine.h"
#include "wire/stream.h"

/*
 * A transfer over HTTP, of either side: requester.h is the active one, responder.h the passive one. The side says which
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
        bool chosen;         /* "transports" allowed nothing else */
        const char *carrier; /* "http" or "https"; a literal */
        uint64_t peer_epoch; /* 0 = not known */
        char peer_name[FERRY_METADATA_NAME_SIZE];
        const char *peer_url; /* NULL = not known */
        struct stream stream; /* of memory that is pinned until it is over */
        uint64_t reported;    /* the most that progress was reported */
};

/* Changes the state, which only goes on. */
void http_transfer_set_state(struct http_transfer *transfer, enum http_state state);

/* Tells that it begins (outcome NULL) or has ended. With no lock held. */
void http_transfer_note(const struct http_transfer *transfer, const struct engine_outcome *outcome);

/* Transfers have started or ended: their waiters are woken. With no lock held. */
void http_transfer_wake_waiters(const struct http_transfer *transfer);

/* Makes the outcome of one that ends: error 0 = bytes have moved, and both sides know. */
struct engine_outcome http_transfer_outcome(const struct http_transfer *transfer, int error, uint64_t bytes,
                                            const char *detail);

/* Tells everybody of the end: ended is the callback of the operation. With no lock held; it is over. */
void http_transfer_tell_end(const struct http_transfer *transfer, const struct engine_outcome *outcome,
                            void (*ended)(void *context, const struct engine_outcome *outcome), void *context);

#endif
