/* SPDX-License-Identifier: Apache-2.0 */
#include "pull.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "base/copy.h"
#include "base/space.h"
#include "base/util.h"

/*
 * Pulls: see pull.h. A piece is taken under the lock of struct copies, copied without it, and counts only if the lease
 * is still valid after the copy. Copies off the host are queued with the driver, and the piece then waits for the
 * device once.
 */

struct pull *pull_new(size_t n, size_t digests)
{
        struct pull *pull = calloc(1, sizeof(*pull) + n * sizeof(pull->extents[0]) + digests * sizeof(uint64_t));

        if (pull && digests)
                pull->digests = (void *)(pull->extents + n);
        return pull;
}

void pull_free(struct pull *pull)
{
        for (size_t i = 0; i < pull->n; i++)
                mapping_put(pull->extents[i].mapping);
        free(pull);
}

bool pull_take(struct pull *pull, uint64_t limit, struct piece *ret_piece)
{
        uint64_t rest = pull->length - pull->taken,
                 length = pull->digests && limit < FRAME_DIGEST_PIECE ? FRAME_DIGEST_PIECE : limit;

        length = rest < length ? rest : length;
        if (pull_is_taken(pull) || length == 0)
                return false;
        *ret_piece = (struct piece){ .pull = pull,
                                     .extent = pull->extent,
                                     .extent_offset = pull->extent_offset,
                                     .offset = pull->taken,
                                     .length = length,
                                     .failed_at = pull->taken };
        DL_APPEND(pull->running, ret_piece);
        pull->taken += length;
        pull->extent_offset += length;
        while (pull->extent < pull->n && pull->extent_offset >= pull->extents[pull->extent].size)
                pull->extent_offset -= pull->extents[pull->extent++].size;
        return true;
}

void pull_finish(struct piece *piece, int r)
{
        struct pull *pull = piece->pull;

        DL_DELETE(pull->running, piece);
        if (r == 0 || (pull->result != MESSAGE_OK && pull->failed_at <= piece->failed_at))
                return;
        pull->result = r == -ESTALE ? MESSAGE_LEASE_ENDED : r == -EILSEQ ? MESSAGE_DIFFERS : MESSAGE_FAULT;
        pull->failed_at = piece->failed_at;
        pull->message->fault = r;
}

__attribute__((noinline)) void local_copy(void *to, const void *from, size_t size, bool past_caches)
{
        if (past_caches)
                copy_past_caches(to, from, size);
        else
                memcpy(to, from, size);
}

/* A part of a piece that is contiguous at both ends. */
struct run {
        struct mapping *from;
        uint64_t from_offset;
        uint8_t *to;
        struct memory *to_memory;
        const struct space *to_space; /* NULL = host memory */
        uint64_t size;
};

/* Where the address space has no room for the peer's memory. Sealed, the file is long enough: 0 cannot come. */
static int run_read(const struct run *run)
{
        for (uint64_t done = 0; done < run->size;) {
                ssize_t n = pread(run->from->fd, run->to + done, run->size - done, (off_t)(run->from_offset + done));

                if (n > 0)
                        done += (uint64_t)n;
                else if (n == 0 || errno != EINTR)
                        return -ESTALE;
        }
        return 0;
}

/* Queues the copy without waiting for it. */
static int run_queue(const struct run *run)
{
        const struct space *space = run->from->space;

        if (!run->from->address)
                return -ENOMEM;
        if (space && !run->to_space)
                gpu_pin_use(&run->to_memory->pin, space->device, run->size);
        else if (space_gpu(run->to_space) >= 0 && !space)
                gpu_pin_use(&run->from->range, run->to_space->device, run->size);
        return space_copy(run->to_space, run->to, space, run->from->address + run->from_offset, run->size);
}

static int run_copy(const struct run *run, bool past_caches)
{
        if (run->to_space || run->from->space)
                return run_queue(run);
        if (!run->from->address)
                return run_read(run);
        local_copy(run->to, run->from->address + run->from_offset, run->size, past_caches);
        return 0;
}

static int copy_runs(const struct piece *piece, bool past_caches)
{
        const struct pull *pull = piece->pull;
        const struct pull_extent *extent = &pull->extents[piece->extent];
        const struct stream *stream = pull->message->stream;
        uint64_t extent_offset = piece->extent_offset, offset = pull->message->offset + piece->offset;
        int r = 0;

        for (uint64_t left = piece->length, size; left > 0 && r == 0; left -= size) {
                struct run run = { .from = extent->mapping, .from_offset = extent->offset + extent_offset };

                if (pull->off_host && pull->result != MESSAGE_OK)
                        return -ECANCELED;
                size = extent->size - extent_offset;
                size = stream_run_in_segment(stream, offset, size < left ? size : left, &run.to, &run.to_memory);
                run.to_space = stream_space(stream, offset);
                run.size = size;
                r = run_copy(&run, past_caches);
                offset += size;
                extent_offset += size;
                if (extent_offset == extent->size) {
                        extent++;
                        extent_offset = 0;
                }
        }
        return r;
}

/* Compares the bytes that are in place with their digests. -errno other than -EILSEQ cannot come of host memory. */
static int compare(struct piece *piece)
{
        const struct message *message = piece->pull->message;
        const uint64_t end = piece->offset + piece->length;

        for (uint64_t digest, left; piece->failed_at < end; piece->failed_at += FRAME_DIGEST_PIECE) {
                int r;

                left = end - piece->failed_at;
                r = stream_checksum(message->stream, message->offset + piece->failed_at,
                                    left < FRAME_DIGEST_PIECE ? left : FRAME_DIGEST_PIECE, &digest);
                if (r < 0)
                        return r;
                if (digest != piece->pull->digests[piece->failed_at / FRAME_DIGEST_PIECE])
                        return -EILSEQ;
        }
        return 0;
}

int piece_copy(struct piece *piece)
{
        const struct pull *pull = piece->pull;
        const struct stream *stream = pull->message->stream;
        bool past_caches = stream->total >= PULL_PAST_CACHES && !pull->digests;
        int r, finished;

        if (!lease_is_valid(pull->lease, pull->number))
                return -ESTALE;
        r = copy_runs(piece, past_caches);
        if (past_caches)
                copy_past_caches_end();
        finished = pull->off_host ? stream_finish(stream, pull->from_gpu) : 0;
        /* Only now has a device read all bytes. */
        if (!lease_was_valid(pull->lease, pull->number))
                return -ESTALE;
        if (r < 0 || finished < 0)
                return r < 0 ? r : finished;
        return pull->digests ? compare(piece) : 0;
}
