/* SPDX-License-Identifier: Apache-2.0 */
#include "connection.h"

#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/util.h"
#include "http_internal.h"
#include "request.h"
#include "shard.h"

static void connection_unref(struct http_connection *connection)
{
        struct http_waits *waits = &connection->server->waits;

        if (atomic_fetch_sub(&connection->references, 1) != 1)
                return;
        free(connection->origin);
        free(connection);
        waits_release(waits);
}

static void on_end(struct loop_watch *watch, uint32_t events)
{
        struct http_connection *connection = FERRY_CONTAINER_OF(watch, struct http_connection, watch);
        struct http_waits *waits = &connection->server->waits;
        struct http_park *park;

        atomic_store(&connection->ended, true);
        pthread_mutex_lock(&waits->lock);
        if (connection->fd >= 0)
                (void)shutdown(connection->fd, SHUT_RD);
        park = connection->park ? park_ref(connection->park) : NULL;
        pthread_mutex_unlock(&waits->lock);
        if (park)
                park_end(park);
        connection_unref(connection);
}

struct http_connection *connection_new(struct http_shard *shard, struct http_listener *listener, int fd)
{
        struct http_connection *connection = calloc(1, sizeof(*connection));

        if (!connection)
                return NULL;
        connection->server = shard->server;
        connection->shard = shard;
        connection->listener = listener;
        connection->fd = fd;
        connection->added_us = clock_now_us();
        connection->watch.fired = on_end;
        atomic_init(&connection->references, 1);
        waits_retain(&shard->server->waits);
        return connection;
}

void connection_open(struct http_connection *connection)
{
        atomic_fetch_add(&connection->references, 1);
        /* Without a watch an end may be seen late. */
        if (loop_watch_start(connection->server->config.loop, &connection->watch, connection->fd, EPOLLRDHUP) < 0)
                connection_unref(connection);
}

/* The watch ends before the descriptor can be closed and its number be another connection's. */
void connection_close(struct http_connection *connection)
{
        struct http_server *server = connection->server;

        pthread_mutex_lock(&server->waits.lock);
        connection->fd = -1;
        pthread_mutex_unlock(&server->waits.lock);
        if (loop_watch_stop(server->config.loop, &connection->watch))
                connection_unref(connection);
        connection_unref(connection);
}

void connection_end_request(struct http_connection *connection)
{
        struct http_request *request = FERRY_STEAL(connection->request);

        if (!request)
                return;
        bool entered = request->phase != REQUEST_NEW;
        request_free(request);
        if (entered)
                waits_leave(&connection->server->waits);
}

struct http_connection *connection_of(struct MHD_Connection *connection)
{
        return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

void connection_repeat_end(const struct http_connection *connection)
{
        if (atomic_load(&connection->ended))
                (void)shutdown(connection->fd, SHUT_RD);
}
