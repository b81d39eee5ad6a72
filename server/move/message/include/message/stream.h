/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MESSAGE_STREAM_H
#define MESSAGE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct memory; /* registered memory: move/message/transport.h */
struct space;  /* base/space.h */

/* A run of bytes in registered memory. */
struct segment {
        uint8_t *address;
        size_t size; /* never 0 */
        struct memory *memory;
        const struct space *space; /* of the address; NULL = host memory; other memory must not be accessed directly */
};

/* A list of segments seen as one logical stream of bytes. Pure. */
struct stream {
        const struct segment *segments; /* borrowed */
        size_t n;
        uint64_t *starts; /* offset of each segment in the stream; NULL when n is 1 */
        uint64_t total;
        bool off_host; /* some of it is not host memory */
};

/* 0; -ENOMEM; -EOVERFLOW when the sizes do not add up in 64 bits. */
int stream_init(struct stream *stream, const struct segment *segments, size_t n);
void stream_clear(struct stream *stream);

/* The number of contiguous bytes from offset (< total) on, at most limit, and their address. */
uint64_t stream_run(const struct stream *stream, uint64_t offset, uint64_t limit, uint8_t **ret_address);

/* Like stream_run, but not beyond the segment of offset, whose registered memory is *ret_memory. */
uint64_t stream_run_in_segment(const struct stream *stream, uint64_t offset, uint64_t limit, uint8_t **ret_address,
                               struct memory **ret_memory);

/*
 * Lists the contiguous pieces of [offset, offset + length), which must lie inside the stream. The caller frees
 * *ret_pieces. Returns their number; 0 = no memory.
 */
size_t stream_pieces(const struct stream *stream, uint64_t offset, uint64_t length, struct iovec **ret_pieces);

/* The space of the byte at offset, and of the run that begins there; NULL = host memory. */
const struct space *stream_space(const struct stream *stream, uint64_t offset);

/* The first that is not NULL, at offset or behind; NULL = all that follows is host memory. */
const struct space *stream_next_space(const struct stream *stream, uint64_t offset);

/* space_finish for every space of the stream, and for another one; NULL = none. */
int stream_finish(const struct stream *stream, const struct space *other);

/*
 * Copy the bytes [offset, offset + length), of any memory, from and to host memory, and wait for it. Always 0 where the
 * stream is all host memory; else 0 or -errno as of space_copy.
 */
int stream_store(const struct stream *stream, uint64_t offset, const void *data, uint64_t length);
int stream_load(const struct stream *stream, uint64_t offset, void *to, uint64_t length);

/* Computes the XXH3-64 of [offset, offset + length). Errors as of stream_load; -ENOMEM off the host. */
int stream_checksum(const struct stream *stream, uint64_t offset, uint64_t length, uint64_t *ret_checksum);

#endif
