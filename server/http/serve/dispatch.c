/* SPDX-License-Identifier: Apache-2.0 */
#include "serve_internal.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <xxhash.h>

#include <ferry/error.h>
#include <ferry/json.h>

#include "base/clock.h"
#include "base/util.h"

/*
 * From libmicrohttpd's access handler to the endpoint. libmicrohttpd calls dispatch_call() several times for a request:
 * with its head, with each piece of its body, at its end, and again after it was parked. begin() refuses whatever the
 * head allows to refuse; end() calls the handler, or goes on with what was parked.
 *
 * Thread: that of the connection's shard. The routes are a table that was handed down, and pure to search.
 */

/* ---- routes ---- */

/* Whether a path matches a route's. *ret_id: the text in place of {id}, not terminated; NULL = the route has none. */
static bool path_matches(const char *form, const char *path, const char **ret_id, size_t *ret_length)
{
        size_t same = 0, length;

        *ret_id = NULL;
        *ret_length = 0;
        while (form[same] && form[same] != '{' && form[same] == path[same])
                same++;
        if (form[same] != '{')
                return !form[same] && !path[same];
        length = strcspn(path + same, "/");
        if (!length || strcmp(form + same + strlen("{id}"), path + same + length) != 0)
                return false;
        *ret_id = path + same;
        *ret_length = length;
        return true;
}

/* Whether the path has the form of the row, in a search from the first row on. *literal: whether an earlier row has
 * this very path, so that no part of it is an id. */
static bool row_matches(const struct http_route *row, const char *path, bool *literal, const char **ret_id,
                        size_t *ret_length)
{
        if (!path_matches(row->path, path, ret_id, ret_length) || (*literal && *ret_id))
                return false;
        *literal |= !*ret_id;
        return true;
}

const struct http_route *route_find(const struct http_routes *routes, const char *method, const char *path,
                                    char id[FERRY_ID_TEXT_SIZE])
{
        const char *start;
        bool literal = false;
        size_t length;

        id[0] = '\0';
        if (!strcmp(method, "HEAD"))
                method = "GET";
        for (size_t i = 0; i < routes->n; i++) {
                if (!row_matches(&routes->rows[i], path, &literal, &start, &length) ||
                    strcmp(method, routes->rows[i].method) != 0)
                        continue;
                if (length < FERRY_ID_TEXT_SIZE) {
                        if (length)
                                memcpy(id, start, length);
                        id[length] = '\0';
                }
                return &routes->rows[i];
        }
        return NULL;
}

bool route_allow(const struct http_routes *routes, const char *path, char *allow, size_t size)
{
        const char *start;
        bool literal = false;
        size_t length, used = 0;

        for (size_t i = 0; i < routes->n && used < size; i++) {
                if (!row_matches(&routes->rows[i], path, &literal, &start, &length))
                        continue;
                used += (size_t)snprintf(allow + used, size - used, "%s%s%s", used ? ", " : "", routes->rows[i].method,
                                         strcmp(routes->rows[i].method, "GET") ? "" : ", HEAD");
        }
        return used > 0;
}

/* ---- requests ---- */

struct header_context {
        struct http_request *request;
        struct head_parts parts;
};

/* libmicrohttpd's callback for each header. */
static enum MHD_Result take_header(void *context, enum MHD_ValueKind kind, const char *name, size_t name_size,
                                   const char *value, size_t value_size)
{
        struct header_context *headers = context;

        headers_add(&headers->request->headers, name, value ? value : "", value_size);
        if (headers->request->server->watch_heads)
                head_parts_add(&headers->parts, name, value ? value : "");
        return MHD_YES;
}

