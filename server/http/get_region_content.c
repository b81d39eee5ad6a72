/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>

#include "base/space.h"
#include "copying.h"
#include "handlers.h"
#include "headers.h"
#include "memory/region.h"
#include "octets.h"
#include "range.h"
#include "request.h"
#include "wire/stream.h"

/* A range of a region whose memory is pinned. */
struct content {
        struct region *region; /* until region_stream_end */
        struct octets octets;
        uint64_t moved;
        bool digested; /* checksum is set */
        uint64_t checksum;
};

static int move(void *context, void *bytes, size_t size)
{
        struct content *content = context;
        const struct region *region = content->region;
        const uint8_t *from = (const uint8_t *)region->address + content->octets.first + content->moved;
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
        content->digested =
                stream_checksum(&stream, content->octets.first, content->octets.size, &content->checksum) == 0;
        return 0; /* where that failed, copying the bytes fails, too */
}

/* Host memory is sent straight from the region, which stays pinned until the end of the request. */
static struct MHD_Response *make_response(struct http_request *request, const struct content *content)
{
        if (content->region->space)
                return copying_response(request, content->octets.size);
        return MHD_create_response_from_buffer(content->octets.size,
                                               (uint8_t *)content->region->address + content->octets.first,
                                               MHD_RESPMEM_PERSISTENT);
}

static void answer_begun(struct http_request *request)
{
        const struct content *content = copying_content(request);

        if (!copying_await(request, answer_begun))
                return;
        if (copying_error(request)) {
                request_problem(request, FERRY_E_GONE, "The bytes were not read: %s",
                                space_error(copying_error(request)));
                return;
        }
        if (content->digested)
                octets_add_digest(request, content->checksum);
        octets_answer(request, &content->octets, make_response(request, content));
}

/* Takes over the pin of region. */
static void answer(struct http_request *request, struct region *region, const struct octets *octets)
{
        bool wanted = headers_prefer(request->headers.want_content_digest, "xxh3") && octets->size <= RANGE_DIGEST_MAX;
        struct content *content = malloc(sizeof(*content));
        int r = -ENOMEM;

        if (content) {
                *content = (struct content){ .region = region, .octets = *octets };
                r = copying_open(request, &content_ops, content, copier_gpus_of(region->space, NULL));
        }
        if (r < 0) {
                free(content);
                region_stream_end(region);
                request_problem(request, r, NULL);
                return;
        }
        copying_begin(request, wanted ? digest : NULL, octets->size,
                      strcmp(request->method, "HEAD") != 0 ? octets->size : 0);
        answer_begun(request);
}

void get_region_content(struct http_request *request)
{
        struct region *region = request_stream_region(request);
        struct octets octets;

        if (!region)
                return;
        if (octets_asked(request, region->size, &octets))
                answer(request, region, &octets);
        else
                region_stream_end(region);
}
