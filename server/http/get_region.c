/* SPDX-License-Identifier: Apache-2.0 */
#include "handlers.h"
#include "memory/region.h"
#include "region_json.h"
#include "request.h"

void get_region(struct http_request *request)
{
        struct region *region = request_find_region(request);

        if (!region)
                return;
        request_answer_json(request, 200, region_json_new(region));
        region_unref(region);
}
