/* SPDX-License-Identifier: Apache-2.0 */
#include "body.h"

#include <json-c/json.h>

#include <ferry/buffer.h>
#include <ferry/error.h>
#include <ferry/json.h>

#include "base/metrics.h"
#include "http_internal.h"

enum {
        ROOM_FREE = 8192, /* not counted: the number of connections bounds it, and short requests get through */
};

static size_t charge(size_t capacity)
{
        return capacity > ROOM_FREE ? capacity : 0;
}

static void give_room(struct http_server *server, size_t bytes)
{
        atomic_fetch_sub(&server->body_bytes, bytes);
        metric_add(server->bodies, -(int64_t)bytes);
}

static bool take_room(struct http_server *server, size_t bytes)
{
        metric_add(server->bodies, (int64_t)bytes);
        if (!bytes || atomic_fetch_add(&server->body_bytes, bytes) + bytes <= server->config.limits.bodies_max)
                return true;
        give_room(server, bytes);
        return false;
}

int body_append(struct http_server *server, struct ferry_buffer *body, const char *data, size_t size)
{
        const size_t more = charge(ferry_buffer_capacity(body, size)) - charge(body->capacity);
        int r;

        if (size > server->config.limits.body_max - body->size)
                return FERRY_E_TOO_LARGE;
        if (!take_room(server, more))
                return FERRY_E_LIMIT_REACHED;
        r = ferry_buffer_append(body, data, size, server->config.limits.body_max);
        if (r)
                give_room(server, more);
        return r;
}

void body_drop(struct http_server *server, struct ferry_buffer *body)
{
        give_room(server, charge(body->capacity));
        ferry_buffer_clear(body, true); /* it may have held a notification key */
}

int body_parse(struct http_server *server, const struct ferry_buffer *body, struct json_object **ret_json,
               size_t *ret_room, struct ferry_json_errors *errors)
{
        const size_t own = charge(body->capacity), room = own ? ferry_json_room(body->data, body->size) : 0;
        int r;

        if (room > server->config.limits.bodies_max - own) {
                ferry_json_complain(errors, FERRY_E_INVALID_JSON, "", FERRY_JSON_TOO_MANY);
                return FERRY_E_INVALID_JSON;
        }
        if (!take_room(server, room))
                return FERRY_E_LIMIT_REACHED;
        r = ferry_json_parse(body->data, body->size, ret_json, errors);
        if (r)
                give_room(server, room);
        else
                *ret_room = room;
        return r;
}

void body_drop_json(struct http_server *server, struct json_object *json, size_t room)
{
        json_object_put(json);
        give_room(server, room);
}
