/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <microhttpd.h>
#include <stdlib.h>

#include <ferry/encoding.h>
#include <ferry/error.h>

#include "base/space.h"
#include "handlers.h"
#include "headers.h"
#include "memory/region.h"
#include "range.h"
#include "request.h"
#include "wire/stream.h"

/* The answer was sent, or the client has left. Connection's thread. */
static void release(void *context)
{
        struct region *region = context;

        region_stream_end(region);
}

/* Adds the Content-Digest (RFC 9530) of a range, for clients that want to compare without fetching all bytes. */
static void add_digest(struct http_request *request, const struct region *region, uint64_t first, uint64_t size)
{
        const struct segment segment = { .address = (uint8_t *)region->address,
                                         .size = region->size,
                                         .space = region->space };
        struct stream stream;
        char text[FERRY_DIGEST_TEXT_SIZE];
        uint64_t checksum;

        (void)stream_init(&stream, &segment, 1); /* cannot fail with one segment */
        if (stream_checksum(&stream, first, size, &checksum) < 0)
                return; /* the content will end early, too */
        ferry_digest_format(checksum, text);
        request_header_text(request, "Content-Digest", "", text);
}

/* GPU memory is copied to the host on this thread, in pieces of so many bytes. */
enum { PIECE = 4 << 20 };

struct gpu_content {
        struct region *region;
        uint64_t first;
};

static ssize_t read_piece(void *context, uint64_t position, char *to, size_t size)
{
        const struct gpu_content *content = context;
        const struct region *region = content->region;
        const uint8_t *from = (const uint8_t *)region->address + content->first + position;
        int r = space_copy(NULL, to, region->space, from, size), finished = space_finish(NULL, region->space);

        return r < 0 || finished < 0 ? MHD_CONTENT_READER_END_WITH_ERROR : (ssize_t)size;
}

static void release_gpu(void *context)
{
        struct gpu_content *content = context;

        release(content->region);
        free(content);
}

/* Takes over the pin of region. NULL: no memory. */
static struct MHD_Response *answer_gpu(struct region *region, uint64_t first, uint64_t size)
{
        struct gpu_content *content = malloc(sizeof(*content));
        struct MHD_Response *response = NULL;

        if (content) {
                *content = (struct gpu_content){ region, first };
                response = MHD_create_response_from_callback(size, size < PIECE ? size : PIECE, read_piece, content,
                                                             release_gpu);
        }
        if (response)
                return response;
        free(content);
        release(region);
        return NULL;
}

/* Host memory is sent straight from the region, which stays pinned until the end of the answer. */
static struct MHD_Response *answer_host(struct region *region, uint64_t first, uint64_t size)
{
        struct MHD_Response *response = MHD_create_response_from_buffer_with_free_callback_cls(
                size, (uint8_t *)region->address + first, release, region);

        if (!response)
                release(region);
        return response;
}

static void answer(struct http_request *request, struct region *region, uint64_t first, uint64_t last, bool part)
{
        const size_t whole = region->size;
        struct MHD_Response *response;

        if (headers_prefer(request->headers.want_content_digest, "xxh3") && last - first < RANGE_DIGEST_MAX)
                add_digest(request, region, first, last - first + 1);
        response = region->space ? answer_gpu(region, first, last - first + 1)
                                 : answer_host(region, first, last - first + 1);
        if (response) {
                MHD_add_response_header(response, "Content-Type", "application/octet-stream");
                MHD_add_response_header(response, "Cache-Control", "no-store");
                MHD_add_response_header(response, "Accept-Ranges", "bytes");
        }
        if (part)
                request_header(request, "Content-Range", "bytes %" PRIu64 "-%" PRIu64 "/%zu", first, last, whole);
        request_answer(request, part ? 206 : 200, response);
}

void get_region_content(struct http_request *request)
{
        struct region *region = request_stream_region(request);
        uint64_t first = 0, last = 0;

        if (!region)
                return;
        /* Content has no ETag, so If-Range never matches. */
        switch (request->headers.if_range ? RANGE_WHOLE
                                          : range_parse(request->headers.range, region->size, &first, &last)) {
        case RANGE_WHOLE:
                answer(request, region, 0, region->size - 1, false);
                break;
        case RANGE_PART:
                answer(request, region, first, last, true);
                break;
        case RANGE_UNSATISFIABLE:
                request_header(request, "Content-Range", "bytes */%zu", region->size);
                request_problem(request, FERRY_E_RANGE_NOT_SATISFIABLE, "The region has %zu bytes", region->size);
                release(region);
                break;
        }
}
