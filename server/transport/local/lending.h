/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_LENDING_H
#define LOCAL_LENDING_H

#include "channel.h"

/* Which memory peers may map, and where a stream's bytes lie in it. The progress thread. */

/* The ring, as a memory of its link; registered memory has smaller numbers. */
static const uint64_t lending_ring_id = UINT64_MAX;

/* Of struct transport_ops. */
int lending_register(struct transport *transport, struct memory *memory);
void lending_deregister(struct transport *transport, struct memory *memory);

struct extents {
        struct frame_extent list[FRAME_EXTENTS_MAX];
        size_t n;
        bool full; /* more would have been lent */
};

/* How many bytes from offset on can be lent by one message, and where they are. */
uint64_t lending_find(const struct channel *channel, const struct stream *stream, uint64_t offset, uint64_t limit,
                      struct extents *extents);
/* How many bytes from offset on cannot be lent. */
uint64_t lending_find_other(const struct channel *channel, const struct stream *stream, uint64_t offset,
                            uint64_t limit);
/* Lends the peer each memory of these bytes that it has not got. 0 or -ENOMEM. */
int lending_announce(struct channel *channel, const struct stream *stream, uint64_t offset, uint64_t length);
/*
 * Whether lending_find knows about the bytes at offset. false: they are in a GPU's memory, which the peer was asked to
 * open, and its answer is not here yet.
 */
bool lending_is_known(struct channel *channel, const struct stream *stream, uint64_t offset);
/* The peer has closed memory of a GPU that was taken back. */
void lending_closed(struct channel *channel, uint64_t id);
/* The peer's answer. */
void lending_answered(struct channel *channel, uint64_t id, bool opened);

/* Makes the ring and lends it, where that was not done. 0 or -errno. */
int lending_make_ring(struct channel *channel);

#endif
