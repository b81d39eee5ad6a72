/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "content_transfer.h"

/* Reading the bytes of an operation for digests. */

enum { VISIT_PIECE = 1 << 20 };

bool operation_content_checksum(struct operation_content *part, uint64_t *ret_checksum)
{
        struct content_transfer *transfer = part->transfer;
        int r;

        if (!content_transfer_copy_begin(transfer))
                return false;
        r = stream_checksum(&transfer->stream, part->first, part->end - part->first, ret_checksum);
        content_transfer_copy_end(transfer);
        if (r < 0)
                content_fault(part, r);
        return r == 0;
}

/* A function of its own so that tests/tsan.supp can name it: clients order their accesses to the bytes. */
__attribute__((noinline)) static void content_show(void (*visit)(void *context, const void *bytes, size_t size),
                                                   void *context, const void *bytes, size_t size)
{
        visit(context, bytes, size);
}

/* Shows [at, at + size). staging: room for it where it is not host memory. 0 or -errno. */
static int visit_run(const struct stream *stream, uint64_t at, uint64_t *size, void *staging,
                     void (*visit)(void *context, const void *bytes, size_t size), void *context)
{
        uint8_t *address = staging;
        int r = 0;

        *size = stream->total - at < *size ? stream->total - at : *size;
        if (staging)
                r = stream_load(stream, at, staging, *size);
        else
                *size = stream_run(stream, at, *size, &address);
        if (r == 0)
                content_show(visit, context, address, *size);
        return r;
}

bool operation_content_visit(struct operation_content *part,
                             void (*visit)(void *context, const void *bytes, size_t size), void *context)
{
        struct content_transfer *transfer = part->transfer;
        FERRY_CLEANUP(cleanup_free) void *staging = transfer->stream.off_host ? malloc(VISIT_PIECE) : NULL;
        int r = transfer->stream.off_host && !staging ? -ENOMEM : 0;

        for (uint64_t at = 0, run = VISIT_PIECE; r == 0 && at < transfer->stream.total; at += run, run = VISIT_PIECE) {
                if (!content_transfer_copy_begin(transfer))
                        return false;
                r = visit_run(&transfer->stream, at, &run, staging, visit, context);
                content_transfer_copy_end(transfer);
        }
        if (r < 0)
                content_fault(part, r);
        return r == 0;
}
