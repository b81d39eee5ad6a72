/* SPDX-License-Identifier: Apache-2.0 */
#include "body.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>

#include "base/metrics.h"
#include "base/util.h"
#include "http_internal.h"

enum {
        ROOM_FIRST = 1024,
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

static int grow(struct http_server *server, struct body *body, size_t wanted)
{
        size_t capacity = body->capacity ? body->capacity : ROOM_FIRST, more;
        char *grown;

        while (capacity < wanted)
                capacity *= 2;
        more = charge(capacity) - charge(body->capacity);
        if (!take_room(server, more))
                return FERRY_E_LIMIT_REACHED;
        grown = memory_regrow(body->text, body->size, capacity);
        if (!grown) {
                give_room(server, more);
                return -ENOMEM;
        }
        body->text = grown;
        body->capacity = capacity;
        return 0;
}

int body_append(struct http_server *server, struct body *body, const char *data, size_t size)
{
        size_t wanted;
        int r;

        if (__builtin_add_overflow(body->size, size, &wanted) || wanted > server->config.limits.body_max)
                return FERRY_E_TOO_LARGE;
        if (wanted > body->capacity) {
                r = grow(server, body, wanted);
                if (r)
                        return r;
        }
        memcpy(body->text + body->size, data, size);
        body->size = wanted;
        return 0;
}

void body_drop(struct http_server *server, struct body *body)
{
        if (!body->text)
                return;
        give_room(server, charge(body->capacity));
        explicit_bzero(body->text, body->size); /* it may have held a notification key */
        free(body->text);
        body->text = NULL;
}
