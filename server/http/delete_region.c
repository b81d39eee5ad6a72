/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/error.h>

#include "handlers.h"
#include "http_internal.h"
#include "memory/region.h"
#include "request.h"

void delete_region(struct http_request *request)
{
        struct region *region = request_find_region(request);

        if (!region)
                return;
        int error = region_delete(request->server->config.regions, region->id);
        if (!error)
                request_answer_empty(request, 204);
        else
                request_problem(request, error, "%s",
                                error == FERRY_E_REGION_IN_USE ? "An operation or a content request uses it"
                                                               : "There is no region of this id");
        region_unref(region);
}
