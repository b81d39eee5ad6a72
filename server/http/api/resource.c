/* SPDX-License-Identifier: Apache-2.0 */
#include "api_internal.h"

#include <stdio.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/json_write.h>

#include "memory/region.h"

/*
 * Functions that endpoints share: the resource that a path names, its preconditions, how long a client wants to wait,
 * and pages of lists. A function that answers says so by returning NULL or false. Thread: that of the request's
 * connection.
 */

/* ---- the resource that a path names ---- */

/* Checks If-Match and, for all but GET, If-None-Match. etag: "" = the resource has none. false: answered with 412. */
static bool check_preconditions(struct http_request *request, const char *etag)
{
        const struct http_headers *headers = &request->headers;

        if (headers->if_match && !headers_etag_matches(headers->if_match, etag, false)) {
                request_problem(request, FERRY_E_PRECONDITION_FAILED,
                                *etag ? "The ETag is %s" : "The resource has no ETag%s", etag);
                return false;
        }
        if (headers->if_none_match && strcmp(request->route->method, "GET") != 0 &&
            headers_etag_matches(headers->if_none_match, etag, true)) {
                request_problem(request, FERRY_E_PRECONDITION_FAILED, "If-None-Match names the current ETag");
                return false;
        }
        return true;
}

bool request_check_operation(struct http_request *request)
{
        char digits[FERRY_UINT_TEXT_SIZE], etag[FERRY_UINT_TEXT_SIZE + sizeof("\"r\"")];
        struct operation_view view;

        if (!request->headers.if_match && !request->headers.if_none_match)
                return true;
        operation_get_view(request->server->config.operations, request->operation, &view);
        (void)ferry_uint_format(view.revision, digits);
        (void)snprintf(etag, sizeof(etag), "\"r%s\"", digits);
        return check_preconditions(request, etag);
}

struct operation *request_look_up_operation(struct http_request *request)
{
        uint64_t id;

        if (ferry_id_parse("op_", request->resource_id, &id)) {
                switch (operation_find(request->server->config.operations, id, &request->operation)) {
                case OPERATION_FOUND:
                        return request->operation;
                case OPERATION_GONE:
                        request_problem(request, FERRY_E_GONE, OPERATION_GONE_DETAIL);
                        return NULL;
                case OPERATION_UNKNOWN:
                        break;
                }
        }
        request_problem(request, FERRY_E_NOT_FOUND, "No operation \"%s\"", request->resource_id);
        return NULL;
}

struct operation *request_find_operation(struct http_request *request)
{
        return request_look_up_operation(request) && request_check_operation(request) ? request->operation : NULL;
}

struct region *request_find_region(struct http_request *request)
{
        struct region *region = NULL;
        uint64_t id;

        if (ferry_id_parse("rgn_", request->resource_id, &id))
                region = region_find(request->server->config.regions, id);
        if (!region)
                request_problem(request, FERRY_E_NOT_FOUND, "No region \"%s\"", request->resource_id);
        else if (!check_preconditions(request, ""))
                region = region_unref(region);
        return region;
}

struct region *request_stream_region(struct http_request *request)
{
        struct region *region = request_find_region(request);
        int error;

        if (!region)
                return NULL;
        error = region_stream_begin(region);
        if (error == FERRY_E_REGION_NOT_READY)
                request_problem(request, error,
                                region_state(region) == REGION_FAILED ? PROBLEM_UNMADE : PROBLEM_PREPARING);
        else if (error)
                request_problem(request, error, "No region \"%s\"", request->resource_id);
        region_unref(region);
        return error ? NULL : region;
}

bool request_waits(const struct http_request *request)
{
        if (query_has(&request->query, HTTP_PARAMETER_WAIT_MS))
                return query_value(&request->query, HTTP_PARAMETER_WAIT_MS) > 0;
        return request->headers.prefer_wait && request->headers.prefer_wait_s > 0;
}

uint64_t request_wait_ms(struct http_request *request)
{
        uint64_t cap = request->server->config.limits.wait_ms_max, wait_ms;
        char seconds[FERRY_UINT_TEXT_SIZE];

        if (query_has(&request->query, HTTP_PARAMETER_WAIT_MS)) {
                wait_ms = query_value(&request->query, HTTP_PARAMETER_WAIT_MS);
                return wait_ms < cap ? wait_ms : cap;
        }
        if (!request->headers.prefer_wait)
                return 0;
        if (__builtin_mul_overflow(request->headers.prefer_wait_s, 1000, &wait_ms) || wait_ms > cap)
                wait_ms = cap;
        (void)ferry_uint_format(wait_ms / 1000, seconds);
        request_header_text(request, "Preference-Applied", "wait=", seconds);
        return wait_ms;
}

void request_answer_operation(struct http_request *request, unsigned status)
{
        struct ferry_json_writer writer = { 0 };
        struct operation_view view;
        const char *etag;

        operation_get_view(request->server->config.operations, request->operation, &view);
        if (view.deleted) {
                request_problem(request, FERRY_E_GONE, "The operation was deleted");
                return;
        }
        etag = request_etag(request, view.revision);
        /* Its headers are those of the 200, Content-Length among them. */
        if (status == 200 && request->headers.if_none_match && !strcmp(request->route->method, "GET") &&
            headers_etag_matches(request->headers.if_none_match, etag, true))
                status = 304;
        operation_json_write(&writer, &view);
        request_answer_json(request, status, &writer);
}

/* ---- pages of lists ---- */

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
