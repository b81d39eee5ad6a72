/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include <ferry/error.h>

#include "handlers.h"
#include "http_internal.h"
#include "making.h"
#include "memory/region.h"
#include "operations/operations.h"
#include "request.h"
#include "wait.h"

enum {
        NAMED_MAX = 8,
        DETAIL_SIZE = 256,
        LET_GO_MS = 2000, /* for a peer that has all bytes to say so: a round trip, and one lost packet */
};

static const char *reason(int error)
{
        if (error == FERRY_E_REGION_IN_USE)
                return "An operation or a content request uses it";
        return "It is memory of the program that runs the worker, which alone can remove it";
}

/* Formats the detail of region-in-use: the oldest operations that are not done. */
static void name_operations(struct http_request *request, uint64_t region, char detail[DETAIL_SIZE])
{
        const struct operation_filter filter = { .kind = -1, .status = -1, .done = 0, .region = region };
        struct operation *page[NAMED_MAX];
        uint64_t cursor = 0;
        size_t n = operation_page(request->server->config.operations, &filter, &cursor, page, NAMED_MAX), used;

        used = (size_t)snprintf(detail, DETAIL_SIZE, "%s", n ? "Used by" : reason(FERRY_E_REGION_IN_USE));
        for (size_t i = 0; i < n; i++) {
                char id[FERRY_ID_TEXT_SIZE];

                ferry_id_format("op_", operation_id(page[i]), id);
                used += (size_t)snprintf(detail + used, DETAIL_SIZE - used, "%s %s", i ? "," : "", id);
                operation_unref(page[i]);
        }
        if (cursor)
                snprintf(detail + used, DETAIL_SIZE - used, " and others");
}

static void answer(struct http_request *request, uint64_t id, int error)
{
        char detail[DETAIL_SIZE];

        if (error == FERRY_E_REGION_IN_USE)
                name_operations(request, id, detail);
        if (!error)
                request_answer_empty(request, 204);
        else if (error == FERRY_E_NOT_FOUND)
                request_problem(request, error, "No region \"%s\"", request->resource_id);
        else
                request_problem(request, error, "%s", error == FERRY_E_REGION_IN_USE ? detail : reason(error));
}

/* Whatever ended the wait. */
static void delete_again(struct http_request *request)
{
        uint64_t id = making_region(request->state)->id;

        request_drop(request);
        answer(request, id, region_delete(request->server->config.regions, id));
}

/* false: an operation keeps the region in use, or the request cannot wait. */
static bool wait_unused(struct http_request *request, uint64_t id)
{
        struct region *region;

        if (!operation_store_lets_go(request->server->config.operations, id))
                return false;
        region = region_find(request->server->config.regions, id);
        if (!region)
                return false;
        if (making_begin_unused(request, region) < 0) {
                region_unref(region);
                return false;
        }
        if (wait_park_work(request, making_over(request->state), LET_GO_MS, delete_again) != WAIT_PARKED)
                delete_again(request);
        return true;
}

/*
 * Takes no reference, so that a small region without other references is freed before the answer. A large one is freed
 * later, by a maker thread.
 */
void delete_region(struct http_request *request)
{
        int error = FERRY_E_NOT_FOUND;
        uint64_t id = 0;

        if (request->headers.if_match || request->headers.if_none_match) {
                struct region *region = request_find_region(request);

                if (!region)
                        return;
                region_unref(region);
        }
        if (ferry_id_parse("rgn_", request->resource_id, &id))
                error = region_delete(request->server->config.regions, id);
        if (error != FERRY_E_REGION_IN_USE || !wait_unused(request, id))
                answer(request, id, error);
}
