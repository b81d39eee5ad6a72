/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include <ferry/error.h>

#include "base/space.h"
#include "base/util.h"
#include "handlers.h"
#include "memory/region.h"
#include "range.h"
#include "request.h"

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
 * Where the upload goes: "offset", or Content-Range as curl sends it when it resumes, which names the end, too
 * (*ret_end; UINT64_MAX = the body's). false: it has been answered.
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

/* Before the body: everything that can be checked is, so that a refused upload stores nothing. */
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
        request->region = region; /* the stream ends with the request, however that ends */
        request->upload_offset = offset;
        request->upload_end = end < region->size ? end : region->size;
        if (!region_content_allowed(region))
                request_problem(request, FERRY_E_FORBIDDEN,
                                "The region is memory of the program that runs the worker, which takes no content");
        else if (offset > region->size)
                request_problem(request, FERRY_E_OUT_OF_BOUNDS, "The region has %zu bytes", region->size);
        else if ((end != UINT64_MAX && end > region->size) || request->content_length > region->size - offset)
                refuse_length(request, region->size - offset);
}

/* Before the answer is sent: whoever has it finds the memory free of this upload. */
static void release(struct http_request *request)
{
        region_stream_end(FERRY_STEAL(request->region));
}

void put_region_content(struct http_request *request)
{
        bool deleted;

        if (request->phase == REQUEST_BEGIN) {
                begin(request);
                return;
        }
        deleted = region_deleted(request->region);
        release(request);
        if (deleted)
                request_problem(request, FERRY_E_GONE, "The region was deleted during the upload");
        else if (request->headers.content_range && request->upload_offset != request->upload_end)
                refuse_range(request, "names more bytes than the body has");
        else
                request_answer_empty(request, 204);
}

/*
 * The clients put what they do to the bytes of a region in order, not the worker: other requests, transfers and
 * programs may read and write the same ones. A function of its own, so that tests/tsan.supp can name it.
 */
__attribute__((noinline)) static int upload_store(const struct region *region, uint64_t offset, const void *from,
                                                  size_t size)
{
        int r = space_copy(region->space, (uint8_t *)region->address + offset, NULL, from, size);
        int finished = space_finish(region->space, NULL);

        return r < 0 ? r : finished;
}

void upload_take(struct http_request *request, const char *data, size_t size)
{
        struct region *region = request->region;
        int r;

        if (size > request->upload_end - request->upload_offset) {
                if (request->headers.content_range)
                        refuse_range(request, "names fewer bytes than the body has");
                else
                        refuse_length(request, region->size - query_value(&request->query, HTTP_PARAMETER_OFFSET));
                release(request);
                return;
        }
        r = upload_store(region, request->upload_offset, data, size);
        request->upload_offset += size;
        if (r == 0)
                return;
        request_problem(request, FERRY_E_GONE, "The bytes were not stored: %s", space_error(r));
        release(request);
}
