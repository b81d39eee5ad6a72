/* SPDX-License-Identifier: Apache-2.0 */
#include "api_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>

#include "base/space.h"
#include "base/util.h"
#include "memory/region.h"
#include "message/stream.h"

/*
 * GET and PUT of /v1/regions/{id}/content: the bytes of a region as they are. The region's memory stays until the end
 * of the request (region_stream_begin). Host memory is sent without a copy, straight from the region.
 *
 * Thread: that of the request's connection; load(), upload_store() and digest() perhaps one of the pool.
 */

/* Bytes of a region, whose memory is pinned until region_stream_end: the content of a request's copying. */
struct content {
        struct region *region;
        uint64_t first, end;
        uint64_t moved_to; /* where the next byte is copied */
        uint64_t taken_to; /* of an upload: where the next byte of the body goes */
        bool digested;     /* checksum is set */
        uint64_t checksum;
};

static void content_close(void *context, bool done)
{
        struct content *content = context;

        (void)done;
        region_stream_end(content->region);
        free(content);
}

/* Takes over the pin of the region. false: answered, and not taken over. */
static bool open_content(struct http_request *request, const struct content_copy_ops *ops, struct region *region,
                         uint64_t first, uint64_t end)
{
        struct content *content = malloc(sizeof(*content));
        int r = -ENOMEM;

        if (content) {
                *content = (struct content){ region, first, end, first, first, false, 0 };
                r = content_copy_open(request, ops, content, pool_devices_of(region->space, NULL));
        }
        if (!r)
                return true;
        free(content);
        request_problem(request, r, NULL);
        return false;
}

/* ---- GET ---- */

static int load(void *context, void *bytes, size_t size)
{
        struct content *content = context;
        const struct region *region = content->region;
        const uint8_t *from = (const uint8_t *)region->address + content->moved_to;
        int r = space_copy(NULL, bytes, region->space, from, size), finished = space_finish(NULL, region->space);

        content->moved_to += size;
        return r < 0 ? r : finished;
}

/*
 * Makes the digest of the Content-Digest header (RFC 9530), by which clients compare content without fetching it.
 */
static int digest(void *context)
{
        struct content *content = context;
        const struct segment segment = { .address = (uint8_t *)content->region->address,
                                         .size = content->region->size,
                                         .space = content->region->space };
        struct stream stream;

        (void)stream_init(&stream, &segment, 1); /* cannot fail with one segment */
        content->digested =
                !stream_checksum(&stream, content->first, content->end - content->first, &content->checksum);
        return 0; /* where that failed, copying the bytes fails, too */
}

static void answer_begun(struct http_request *request)
{
        const struct content *content = content_copy_content(request);
        const struct region *region = content->region;
        struct http_range range;

        if (!content_copy_await(request, answer_begun))
                return;
        if (content_copy_error(request)) {
                request_problem(request, FERRY_E_GONE, "The bytes were not read: %s",
                                space_error(content_copy_error(request)));
                return;
        }
        if (content->digested)
                range_add_digest(request, content->checksum);
        if (!range_asked(request, region->size, &range)) /* as before */
                return;
        /* Host memory is sent straight from the region, which stays pinned until the end of the request. */
        range_answer(request, &range,
                     region->space
                             ? content_copy_response(request, range.size)
                             : MHD_create_response_from_buffer(range.size, (uint8_t *)region->address + range.first,
                                                               MHD_RESPMEM_PERSISTENT));
}

void get_region_content(struct http_request *request)
{
        static const struct content_copy_ops ops = { .move = load, .close = content_close };
        struct region *region = request_stream_region(request);
        struct http_range range;

        if (!region)
                return;
        if (!range_asked(request, region->size, &range) ||
            !open_content(request, &ops, region, range.first, range.first + range.size)) {
                region_stream_end(region);
                return;
        }
        bool wanted = headers_prefer(request->headers.want_content_digest, "xxh3") && range.size <= RANGE_DIGEST_MAX;
        content_copy_begin(request, wanted ? digest : NULL, range.size,
                           strcmp(request->method, "HEAD") ? range.size : 0);
        answer_begun(request);
}

