/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/util.h"
#include "handlers.h"
#include "http_internal.h"
#include "json_build.h"
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
        struct json_object *list = json_object_new_array();
        struct operation_view view;
        bool ok = page && list;

        size_t n = page ? operation_page(store, filter(request, HTTP_PARAMETER_KIND),
                                         filter(request, HTTP_PARAMETER_STATUS), &cursor, page, limit)
                        : 0;
        for (size_t i = 0; i < n; i++) {
                operation_look(store, page[i], &view);
                ok = ok && json_append(list, operation_json_new(&view));
                operation_unref(page[i]);
        }
        page_answer(request, "operations", json_finish(list, ok), cursor);
}
