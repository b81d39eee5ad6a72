/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_LENDING_H
#define LOCAL_LENDING_H

#include "channel.h"

/* The memory that peers may map, and where a stream's bytes lie in it. The progress thread. */

/* The id of a link's ring; registered memory has smaller ids. */
static const uint64_t lending_ring_id = UINT64_MAX;

/* Of struct transport_ops. */
int lending_register(struct transport *transport, struct memory *memory);
void lending_deregister(struct transport *transport, struct memory *memory);

struct extents {
        struct frame_extent list[FRAME_EXTENTS_MAX];
        size_t n;
        bool full; /* more could be lent, but the extents are full */
};

/* Finds the extents of the bytes that one message can lend from offset on. Returns how many bytes. */
uint64_t lending_find(const struct channel *channel, const struct stream *stream, uint64_t offset, uint64_t limit,
                      struct extents *extents);
/* Returns how many bytes from offset on cannot be lent. */
uint64_t lending_find_other(const struct channel *channel, const struct stream *stream, uint64_t offset,
                            uint64_t limit);
/* Lends the peer the memories of these bytes, as far as it does not have them. 0 or -ENOMEM. */
int lending_announce(struct channel *channel, const struct stream *stream, uint64_t offset, uint64_t length);
/*
 * Whether it is known if the bytes at offset can be lent. false: they are in GPU memory, and the peer has not said yet
 * whether it can open that.
 */
bool lending_is_known(struct channel *channel, const struct stream *stream, uint64_t offset);
/* The peer has closed deregistered GPU memory. */
void lending_closed(struct channel *channel, uint64_t id);
/* The peer's answer to FRAME_LEND_GPU. */
void lending_answered(struct channel *channel, uint64_t id, bool opened);

/* Makes the ring and lends it, once. 0 or -errno. */
int lending_make_ring(struct channel *channel);

#endif
