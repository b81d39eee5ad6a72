/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <microhttpd.h>
#include <string.h>

#include <ferry/encoding.h>
#include <ferry/error.h>

#include "handlers.h"
#include "headers.h"
#include "memory/region.h"
#include "range.h"
#include "request.h"
#include "wire/stream.h"

/* The last octet was sent, or the client left. Any thread of libmicrohttpd. */
static void release(void *context)
{
        struct region *region = context;

        region_stream_end(region);
}

/* The Content-Digest (RFC 9530) of a range, for whom its bytes are too many to fetch and compare. */
static void add_digest(struct http_request *request, const struct region *region, uint64_t first, uint64_t size)
{
        const struct segment segment = { .address = (uint8_t *)region->address, .size = region->size };
        struct stream stream;
        char text[FERRY_DIGEST_TEXT_SIZE];

        (void)stream_init(&stream, &segment, 1); /* of one segment it cannot fail */
        ferry_digest_format(stream_checksum(&stream, first, size), text);
        request_header_text(request, "Content-Digest", "", text);
}

/* Streams straight from the region, whose memory stays until the answer's end. */
static void answer(struct http_request *request, struct region *region, uint64_t first, uint64_t last, bool part)
{
        struct MHD_Response *response;

        if (headers_prefer(request->headers.want_content_digest, "xxh3") && last - first < RANGE_DIGEST_MAX)
                add_digest(request, region, first, last - first + 1);
        response = MHD_create_response_from_buffer_with_free_callback_cls(
                (size_t)(last - first + 1), (uint8_t *)region->address + first, release, region);
        if (!response) {
                release(region);
        } else {
                MHD_add_response_header(response, "Content-Type", "application/octet-stream");
                MHD_add_response_header(response, "Cache-Control", "no-store");
                MHD_add_response_header(response, "Accept-Ranges", "bytes");
        }
        if (part)
                request_header(request, "Content-Range", "bytes %" PRIu64 "-%" PRIu64 "/%zu", first, last,
                               region->size);
        request_answer(request, part ? 206 : 200, response);
}

void get_region_content(struct http_request *request)
{
        struct region *region = request_stream_region(request);
        uint64_t first = 0, last = 0;

        if (!region)
                return;
        if (strcmp(region->device, "cpu")) {
                release(region);
                request_problem(request, FERRY_E_UNKNOWN_DEVICE, "Only the content of host memory goes over HTTP");
                return;
        }
        /* Content has no entity tag, so that no If-Range can match. */
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
