/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/json_write.h>

#include "handlers.h"
#include "memory/region.h"
#include "region_json.h"
#include "request.h"

void get_region(struct http_request *request)
{
        struct region *region = request_find_region(request);
        struct ferry_json_writer writer = { 0 };

        if (!region)
                return;
        region_json_write(&writer, region);
        request_answer_json(request, 200, &writer);
        region_unref(region);
}
