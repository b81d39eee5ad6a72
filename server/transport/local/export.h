/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_EXPORT_H
#define LOCAL_EXPORT_H

#include "channel.h"

/* The memory that peers may map, and where a stream's bytes lie in it. The progress thread. */

/* The id of a link's bounce buffers; registered memory has smaller ids. */
static const uint64_t export_bounce_id = UINT64_MAX;

/* Of struct transport_ops. */
int export_register(struct transport *transport, struct memory *memory);
void export_deregister(struct transport *transport, struct memory *memory);

struct extents {
        struct frame_extent list[FRAME_EXTENTS_MAX];
        size_t n;
        bool full; /* more could be mapped, but the extents are full */
};

/* Finds the extents of the bytes from offset on that one message can map. Returns how many bytes. */
uint64_t export_find_extents(const struct channel *channel, const struct stream *stream, uint64_t offset,
                             uint64_t limit, struct extents *extents);
/* Returns how many bytes from offset on the peer cannot map. */
uint64_t export_count_unmappable(const struct channel *channel, const struct stream *stream, uint64_t offset,
                                 uint64_t limit);
/* Has the peer map the memories of these bytes that it does not map yet. 0 or -ENOMEM. */
int export_stream(struct channel *channel, const struct stream *stream, uint64_t offset, uint64_t length);
/*
 * Whether it is decided if the peer maps the bytes at offset. false: they are in GPU memory, and the peer has not
 * answered yet whether it can open that.
 */
bool export_is_decided(struct channel *channel, const struct stream *stream, uint64_t offset);
/* FRAME_UNMAPPED: the peer has closed deregistered GPU memory. */
void export_unmapped(struct channel *channel, uint64_t id);
/* FRAME_MAPPED: the peer's answer to FRAME_MAP_GPU. */
void export_answered(struct channel *channel, uint64_t id, bool opened);

/* Makes the bounce buffers and has the peer map them, once. 0 or -errno. */
int export_bounce_buffers(struct channel *channel);

#endif
