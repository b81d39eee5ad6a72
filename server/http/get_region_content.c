/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/encoding.h>
#include <ferry/error.h>

#include "base/space.h"
#include "copying.h"
#include "handlers.h"
#include "headers.h"
#include "memory/region.h"
#include "range.h"
#include "request.h"
#include "wire/stream.h"

/* A range of a region whose memory is pinned. */
struct content {
        struct region *region; /* until region_stream_end */
        uint64_t first, size;
        uint64_t moved;
        bool part;     /* the client has asked for a range */
        bool digested; /* checksum is set */
        uint64_t checksum;
};

static int move(void *context, void *bytes, size_t size)
{
        struct content *content = context;
        const struct region *region = content->region;
        const uint8_t *from = (const uint8_t *)region->address + content->first + content->moved;
        int r = space_copy(NULL, bytes, region->space, from, size), finished = space_finish(NULL, region->space);

        content->moved += size;
        return r < 0 ? r : finished;
}

static void close_content(void *context, bool done)
{
        struct content *content = context;

        (void)done;
        region_stream_end(content->region);
        free(content);
}

static const struct copying_ops content_ops = { .move = move, .close = close_content };

/* For the Content-Digest (RFC 9530), for clients that want to compare without fetching all bytes. */
static int digest(void *context)
{
        struct content *content = context;
        const struct segment segment = { .address = (uint8_t *)content->region->address,
                                         .size = content->region->size,
                                         .space = content->region->space };
        struct stream stream;

        (void)stream_init(&stream, &segment, 1); /* cannot fail with one segment */
        content->digested = stream_checksum(&stream, content->first, content->size, &content->checksum) == 0;
        return 0; /* where that failed, copying the bytes fails, too */
}

/* Host memory is sent straight from the region, which stays pinned until the end of the request. */
static struct MHD_Response *make_response(struct http_request *request, const struct content *content)
{
        if (content->region->space)
                return copying_response(request, content->size);
        return MHD_create_response_from_buffer(content->size, (uint8_t *)content->region->address + content->first,
                                               MHD_RESPMEM_PERSISTENT);
}

static void answer_begun(struct http_request *request)
{
        const struct content *content = copying_content(request);
        char text[FERRY_DIGEST_TEXT_SIZE];
        struct MHD_Response *response;

        if (!copying_await(request, answer_begun))
                return;
        if (copying_error(request)) {
                request_problem(request, FERRY_E_GONE, "The bytes were not read: %s",
                                space_error(copying_error(request)));
                return;
        }
        response = make_response(request, content);
        if (response) {
                MHD_add_response_header(response, "Content-Type", "application/octet-stream");
                MHD_add_response_header(response, "Cache-Control", "no-store");
                MHD_add_response_header(response, "Accept-Ranges", "bytes");
        }
        if (content->digested) {
                ferry_digest_format(content->checksum, text);
                request_header_text(request, "Content-Digest", "", text);
        }
        if (content->part)
                request_header(request, "Content-Range", "bytes %" PRIu64 "-%" PRIu64 "/%zu", content->first,
                               content->first + content->size - 1, content->region->size);
        request_answer(request, content->part ? 206 : 200, response);
}

/* Takes over the pin of region. */
static void answer(struct http_request *request, struct region *region, uint64_t first, uint64_t last, bool part)
{
        bool wanted = headers_prefer(request->headers.want_content_digest, "xxh3") && last - first < RANGE_DIGEST_MAX;
        struct content *content = malloc(sizeof(*content));
        int r = -ENOMEM;

        if (content) {
                *content = (struct content){ .region = region, .first = first, .size = last - first + 1, .part = part };
                r = copying_open(request, &content_ops, content, copier_gpus_of(region->space, NULL));
        }
        if (r < 0) {
                free(content);
                region_stream_end(region);
                request_problem(request, r, NULL);
                return;
        }
        copying_begin(request, wanted ? digest : NULL, content->size,
                      strcmp(request->method, "HEAD") != 0 ? content->size : 0);
        answer_begun(request);
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
                region_stream_end(region);
                break;
        }
}
