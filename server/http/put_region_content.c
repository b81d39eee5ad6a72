/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include <ferry/error.h>

#include "base/util.h"
#include "handlers.h"
#include "memory/region.h"
#include "request.h"

static void refuse_length(struct http_request *request, uint64_t room)
{
        request_problem(request, FERRY_E_TOO_LARGE, "The region has room for %" PRIu64 " bytes from this offset", room);
}

/* Before the body: everything that can be checked is, so that a refused upload stores nothing. */
static void begin(struct http_request *request)
{
        uint64_t offset = request->query.values[HTTP_PARAMETER_OFFSET];
        struct region *region = request_stream_region(request);

        if (!region)
                return;
        request->region = region; /* the stream ends with the request, however that ends */
        request->upload_offset = offset;
        if (strcmp(region->device, "cpu"))
                request_problem(request, FERRY_E_UNKNOWN_DEVICE, "Only the content of host memory goes over HTTP");
        else if (offset > region->size)
                request_problem(request, FERRY_E_OUT_OF_BOUNDS, "The region has %zu bytes", region->size);
        else if (request->content_length > region->size - offset)
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
        else
                request_answer_empty(request, 204);
}

/*
 * The clients put what they do to the bytes of a region in order, not the worker: other requests, transfers and
 * programs may read and write the same ones. A function of its own, so that tests/tsan.supp can name it.
 */
__attribute__((noinline)) static void upload_store(void *to, const void *from, size_t size)
{
        memcpy(to, from, size);
}

void upload_take(struct http_request *request, const char *data, size_t size)
{
        struct region *region = request->region;
        size_t room = region->size - request->upload_offset;

        if (size > room) {
                refuse_length(request, region->size - request->query.values[HTTP_PARAMETER_OFFSET]);
                release(request);
                return;
        }
        upload_store((uint8_t *)region->address + request->upload_offset, data, size);
        request->upload_offset += size;
}