/* ---- PUT ---- */

/*
 * Clients must order their accesses to the bytes of a region, the worker does not: other requests, transfers and
 * programs may read and write the same bytes. A separate function, so that tests/tsan.supp can name it.
 */
__attribute__((noinline)) static int upload_store(void *context, void *from, size_t size)
{
        struct content *content = context;
        const struct region *region = content->region;
        int r = space_copy(region->space, (uint8_t *)region->address + content->moved_to, NULL, from, size);
        int finished = space_finish(region->space, NULL);

        content->moved_to += size;
        return r < 0 ? r : finished;
}

static void refuse_length(struct http_request *request, uint64_t room)
{
        request_problem(request, FERRY_E_TOO_LARGE, "The region has room for %" PRIu64 " bytes from this offset", room);
}

static uint64_t least_end(uint64_t end, const struct region *region)
{
        return end < region->size ? end : region->size;
}

/* Called before the body: checks all that can be checked, so that a refused upload stores nothing. */
static void begin(struct http_request *request)
{
        static const struct content_copy_ops ops = { .move = upload_store, .close = content_close };
        struct region *region;
        uint64_t offset, end;
        int r;

        if (!request->chunked && !request->headers.content_length) {
                request_problem(request, FERRY_E_INVALID_PARAMETER, "The request has no body");
                return;
        }
        if (!range_place(request, UINT64_MAX, &offset, &end) || !(region = request_stream_region(request)))
                return;
        if (!region_content_allowed(region))
                request_problem(request, FERRY_E_FORBIDDEN,
                                "The region is memory of the program that runs the worker, which takes no content");
        else if (offset > region->size)
                request_problem(request, FERRY_E_OUT_OF_BOUNDS, "The region has %zu bytes", region->size);
        else if ((end != UINT64_MAX && end > region->size) || request->content_length > region->size - offset)
                refuse_length(request, region->size - offset);
        else if ((r = region_check_writable(region, offset, least_end(end, region) - offset)) < 0)
                request_problem(request, FERRY_E_FORBIDDEN, "The bytes cannot be stored: %s", space_error(r));
        else
                (void)open_content(request, &ops, region, offset, least_end(end, region));
        if (request->answered) /* with a refusal: nobody waits for the rest of the body to delete the region */
                region_stream_end(region);
}

static void refuse_store(struct http_request *request, int error)
{
        request_problem(request, FERRY_E_GONE, "The bytes were not stored: %s", space_error(error));
        content_copy_close(request, false);
}

void put_region_content(struct http_request *request)
{
        const struct content *content;
        bool deleted, whole;

        if (request->phase == REQUEST_BEGIN) {
                begin(request);
                return;
        }
        if (!content_copy_flush(request, put_region_content))
                return;
        if (content_copy_error(request)) {
                refuse_store(request, content_copy_error(request));
                return;
        }
        content = content_copy_content(request);
        deleted = region_deleted(content->region);
        whole = content->taken_to == content->end;
        content_copy_close(request, true); /* before the answer: a client that has it may delete the region */
        if (deleted)
                request_problem(request, FERRY_E_GONE, "The region was deleted during the upload");
        else if (request->headers.content_range && !whole)
                range_refuse(request, "names more bytes than the body has");
        else
                request_answer_empty(request, 204);
}

void take_region_content(struct http_request *request, const char *data, size_t size)
{
        struct content *content = content_copy_content(request);
        int error;

        if (size > content->end - content->taken_to) {
                if (request->headers.content_range)
                        range_refuse(request, "names fewer bytes than the body has");
                else
                        refuse_length(request, content->region->size - content->first);
                content_copy_close(request, false);
                return;
        }
        error = content_copy_take(request, data, size);
        if (!error)
                content->taken_to += size;
        else if (error != -EINPROGRESS)
                refuse_store(request, error);
}
