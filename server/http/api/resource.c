/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/json_write.h>

#include "request.h"

enum { PAGE_DEFAULT = 100 };

size_t page_limit(const struct http_request *request)
{
        uint64_t max = request->server->config.limits.page_max;

        uint64_t limit = PAGE_DEFAULT;

        if (query_has(&request->query, HTTP_PARAMETER_LIMIT))
                limit = query_value(&request->query, HTTP_PARAMETER_LIMIT);
        return (size_t)(limit < max ? limit : max);
}

uint64_t page_cursor(const struct http_request *request)
{
        return query_value(&request->query, HTTP_PARAMETER_AFTER);
}

void page_begin(struct ferry_json_writer *writer, const char *name)
{
        ferry_json_begin_object(writer);
        ferry_json_open_array(writer, name);
}

/* Left out when too long: next says the same. */
static void add_link(struct http_request *request, uint64_t cursor)
{
        char query[REQUEST_HEADERS_TEXT_SIZE];

        if (query_format_next(&request->query, cursor, query, sizeof(query)))
                request_header(request, "Link", "<%s?%s>; rel=\"next\"", request->route->path, query);
}

void page_end(struct ferry_json_writer *writer, struct http_request *request, uint64_t cursor)
{
        char next[QUERY_CURSOR_SIZE];

        ferry_json_end_array(writer);
        if (cursor) {
                query_format_cursor(cursor, next);
                ferry_json_add_string(writer, "next", next);
                add_link(request, cursor);
        }
        ferry_json_end_object(writer);
}
