/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/error.h>

#include "handlers.h"
#include "http_internal.h"
#include "memory/region.h"
#include "request.h"

static const char *reason(int error)
{
        switch (error) {
        case FERRY_E_REGION_IN_USE:
                return "An operation or a content request uses it";
        case FERRY_E_REGION_HELD:
                return "It is memory of the program that runs the worker, which alone can remove it";
        default:
                return "There is no region of this id";
        }
}

/* Holds no reference of its own: the memory leaves before the client has the answer. */
void delete_region(struct http_request *request)
{
        int error = FERRY_E_NOT_FOUND;
        uint64_t id;

        if (request->headers.if_match || request->headers.if_none_match) {
                struct region *region = request_find_region(request);

                if (!region)
                        return;
                region_unref(region);
        }
        if (ferry_id_parse("rgn_", request->resource_id, &id))
                error = region_delete(request->server->config.regions, id);
        if (!error)
                request_answer_empty(request, 204);
        else
                request_problem(request, error, "%s", reason(error));
}