static void read_headers(struct http_request *request)
{
        struct header_context context = { .request = request };

        head_parts_begin(&context.parts, request->target_end, request->version);
        MHD_get_connection_values_n(request->connection->mhd, MHD_HEADER_KIND, take_header, &context);
        if (!request->server->watch_heads)
                return;
        const union MHD_ConnectionInfo *size =
                MHD_get_connection_info(request->connection->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
        request->head_fault = !size || !head_parts_end(&context.parts, request->method + size->header_size);
}

struct query_context {
        struct http_request *request;
        char detail[QUERY_DETAIL_SIZE];
};

static enum MHD_Result take_parameter(void *context, enum MHD_ValueKind kind, const char *name, size_t name_size,
                                      const char *value, size_t value_size)
{
        struct query_context *query = context;
        struct http_request *request = query->request;

        return query_add(&request->query, request->route->parameters, name, value, value_size, query->detail) ? MHD_YES
                                                                                                              : MHD_NO;
}

/* Parses the query parameters that the route takes. false: answered. */
static bool read_query(struct http_request *request)
{
        struct query_context context = { .request = request };

        MHD_get_connection_values_n(request->connection->mhd, MHD_GET_ARGUMENT_KIND, take_parameter, &context);
        if (!*context.detail)
                return true;
        request_problem(request, FERRY_E_INVALID_PARAMETER, "%s", context.detail);
        return false;
}

/* The client's Request-Id if it is valid, else one of ours. */
static void name_request(struct http_request *request)
{
        if (request->headers.request_id && headers_request_id_valid(request->headers.request_id))
                snprintf(request->id, sizeof(request->id), "%s", request->headers.request_id);
        else
                ferry_id_format("req_", server_next_request_id(request->server), request->id);
}

/* Finds the endpoint. false: answered with 404, or with 405 and the methods that the path has. */
static bool find_route(struct http_request *request)
{
        const struct http_routes *routes = &request->server->config.routes;
        char allow[64];

        request->route =
                request->slash_hidden ? NULL : route_find(routes, request->method, request->path, request->resource_id);
        if (request->route)
                return true;
        if (!request->slash_hidden && route_allow(routes, request->path, allow, sizeof(allow))) {
                request_header(request, "Allow", "%s", allow);
                request_problem(request, FERRY_E_METHOD_NOT_ALLOWED, "Allowed: %s", allow);
        } else {
                request_problem(request, FERRY_E_NOT_FOUND, "No resource at \"%.64s\"", request->path);
        }
        return false;
}

/* Names the header, and how curl sends it: with -d alone it says that the body is a form. */
static void refuse_type(struct http_request *request, const char *type)
{
        const char *given = request->headers.content_type;

        request_problem(request, FERRY_E_UNSUPPORTED_MEDIA_TYPE,
                        "The header Content-Type %s%.64s%s: send it as curl -H 'Content-Type: %s' does",
                        given ? "is \"" : "is missing", given ?: "", given ? "\"" : "", type);
}

/* Checks the headers of the body against the route. false: answered. */
static bool check_body(struct http_request *request)
{
        const struct http_headers *headers = &request->headers;
        bool some = request_has_body(request);

        if (some && headers->content_encoding && strcasecmp(headers->content_encoding, "identity")) {
                request_header(request, "Accept-Encoding", "identity");
                request_problem(request, FERRY_E_UNSUPPORTED_MEDIA_TYPE, "Content-Encoding \"%.32s\" is not supported",
                                headers->content_encoding);
                return false;
        }
        switch (request->route->body) {
        case HTTP_BODY_STREAM:
                if (!some || !headers->content_type ||
                    headers_media_type_is(headers->content_type, "application/octet-stream") ||
                    headers_media_type_is(headers->content_type, "application/x-www-form-urlencoded"))
                        return true;
                refuse_type(request, "application/octet-stream");
                return false;
        case HTTP_BODY_JSON:
        case HTTP_BODY_OPTIONAL_JSON:
                if (some && !headers_media_type_is(headers->content_type, "application/json")) {
                        refuse_type(request, "application/json");
                        return false;
                }
                break;
        case HTTP_BODY_NONE:
                break;
        }
        if (request->content_length <= request->server->config.limits.body_max)
                return true;
        request_problem(request, FERRY_E_TOO_LARGE, "The body may have at most %llu bytes",
                        (unsigned long long)request->server->config.limits.body_max);
        return false;
}

/* A draining worker refuses POST and PUT, but for routes that only end what runs. */
static bool admit_method(struct http_request *request)
{
        bool adds = (!strcmp(request->method, "POST") || !strcmp(request->method, "PUT")) &&
                    !request->route->while_draining;

        if (!adds || !atomic_load(&request->server->draining))
                return true;
        request_problem(request, FERRY_E_DRAINING, PROBLEM_DRAINING);
        return false;
}

/* A target in absolute form: its authority replaces Host (RFC 9112, 3.2.2). Whether it was one. */
static bool take_authority(struct http_request *request, char authority[ADDRESS_SIZE])
{
        static const char *const schemes[] = { "http://", "https://" };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(schemes); i++) {
                if (strncasecmp(request->path, schemes[i], strlen(schemes[i])))
                        continue;
                const char *start = request->path + strlen(schemes[i]);
                size_t length = strcspn(start, "/");
                request->path = start[length] ? start + length : "/";
                (void)snprintf(authority, ADDRESS_SIZE, "%.*s", (int)(length < ADDRESS_SIZE ? length : 0), start);
                return true;
        }
        return false;
}

