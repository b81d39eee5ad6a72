/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/util.h"
#include "handlers.h"
#include "http_internal.h"
#include "json_build.h"
#include "memory/region.h"
#include "page.h"
#include "region_json.h"
#include "request.h"

void list_regions(struct http_request *request)
{
        size_t limit = page_limit(request);
        uint64_t cursor = page_cursor(request);
        FERRY_CLEANUP(cleanup_free) struct region **page = calloc(limit, sizeof(struct region *));
        struct json_object *list = json_object_new_array();
        bool ok = page && list;

        size_t n = page ? region_page(request->server->config.regions, &cursor, page, limit) : 0;
        for (size_t i = 0; i < n; i++) {
                ok = ok && json_append(list, region_json_new(page[i]));
                region_unref(page[i]);
        }
        page_answer(request, "regions", json_finish(list, ok), cursor);
}
