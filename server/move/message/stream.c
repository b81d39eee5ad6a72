/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#define XXH_STATIC_LINKING_ONLY /* the state's struct, to have it on the stack */
#include <xxhash.h>

#include <ferry/buffer.h>

#include "base/space.h"
#include "base/util.h"
#include "message/stream.h"

/*
 * Streams: a list of segments of memory, seen as one run of bytes; what an operation moves, and the payload of a
 * message. A stream borrows its segments. Segments may be off the host, where their space copies the bytes. Pure but
 * for that; any thread, as long as nobody clears the stream.
 */

enum { CHECKSUM_PIECE = 1 << 20 }; /* bytes of memory off the host to load at a time */

int stream_init(struct stream *stream, const struct segment *segments, size_t n)
{
        uint64_t total = 0;
        uint64_t *starts = NULL;
        bool off_host = false;

        if (n > 1) {
                starts = calloc(n, sizeof(*starts));
                if (!starts)
                        return -ENOMEM;
        }
        for (size_t i = 0; i < n; i++) {
                if (starts)
                        starts[i] = total;
                off_host |= segments[i].space != NULL;
                if (__builtin_add_overflow(total, segments[i].size, &total)) {
                        free(starts);
                        return -EOVERFLOW;
                }
        }
        *stream =
                (struct stream){ .segments = segments, .n = n, .starts = starts, .total = total, .off_host = off_host };
        return 0;
}

void stream_clear(struct stream *stream)
{
        free(stream->starts);
        *stream = (struct stream){ 0 };
}

/* Index of the segment that holds offset: the last one that starts at or before it. */
static size_t segment_at(const struct stream *stream, uint64_t offset)
{
        return stream->starts ? FERRY_FIRST_INDEX(stream->n, i, stream->starts[i] > offset) - 1 : 0;
}

uint64_t stream_run(const struct stream *stream, uint64_t offset, uint64_t limit, uint8_t **ret_address)
{
        size_t i = segment_at(stream, offset);
        uint64_t inside = offset - (stream->starts ? stream->starts[i] : 0);
        uint8_t *address = stream->segments[i].address + inside;
        uint64_t run = stream->segments[i].size - inside;

        /* Joins segments that are adjacent in memory. */
        while (run < limit && i + 1 < stream->n && stream->segments[i + 1].address == address + run &&
               stream->segments[i + 1].space == stream->segments[i].space)
                run += stream->segments[++i].size;
        *ret_address = address;
        return run < limit ? run : limit;
}

uint64_t stream_run_in_segment(const struct stream *stream, uint64_t offset, uint64_t limit, uint8_t **ret_address,
                               struct memory **ret_memory)
{
        size_t i = segment_at(stream, offset);
        uint64_t inside = offset - (stream->starts ? stream->starts[i] : 0);
        uint64_t run = stream->segments[i].size - inside;

        *ret_address = stream->segments[i].address + inside;
        *ret_memory = stream->segments[i].memory;
        return run < limit ? run : limit;
}

size_t stream_pieces(const struct stream *stream, uint64_t offset, uint64_t length, struct iovec **ret_pieces)
{
        struct iovec *pieces = NULL;
        size_t n = 0, room = 0;

        while (length > 0) {
                uint8_t *address;
                uint64_t run = stream_run(stream, offset, length, &address);

                struct iovec *more = ferry_reserve(pieces, &room, n + 1, sizeof(*more));

                if (!more) {
                        free(pieces);
                        return 0;
                }
                pieces = more;
                pieces[n++] = (struct iovec){ .iov_base = address, .iov_len = run };
                offset += run;
                length -= run;
        }
        *ret_pieces = pieces;
        return n;
}

const struct space *stream_space(const struct stream *stream, uint64_t offset)
{
        return stream->off_host ? stream->segments[segment_at(stream, offset)].space : NULL;
}

const struct space *stream_next_space(const struct stream *stream, uint64_t offset)
{
        for (size_t i = segment_at(stream, offset); stream->off_host && i < stream->n; i++)
                if (stream->segments[i].space)
                        return stream->segments[i].space;
        return NULL;
}

int stream_finish(const struct stream *stream, const struct space *other)
{
        const struct space_ops *last = other ? other->ops : NULL;
        int first = space_finish(other, NULL);

        for (size_t i = 0; stream->off_host && i < stream->n; i++) {
                const struct space *space = stream->segments[i].space;
                int r = space && space->ops != last ? space_finish(space, NULL) : 0;

                last = space ? space->ops : last;
                first = first < 0 ? first : r;
        }
        return first;
}

/* Copies [offset, offset + length) from bytes, or into them. */
static int copy(const struct stream *stream, uint64_t offset, uint8_t *bytes, uint64_t length, bool store)
{
        int r = 0, finished;

        while (length > 0 && r == 0) {
                const struct space *space = stream_space(stream, offset);
                uint8_t *address;
                uint64_t run = stream_run(stream, offset, length, &address);

                r = store ? space_copy(space, address, NULL, bytes, run) : space_copy(NULL, bytes, space, address, run);
                bytes += run;
                offset += run;
                length -= run;
        }
        finished = stream_finish(stream, NULL);
        return r < 0 ? r : finished;
}

int stream_store(const struct stream *stream, uint64_t offset, const void *data, uint64_t length)
{
        return copy(stream, offset, (uint8_t *)(uintptr_t)data, length, true);
}

int stream_load(const struct stream *stream, uint64_t offset, void *to, uint64_t length)
{
        return copy(stream, offset, to, length, false);
}

int stream_checksum(const struct stream *stream, uint64_t offset, uint64_t length, uint64_t *ret_checksum)
{
        FERRY_CLEANUP(cleanup_free) void *piece = stream->off_host ? malloc(CHECKSUM_PIECE) : NULL;
        uint8_t *address = piece;
        XXH3_state_t state;
        uint64_t run;
        int r;

        if (stream->off_host && !piece)
                return -ENOMEM;
        if (!piece && stream_run(stream, offset, length, &address) == length) {
                *ret_checksum = XXH3_64bits(address, length);
                return 0;
        }
        (void)XXH3_64bits_reset(&state);
        for (; length > 0; offset += run, length -= run) {
                if (piece)
                        run = length < CHECKSUM_PIECE ? length : CHECKSUM_PIECE;
                else
                        run = stream_run(stream, offset, length, &address);
                r = piece ? stream_load(stream, offset, piece, run) : 0;
                if (r < 0)
                        return r;
                (void)XXH3_64bits_update(&state, address, run);
        }
        *ret_checksum = XXH3_64bits_digest(&state);
        return 0;
}
