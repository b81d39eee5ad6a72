/* SPDX-License-Identifier: Apache-2.0 */
#include "serve_internal.h"

#include <assert.h>
#include <errno.h>
#include <json-c/json.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include <ferry/buffer.h>
#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/json_write.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/util.h"
#include "memory/region.h"
#include "operations/operations.h"

/*
 * A request, from its target to its end: its JSON body, its state, its line in the log. It is made before its headers
 * are known, and freed when its answer was sent or its connection has gone (connection_end_request). bodies_max bounds
 * the bodies of all requests together: room is taken before the memory is.
 *
 * Thread: that of the connection.
 */

/* ---- the body ---- */

enum {
        ROOM_FREE = 8192, /* not counted: the number of connections bounds it, and short requests get through */
};

/* The bytes of a body that count against bodies_max. */
static size_t charge(size_t capacity)
{
        return capacity > ROOM_FREE ? capacity : 0;
}

static void give_room(struct http_server *server, size_t bytes)
{
        atomic_fetch_sub(&server->body_bytes, bytes);
        metric_add(server->bodies, -(int64_t)bytes);
}

/* Takes room for so many bytes. Returns false, and takes none, when all bodies would exceed bodies_max. */
static bool take_room(struct http_server *server, size_t bytes)
{
        metric_add(server->bodies, (int64_t)bytes);
        if (!bytes || atomic_fetch_add(&server->body_bytes, bytes) + bytes <= server->config.limits.bodies_max)
                return true;
        give_room(server, bytes);
        return false;
}

static void refuse_room(struct http_request *request)
{
        request_problem(request, FERRY_E_LIMIT_REACHED, "bodies_max is %llu, which other requests need",
                        (unsigned long long)request->server->config.limits.bodies_max);
}

void request_append_body(struct http_request *request, const char *data, size_t size)
{
        struct ferry_buffer *body = &request->body;
        const size_t more = charge(ferry_buffer_capacity(body, size)) - charge(body->capacity);
        const uint64_t max = request->server->config.limits.body_max;
        int r;

        if (size > max - body->size) {
                request_problem(request, FERRY_E_TOO_LARGE, "The body may have at most %llu bytes",
                                (unsigned long long)max);
                return;
        }
        if (!take_room(request->server, more)) {
                refuse_room(request);
                return;
        }
        r = ferry_buffer_append(body, data, size, max);
        if (!r)
                return;
        give_room(request->server, more);
        request_problem(request, r, NULL);
}

static void drop_body(struct http_request *request)
{
        give_room(request->server, charge(request->body.capacity));
        ferry_buffer_clear(&request->body, true); /* it may have held a notification key */
}

bool request_parse_body(struct http_request *request)
{
        const struct ferry_buffer *body = &request->body;
        const size_t own = charge(body->capacity), room = own ? ferry_json_room(body->data, body->size) : 0;
        struct ferry_json_errors errors = { 0 };
        int r = FERRY_E_INVALID_JSON;

        if (room > request->server->config.limits.bodies_max - own) {
                ferry_json_complain(&errors, r, "", FERRY_JSON_TOO_MANY);
        } else if (!take_room(request->server, room)) {
                refuse_room(request);
                return false;
        } else {
                request->json_room = room;
                r = ferry_json_parse(body->data, body->size, &request->json, &errors);
        }
        if (!r)
                return true;
        request_drop_json(request);
        if (r < 0)
                request_problem(request, r, NULL);
        else
                request_problem_body(request, &errors);
        return false;
}

bool request_decode(struct http_request *request, const struct ferry_json_field *fields, size_t n, void *target)
{
        struct ferry_json_errors errors = { 0 };

        if (ferry_json_decode(request->json, fields, n, target, "", &errors))
                return true;
        request_problem_body(request, &errors);
        return false;
}

void request_drop_json(struct http_request *request)
{
        json_object_put(FERRY_STEAL(request->json));
        give_room(request->server, request->json_room);
        request->json_room = 0;
}

/* ---- life ---- */

struct request_note {
        uint64_t started_us;
        char method[16]; /* cut short: no known method is longer */
        char traceparent[HEADERS_TRACEPARENT_SIZE];
};

struct http_request *request_new(struct http_server *server, struct http_connection *connection, const char *target)
{
        /* Not calloc: before glibc 2.41 it does not use the thread's cache. */
        struct http_request *request = malloc(sizeof(*request));

        if (!request)
                return NULL;
        *request = (struct http_request){ .server = server, .connection = connection, .active_us = clock_now_us() };
        if (log_enabled(LOG_DEBUG) && (request->note = calloc(1, sizeof(*request->note))))
                request->note->started_us = request->active_us;
        request->target_hash = XXH3_64bits(target, strlen(target));
        request->target_fault = strstr(target, "%00") != NULL;
        request->target_end = target + strlen(target);
        const char *slash = strcasestr(target, "%2f"), *query = strchr(target, '?');
        request->slash_hidden = slash && (!query || slash < query);
        return request;
}

void request_note(struct http_request *request)
{
        struct request_note *note = request->note;

        if (!note)
                return;
        (void)snprintf(note->method, sizeof(note->method), "%s", request->method);
        if (request->headers.traceparent && headers_traceparent_valid(request->headers.traceparent))
                (void)snprintf(note->traceparent, sizeof(note->traceparent), "%s", request->headers.traceparent);
}

static void log_request(const struct http_request *request)
{
        const struct request_note *note = request->note;

        if (request->phase == REQUEST_NEW || !note)
                return;
        const char *traceparent = *note->traceparent ? note->traceparent : NULL;
        log_event(LOG_DEBUG, "request", LOG_S("method", note->method),
                  LOG_S("route", request->route ? request->route->operation_id : "none"),
                  LOG_U("status", request->status), LOG_U("duration_us", clock_now_us() - note->started_us),
                  LOG_S("request_id", request->id), LOG_S("traceparent", traceparent));
}

void request_park(struct http_request *request, void (*resume)(struct http_request *))
{
        request->resume = resume;
        request->active_us = clock_now_us() - request->active_us;
}

void request_unpark(struct http_request *request)
{
        request->resume = NULL;
        request->active_us = clock_now_us() - request->active_us;
}

struct http_request *request_free(struct http_request *request)
{
        if (!request)
                return NULL;
        log_request(request);
        free(request->note);
        if (request->deferred)
                MHD_destroy_response(request->deferred);
        drop_body(request);
        request_drop(request);
        headers_clear(&request->headers);
        operation_unref(request->operation);
        free(request);
        return NULL;
}

void request_keep(struct http_request *request, void *state, void (*clean)(struct http_request *request))
{
        assert(!request->state);
        request->state = state;
        request->clean = clean;
}

void request_drop(struct http_request *request)
{
        if (request->state)
                request->clean(request);
        request->state = NULL;
}
