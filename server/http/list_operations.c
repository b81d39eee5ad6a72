/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include <ferry/json_write.h>

#include "base/util.h"
#include "handlers.h"
#include "http_internal.h"
#include "operation_json.h"
#include "operations/operations.h"
#include "page.h"
#include "request.h"

/* The value of a filter; -1 = any. */
static int filter(const struct http_request *request, enum http_parameter parameter)
{
        return query_has(&request->query, parameter) ? (int)request->query.values[parameter] : -1;
}

void list_operations(struct http_request *request)
{
        struct operation_store *store = request->server->config.operations;
        size_t limit = page_limit(request);
        uint64_t cursor = page_cursor(request);
        FERRY_CLEANUP(cleanup_free) struct operation **page = calloc(limit, sizeof(struct operation *));
        struct ferry_json_writer writer = { 0 };
        struct operation_view view;

        if (!page) {
                request_problem(request, -ENOMEM, NULL);
                return;
        }
        size_t n = operation_page(store, filter(request, HTTP_PARAMETER_KIND), filter(request, HTTP_PARAMETER_STATUS),
                                  &cursor, page, limit);
        page_begin(&writer, "operations");
        for (size_t i = 0; i < n; i++) {
                operation_look(store, page[i], &view);
                operation_json_write(&writer, &view);
                operation_unref(page[i]);
        }
        page_end(&writer, cursor);
        request_answer_json(request, 200, &writer);
}
