/* SPDX-License-Identifier: Apache-2.0 */
#include "body.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>

#include "base/metrics.h"
#include "base/util.h"
#include "http_internal.h"
#include "request.h"

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

static int grow(struct http_request *request, size_t wanted)
{
        size_t capacity = request->body_capacity ? request->body_capacity : ROOM_FIRST, more;
        char *grown;

        while (capacity < wanted)
                capacity *= 2;
        more = charge(capacity) - charge(request->body_capacity);
        if (!take_room(request->server, more))
                return FERRY_E_LIMIT_REACHED;
        grown = memory_regrow(request->body, request->body_size, capacity);
        if (!grown) {
                give_room(request->server, more);
                return -ENOMEM;
        }
        request->body = grown;
        request->body_capacity = capacity;
        return 0;
}

int body_append(struct http_request *request, const char *data, size_t size)
{
        size_t wanted;
        int r;

        if (__builtin_add_overflow(request->body_size, size, &wanted) ||
            wanted > request->server->config.limits.body_max)
                return FERRY_E_TOO_LARGE;
        if (wanted > request->body_capacity) {
                r = grow(request, wanted);
                if (r)
                        return r;
        }
        memcpy(request->body + request->body_size, data, size);
        request->body_size = wanted;
        return 0;
}

void body_drop(struct http_request *request)
{
        if (!request->body)
                return;
        give_room(request->server, charge(request->body_capacity));
        explicit_bzero(request->body, request->body_size); /* it may have held a notification key */
        free(request->body);
        request->body = NULL;
}
