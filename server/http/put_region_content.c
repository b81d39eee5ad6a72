/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>

#include "base/space.h"
#include "base/util.h"
#include "handlers.h"
#include "memory/region.h"
#include "range.h"
#include "request.h"

/* An upload: the request's state while the region's memory is pinned. */
struct upload {
        struct region *region; /* pinned: region_stream_end */
        uint64_t offset;       /* where the next byte goes */
        uint64_t end;          /* of the range */
};

static void upload_end(struct http_request *request)
{
        struct upload *upload = request->state;

        region_stream_end(upload->region);
        free(upload);
}

/* Takes over the pin of region. false: answered. */
static bool upload_begin(struct http_request *request, struct region *region, uint64_t offset, uint64_t end)
{
        struct upload *upload = malloc(sizeof(*upload));

        if (!upload) {
                region_stream_end(region);
                request_problem(request, -ENOMEM, NULL);
                return false;
        }
        *upload = (struct upload){ region, offset, end };
        request_keep(request, upload, upload_end);
        return true;
}

static void refuse_length(struct http_request *request, uint64_t room)
{
        request_problem(request, FERRY_E_TOO_LARGE, "The region has room for %" PRIu64 " bytes from this offset", room);
}

static void refuse_range(struct http_request *request, const char *fault)
{
        request_problem(request, FERRY_E_INVALID_PARAMETER, "Content-Range \"%.64s\" %s",
                        request->headers.content_range, fault);
}

/*
 * The range of the upload: from "offset" on (*ret_end = UINT64_MAX: to the end of the body), or Content-Range, as curl
 * sends it when it resumes. false: answered.
 */
static bool find_place(struct http_request *request, uint64_t *ret_offset, uint64_t *ret_end)
{
        uint64_t last;

        *ret_offset = query_value(&request->query, HTTP_PARAMETER_OFFSET);
        *ret_end = UINT64_MAX;
        if (!request->headers.content_range)
                return true;
        if (query_has(&request->query, HTTP_PARAMETER_OFFSET))
                refuse_range(request, "and the query parameter offset exclude each other");
        else if (!content_range_parse(request->headers.content_range, ret_offset, &last) || last == UINT64_MAX)
                refuse_range(request, "must be like \"bytes 0-1023/4096\"");
        else if (!request->chunked && request->content_length != last - *ret_offset + 1)
                refuse_range(request, "and Content-Length disagree");
        else
                *ret_end = last + 1;
        return !request->answered;
}

/* Called before the body: checks all that can be checked, so that a refused upload stores nothing. */
static void begin(struct http_request *request)
{
        struct region *region;
        uint64_t offset, end;

        if (!request->chunked && !request->headers.content_length) {
                request_problem(request, FERRY_E_INVALID_PARAMETER, "The request has no body");
                return;
        }
        if (!find_place(request, &offset, &end) || !(region = request_stream_region(request)))
                return;
        if (!upload_begin(request, region, offset, end < region->size ? end : region->size))
                return;
        if (!region_content_allowed(region))
                request_problem(request, FERRY_E_FORBIDDEN,
                                "The region is memory of the program that runs the worker, which takes no content");
        else if (offset > region->size)
                request_problem(request, FERRY_E_OUT_OF_BOUNDS, "The region has %zu bytes", region->size);
        else if ((end != UINT64_MAX && end > region->size) || request->content_length > region->size - offset)
                refuse_length(request, region->size - offset);
}

void put_region_content(struct http_request *request)
{
        const struct upload *upload = request->state;
        bool deleted, whole;

        if (request->phase == REQUEST_BEGIN) {
                begin(request);
                return;
        }
        deleted = region_deleted(upload->region);
        whole = upload->offset == upload->end;
        request_drop(request); /* before the answer: a client that has it may delete the region */
        if (deleted)
                request_problem(request, FERRY_E_GONE, "The region was deleted during the upload");
        else if (request->headers.content_range && !whole)
                refuse_range(request, "names more bytes than the body has");
        else
                request_answer_empty(request, 204);
}

/*
 * Clients must order their accesses to the bytes of a region, the worker does not: other requests, transfers and
 * programs may read and write the same bytes. A separate function, so that tests/tsan.supp can name it.
 */
__attribute__((noinline)) static int upload_store(const struct region *region, uint64_t offset, const void *from,
                                                  size_t size)
{
        int r = space_copy(region->space, (uint8_t *)region->address + offset, NULL, from, size);
        int finished = space_finish(region->space, NULL);

        return r < 0 ? r : finished;
}

void take_region_content(struct http_request *request, const char *data, size_t size)
{
        struct upload *upload = request->state;
        struct region *region = upload->region;
        int r;

        if (size > upload->end - upload->offset) {
                if (request->headers.content_range)
                        refuse_range(request, "names fewer bytes than the body has");
                else
                        refuse_length(request, region->size - query_value(&request->query, HTTP_PARAMETER_OFFSET));
                request_drop(request);
                return;
        }
        r = upload_store(region, upload->offset, data, size);
        upload->offset += size;
        if (r == 0)
                return;
        request_problem(request, FERRY_E_GONE, "The bytes were not stored: %s", space_error(r));
        request_drop(request);
}
