/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#define XXH_STATIC_LINKING_ONLY /* the state's struct, to have it on the stack */
#include <xxhash.h>

#include "wire/stream.h"

int stream_init(struct stream *stream, const struct segment *segments, size_t n)
{
        uint64_t total = 0;
        uint64_t *starts = NULL;

        if (n > 1) {
                starts = calloc(n, sizeof(*starts));
                if (!starts)
                        return -ENOMEM;
        }
        for (size_t i = 0; i < n; i++) {
                if (starts)
                        starts[i] = total;
                if (__builtin_add_overflow(total, segments[i].size, &total)) {
                        free(starts);
                        return -EOVERFLOW;
                }
        }
        *stream = (struct stream){ .segments = segments, .n = n, .starts = starts, .total = total };
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
        size_t low = 0, high = stream->n;

        while (high - low > 1) {
                size_t middle = low + (high - low) / 2;

                if (stream->starts[middle] <= offset)
                        low = middle;
                else
                        high = middle;
        }
        return low;
}

uint64_t stream_run(const struct stream *stream, uint64_t offset, uint64_t limit, uint8_t **ret_address)
{
        size_t i = segment_at(stream, offset);
        uint64_t inside = offset - (stream->starts ? stream->starts[i] : 0);
        uint8_t *address = stream->segments[i].address + inside;
        uint64_t run = stream->segments[i].size - inside;

        /* Neighbours in the list that are neighbours in memory make one run. */
        while (run < limit && i + 1 < stream->n && stream->segments[i + 1].address == address + run)
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

                if (n == room) {
                        struct iovec *more = realloc(pieces, (room = room ? 2 * room : 4) * sizeof(*pieces));

                        if (!more) {
                                free(pieces);
                                return 0;
                        }
                        pieces = more;
                }
                pieces[n++] = (struct iovec){ .iov_base = address, .iov_len = run };
                offset += run;
                length -= run;
        }
        *ret_pieces = pieces;
        return n;
}

uint64_t stream_checksum(const struct stream *stream, uint64_t offset, uint64_t length)
{
        uint8_t *address;
        uint64_t run = stream_run(stream, offset, length, &address);
        XXH3_state_t state;

        if (run == length)
                return XXH3_64bits(address, length);
        (void)XXH3_64bits_reset(&state);
        for (;;) {
                (void)XXH3_64bits_update(&state, address, run);
                offset += run;
                length -= run;
                if (length == 0)
                        return XXH3_64bits_digest(&state);
                run = stream_run(stream, offset, length, &address);
        }
}

void stream_store(const struct stream *stream, uint64_t offset, const void *data, uint64_t length)
{
        const uint8_t *from = data;

        while (length > 0) {
                uint8_t *address;
                uint64_t run = stream_run(stream, offset, length, &address);

                memcpy(address, from, run);
                from += run;
                offset += run;
                length -= run;
        }
}
