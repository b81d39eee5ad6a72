/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_CONNECTION_H
#define HTTP_CONNECTION_H

#include <microhttpd.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/loop.h"

struct http_park;
struct http_server;

/*
 * What we know of a client's connection beside libmicrohttpd. The loop watches it for the client's end, which
 * libmicrohttpd can miss: 0.9.75 reads once for each edge of its epoll, so an end that came together with the last
 * bytes, or while the connection was suspended, would only be seen by the idle time-out. Shutting down once more what
 * the client has shut down already makes a new edge.
 *
 * Made and closed by libmicrohttpd's thread of the connection. Counted references: that thread's, and the watch's while
 * it is armed.
 */
struct http_connection {
        struct http_server *server;
        struct loop_watch watch;
        atomic_uint references;
        atomic_bool ended; /* the client sends nothing more */
        /* waits.lock: */
        int fd;                 /* -1 = closed */
        struct http_park *park; /* the request that is parked on it; NULL = none */
};

/* MHD_NotifyConnectionCallback; context is the listener. The connection stands in libmicrohttpd's socket context. */
void connection_notify(void *context, struct MHD_Connection *connection, void **socket_context,
                       enum MHD_ConnectionNotificationCode code);

/* Ours of libmicrohttpd's; NULL when memory was short at its start. Only from its handlers. */
struct http_connection *connection_of(struct MHD_Connection *connection);

/* After bytes were read: has an end that libmicrohttpd may have missed reported again. Takes NULL. */
void connection_repeat_end(const struct http_connection *connection);

#endif
