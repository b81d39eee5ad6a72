/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include <ferry/json_write.h>

#include "base/util.h"
#include "handlers.h"
#include "http_internal.h"
#include "memory/region.h"
#include "page.h"
#include "region_json.h"
#include "request.h"

void list_regions(struct http_request *request)
{
        size_t limit = page_limit(request);
        uint64_t cursor = page_cursor(request);
        FERRY_CLEANUP(cleanup_free) struct region **page = calloc(limit, sizeof(struct region *));
        struct ferry_json_writer writer = { 0 };

        if (!page) {
                request_problem(request, -ENOMEM, NULL);
                return;
        }
        size_t n = region_page(request->server->config.regions, &cursor, page, limit);
        page_begin(&writer, "regions");
        for (size_t i = 0; i < n; i++) {
                region_json_write(&writer, page[i]);
                region_unref(page[i]);
        }
        page_end(&writer, request, cursor);
        request_answer_json(request, 200, &writer);
}
