/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_WINDOW_H
#define MOVE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "move/engine.h"

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
        bool taken;
        bool acked;   /* WRITE */
        uint32_t seq; /* names it to the peer; echoed */
        unsigned sends, receives;
        uint64_t copied; /* WRITE: bytes that the peer is said to have copied, a part of requester->copying */
        uint64_t offset, length;
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

/* A free chunk; NULL = none. It is taken from then on. */
struct chunk *window_take(struct window *window, uint64_t offset, uint64_t length);
/* The taken chunk of that name; NULL = none. */
struct chunk *window_find(struct window *window, uint32_t seq);
void window_release(struct window *window, struct chunk *chunk);
/* A taken chunk that no transport touches; NULL = none. */
struct chunk *window_find_idle(struct window *window);

#endif