/* The first call: the headers have arrived, the body has not. Refuses whatever the headers allow to refuse. */
static void begin(struct http_request *request)
{
        read_headers(request);
        request_note(request);
        name_request(request);
        request->chunked = request->headers.transfer_encoding != NULL;
        request->must_close = request->chunked && request->server->watch_heads;
        if (!request->chunked && request->headers.content_length)
                (void)headers_parse_length(request->headers.content_length, &request->content_length);

        char authority[ADDRESS_SIZE];
        const char *host = request->headers.host;
        if (take_authority(request, authority))
                request->headers.host = authority;
        bool admitted = guard_admit(request);
        request->headers.host = host;
        if (!admitted || !find_route(request) || !guard_authenticate(request) || !admit_method(request) ||
            !read_query(request) || !check_body(request))
                return;
        if (request->route->body == HTTP_BODY_STREAM)
                request->route->handler(request);
}

/* Takes a piece of the body. false: a refused client has sent more than REQUEST_DISCARD_MAX. */
static bool take_data(struct http_request *request, const char *data, size_t size)
{
        if (request->answered) {
                request->discarded += size;
                return request->discarded <= REQUEST_DISCARD_MAX;
        }
        if (request->route->body == HTTP_BODY_STREAM)
                request->route->take(request, data, size);
        else
                request_append_body(request, data, size);
        return true;
}

static bool takes_json(const struct http_route *route)
{
        return route->body == HTTP_BODY_JSON || route->body == HTTP_BODY_OPTIONAL_JSON;
}

/* Takes the body of a JSON route. false: the request has been answered. */
static bool take_body(struct http_request *request)
{
        if (!request->body.size) {
                if (request->route->body == HTTP_BODY_OPTIONAL_JSON)
                        return true;
                request_problem_at(request, FERRY_E_INVALID_JSON, "", "The request needs a JSON body");
                return false;
        }
        if (request->headers.idempotency_key)
                request->idempotency_hash =
                        XXH3_64bits_withSeed(request->body.data, request->body.size, request->target_hash);
        return request_parse_body(request);
}

/* The last call: the request has arrived whole, or was parked and is resumed. */
static void end(struct http_request *request)
{
        if (request->deferred) {
                struct MHD_Response *response = FERRY_STEAL(request->deferred);
                if (MHD_queue_response(request->connection->mhd, request->status, response) != MHD_YES)
                        request->broken = true;
                MHD_destroy_response(response);
                return;
        }
        if (request->answered)
                return;
        if (request->resume) {
                void (*resume)(struct http_request *) = request->resume;
                request_unpark(request);
                resume(request);
        } else if (!takes_json(request->route) || take_body(request)) {
                request->route->handler(request);
                request_drop_json(request);
        }
        if (!request->resume)
                replay_abort(request); /* now: the key is borrowed from the connection until the answer is queued */
        if (!request->answered && !request->resume)
                request->broken = true;
}

/* MHD_NO has libmicrohttpd close the connection without an answer. */
enum MHD_Result dispatch_call(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *data, size_t *size, void **state)
{
        struct http_request *request = *state;

        if (!request)
                return MHD_NO;
        struct http_connection *ours = request->connection;
        ours->shard->active = true;
        if (request->phase == REQUEST_NEW) {
                request->phase = REQUEST_BEGIN;
                request->path = url;
                request->method = method;
                request->version = version;
                users_enter(&request->server->users);
                begin(request);
        } else if (*size) {
                request->phase = REQUEST_DATA;
                if (request->resume) { /* was parked: its client was not slow meanwhile */
                        request_unpark(request);
                        ours->since_us = clock_now_us();
                }
                if (!take_data(request, data, *size))
                        request->broken = true;
                if (request->resume) /* parked: the same bytes come again */
                        return MHD_YES;
                ours->body_size += *size;
                *size = 0;
                connection_repeat_end(ours);
        } else {
                request->phase = REQUEST_END;
                end(request);
        }
        return request->broken ? MHD_NO : MHD_YES;
}

void *dispatch_target(void *context, const char *target, struct MHD_Connection *connection)
{
        struct http_connection *ours = connection_of(connection);

        if (!ours)
                return NULL;
        connection_repeat_end(ours);
        ours->shard->active = true;
        return connection_begin_request(ours, target);
}
