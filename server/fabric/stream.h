/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FABRIC_STREAM_H
#define FABRIC_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "fabric/fabric.h"

/* A list of segments seen as one logical stream of bytes. Pure; who has the turn. */
struct stream {
        const struct fabric_segment *segments; /* borrowed */
        size_t n;
        uint64_t *starts; /* offset of each segment in the stream; NULL when n is 1 */
        uint64_t total;
};

/* 0; -ENOMEM; -EOVERFLOW when the sizes do not add up in 64 bits. */
int stream_init(struct stream *stream, const struct fabric_segment *segments, size_t n);
void stream_clear(struct stream *stream);

/* How many bytes lie contiguous in memory from offset (< total) on, at most limit; *ret_address is where. */
uint64_t stream_run(const struct stream *stream, uint64_t offset, uint64_t limit, uint8_t **ret_address);

/*
 * The pieces of memory of [offset, offset + length), which must lie inside the stream. *ret_pieces is for free().
 * Returns how many; 0 when memory is short.
 */
size_t stream_pieces(const struct stream *stream, uint64_t offset, uint64_t length, struct iovec **ret_pieces);

/* XXH3-64 of [offset, offset + length). */
uint64_t stream_checksum(const struct stream *stream, uint64_t offset, uint64_t length);

/* Stores data into [offset, offset + length). */
void stream_store(const struct stream *stream, uint64_t offset, const void *data, uint64_t length);

#endif
