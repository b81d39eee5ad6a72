/* SPDX-License-Identifier: Apache-2.0 */
#include "connection.h"

#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/util.h"
#include "http_internal.h"

static void connection_unref(struct http_connection *connection)
{
        struct http_waits *waits = &connection->server->waits;

        if (atomic_fetch_sub(&connection->references, 1) != 1)
                return;
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

static struct http_connection *connection_new(struct http_server *server, int fd)
{
        struct http_connection *connection = calloc(1, sizeof(*connection));

        if (!connection)
                return NULL;
        connection->server = server;
        connection->fd = fd;
        connection->watch.fired = on_end;
        atomic_init(&connection->references, 2);
        waits_retain(&server->waits);
        /* Without a watch an end may be seen late. */
        if (loop_watch_start(server->config.loop, &connection->watch, fd, EPOLLRDHUP) < 0)
                connection_unref(connection);
        return connection;
}

/* The watch ends before the descriptor can be closed and its number be another connection's. */
static void connection_close(struct http_connection *connection)
{
        struct http_server *server = connection->server;

        pthread_mutex_lock(&server->waits.lock);
        connection->fd = -1;
        pthread_mutex_unlock(&server->waits.lock);
        if (loop_watch_stop(server->config.loop, &connection->watch))
                connection_unref(connection);
        connection_unref(connection);
}

void connection_notify(void *context, struct MHD_Connection *connection, void **socket_context,
                       enum MHD_ConnectionNotificationCode code)
{
        struct http_listener *listener = context;
        struct http_connection *ours = *socket_context;

        if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
                *socket_context = NULL;
                if (ours)
                        connection_close(ours);
                return;
        }
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        *socket_context = info ? connection_new(listener->server, info->connect_fd) : NULL;
}

struct http_connection *connection_of(struct MHD_Connection *connection)
{
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

        return info ? info->socket_context : NULL;
}

void connection_repeat_end(const struct http_connection *connection)
{
        if (connection && atomic_load(&connection->ended))
                (void)shutdown(connection->fd, SHUT_RD);
}
