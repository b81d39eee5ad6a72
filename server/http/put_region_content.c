/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>

#include "base/space.h"
#include "base/util.h"
#include "copying.h"
#include "handlers.h"
#include "memory/region.h"
#include "octets.h"
#include "request.h"

/* The content of the request's copying, while the region's memory is pinned. */
struct upload {
        struct region *region; /* pinned: region_stream_end */
        uint64_t offset;       /* where the next byte of the body goes */
        uint64_t end;          /* of the range */
        uint64_t stored;       /* where the next byte is stored */
};

static void upload_end(void *context, bool done)
{
        struct upload *upload = context;

        (void)done;
        region_stream_end(upload->region);
        free(upload);
}

/*
 * Clients must order their accesses to the bytes of a region, the worker does not: other requests, transfers and
 * programs may read and write the same bytes. A separate function, so that tests/tsan.supp can name it.
 */
__attribute__((noinline)) static int upload_store(void *context, void *from, size_t size)
{
        struct upload *upload = context;
        const struct region *region = upload->region;
        int r = space_copy(region->space, (uint8_t *)region->address + upload->stored, NULL, from, size);
        int finished = space_finish(region->space, NULL);

        upload->stored += size;
        return r < 0 ? r : finished;
}

static const struct copying_ops upload_ops = { .move = upload_store, .close = upload_end };

/* Takes over the pin of region, unless it answers. */
static void upload_begin(struct http_request *request, struct region *region, uint64_t offset, uint64_t end)
{
        struct upload *upload = malloc(sizeof(*upload));
        int r = -ENOMEM;

        if (upload) {
                *upload = (struct upload){ region, offset, end, offset };
                r = copying_open(request, &upload_ops, upload, copier_gpus_of(region->space, NULL));
        }
        if (!r)
                return;
        free(upload);
        request_problem(request, r, NULL);
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
        struct region *region;
        uint64_t offset, end;
        int r;

        if (!request->chunked && !request->headers.content_length) {
                request_problem(request, FERRY_E_INVALID_PARAMETER, "The request has no body");
                return;
        }
        if (!octets_place(request, UINT64_MAX, &offset, &end) || !(region = request_stream_region(request)))
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
                upload_begin(request, region, offset, least_end(end, region));
        if (request->answered) /* with a refusal: nobody waits for the rest of the body to delete the region */
                region_stream_end(region);
}

static void refuse_store(struct http_request *request, int error)
{
        request_problem(request, FERRY_E_GONE, "The bytes were not stored: %s", space_error(error));
        copying_close(request, false);
}

void put_region_content(struct http_request *request)
{
        const struct upload *upload;
        bool deleted, whole;

        if (request->phase == REQUEST_BEGIN) {
                begin(request);
                return;
        }
        if (!copying_flush(request, put_region_content))
                return;
        if (copying_error(request)) {
                refuse_store(request, copying_error(request));
                return;
        }
        upload = copying_content(request);
        deleted = region_deleted(upload->region);
        whole = upload->offset == upload->end;
        copying_close(request, true); /* before the answer: a client that has it may delete the region */
        if (deleted)
                request_problem(request, FERRY_E_GONE, "The region was deleted during the upload");
        else if (request->headers.content_range && !whole)
                octets_refuse_range(request, "names more bytes than the body has");
        else
                request_answer_empty(request, 204);
}

void take_region_content(struct http_request *request, const char *data, size_t size)
{
        struct upload *upload = copying_content(request);
        int error;

        if (size > upload->end - upload->offset) {
                if (request->headers.content_range)
                        octets_refuse_range(request, "names fewer bytes than the body has");
                else
                        refuse_length(request,
                                      upload->region->size - query_value(&request->query, HTTP_PARAMETER_OFFSET));
                copying_close(request, false);
                return;
        }
        error = copying_take(request, data, size);
        if (!error)
                upload->offset += size;
        else if (error != -EINPROGRESS)
                refuse_store(request, error);
}
