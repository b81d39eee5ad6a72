/* SPDX-License-Identifier: Apache-2.0 */
#include "page.h"

#include "http_internal.h"
#include "json_build.h"
#include "request.h"

enum { PAGE_DEFAULT = 100 };

size_t page_limit(const struct http_request *request)
{
        uint64_t max = request->server->config.limits.page_max;

        if (query_has(&request->query, HTTP_PARAMETER_LIMIT))
                return (size_t)request->query.values[HTTP_PARAMETER_LIMIT];
        return max < PAGE_DEFAULT ? (size_t)max : PAGE_DEFAULT;
}

uint64_t page_cursor(const struct http_request *request)
{
        return request->query.values[HTTP_PARAMETER_AFTER];
}

void page_answer(struct http_request *request, const char *name, struct json_object *list, uint64_t cursor)
{
        struct json_object *object = json_object_new_object();
        char next[QUERY_CURSOR_SIZE];

        bool ok = json_add(object, name, list);
        if (cursor) {
                query_format_cursor(cursor, next);
                ok = ok && json_add_string(object, "next", next);
        }
        request_answer_json(request, 200, json_finish(object, ok));
}
