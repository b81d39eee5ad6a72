/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_CONNECTION_H
#define HTTP_CONNECTION_H

#include <microhttpd.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "http_internal.h"

struct http_arrival;
struct http_quota;
struct http_shard;
struct metadata_origin;

enum {
        CONNECTION_BODY_US = 20 * 1000000, /* time for a body, plus its bytes at CONNECTION_RATE */
        CONNECTION_READ_US = 60 * 1000000, /* time for a client that reads its answer slowly, likewise */
        CONNECTION_RATE = 500,             /* least bytes a second */
        CONNECTION_DEAD_S = 5,             /* for the host of a transfer's peer to acknowledge anything */
};

/*
 * Our part of a client's connection, beside libmicrohttpd's. The loop watches for the client's end (EPOLLRDHUP), which
 * libmicrohttpd can miss: 0.9.75 reads once for each edge of its epoll, so that an end that came together with the last
 * bytes, or while the connection was suspended, would be seen by the idle timeout only. Another shutdown(2) of the
 * direction that the client has shut down makes a new edge.
 *
 * Only shutdown(2) is ever called on the socket here: libmicrohttpd keeps it open between the notifications of start
 * and end, and shutdown affects only its next reads and writes.
 *
 * Made and closed by the shard's thread. References: that thread's, and the watch's while it is armed.
 */
struct http_connection {
        struct http_server *server;
        struct http_shard *shard; /* shard.c's */
        struct http_quota *quota;
        struct event_readers *readers;
        struct http_listener *listener;          /* that accepted it */
        struct metadata_origin *origin;          /* metadata_json.c's cache; owned; NULL = not needed yet */
        struct http_responder *transfer;         /* of move/content.h, which waits for its client; owned; NULL = none */
        struct http_request *request;            /* the shard's thread; owned; NULL = none */
        struct http_connection *previous, *next; /* shard.c's lists: arriving (next alone) or open */
        uint64_t added_us;                       /* when libmicrohttpd got the socket */
        uint64_t key;                            /* of the client's address, see struct http_arrival */
        /* The shard's thread: */
        struct MHD_Connection *mhd; /* NULL = not started yet */
        unsigned trust;             /* the set of credentials by which a request was allowed; 0 = none was */
        bool lingers;               /* its client may be sending what nobody reads: see gate_linger */
        bool peer_watched;          /* by connection_watch_peer */
        bool ending;                /* shut down by us; libmicrohttpd has not noticed */
        uint64_t since_us;          /* when the last request began or ended; before the first, added_us */
        uint64_t head_us;           /* when the first bytes of the next head came; 0 = none came */
        uint64_t body_size;         /* bytes of the request's body received */
        uint64_t sent_us, sent; /* since when bytes of the answer are unsent, and bytes acknowledged then; 0 = not */
        struct loop_watch watch;
        atomic_uint references;
        struct http_latch end; /* the client has shut down its direction; a parked request waits for it */
        pthread_mutex_t lock;  /* a leaf */
        int fd;                /* lock; -1 = closed */
};

/* For a socket that libmicrohttpd is about to get. NULL: no memory. */
struct http_connection *connection_new(struct http_quota *quota, struct event_readers *readers,
                                       const struct http_arrival *arrival);

/* libmicrohttpd has started the connection: starts watching for the client's end. */
void connection_open(struct http_connection *connection, struct MHD_Connection *mhd);

/* libmicrohttpd is about to close the socket, or never took it. The last call. */
void connection_close(struct http_connection *connection);

/* A request begins with its target; NULL = no memory. */
struct http_request *connection_begin_request(struct http_connection *connection, const char *target);

/* Frees the request, if any. */
void connection_end_request(struct http_connection *connection);

/*
 * Whether it may be ended to make room: its client has shown nothing that the worker knows, or, while it waits for a
 * request or for a TLS handshake, nothing of the present set of credentials (trust; 0 = the worker has no token: then
 * every idle one may). A fresh connection without TLS is not idle: the gate has seen its first head, which
 * libmicrohttpd 1.0 reads in its second run at the earliest, 0.9.75 in the first.
 */
bool connection_gives_way(const struct http_connection *connection, unsigned trust);

/*
 * Ends the connection if a head, a body or the reading of an answer is too slow. Returns the next deadline; 0 = none
 * until something happens on it.
 */
uint64_t connection_check(struct http_connection *connection, uint64_t now);

/*
 * A transfer depends on the client: from now on the connection ends when the client's host has been silent for
 * CONNECTION_DEAD_S. A client that is stopped or reads slowly is not silent: its kernel answers. Only from
 * libmicrohttpd's handlers.
 */
void connection_watch_peer(struct http_connection *connection);

/* Bytes sent and received; 0 where the kernel does not count them. false: not a TCP connection. */
bool connection_bytes(const struct http_connection *connection, uint64_t *ret_bytes);

/* Shuts the socket down, so that libmicrohttpd closes it soon. */
void connection_end(struct http_connection *connection);

/* The socket context of a libmicrohttpd connection. Only from libmicrohttpd's callbacks. */
static inline struct http_connection *connection_of(struct MHD_Connection *connection)
{
        return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

/* Whether the client has shut down its direction. */
static inline bool connection_has_ended(struct http_connection *connection)
{
        return latch_is_set(&connection->end);
}

/* Formats the connection's local address; "" for a Unix socket. Only from libmicrohttpd's callbacks. */
void connection_local_host(const struct http_connection *connection, char *host, size_t size);

/* Makes libmicrohttpd see an end that it may have missed. Call after bytes were read, and after an answer. */
void connection_repeat_end(struct http_connection *connection);

/* ---- what the end of the server waits for: requests being answered, and connections ---- */

void life_init(struct http_life *life);
void life_destroy(struct http_life *life);

/* A request has begun; connection_end_request ends it. */
void life_enter(struct http_life *life);

/* Waits until no request is active, at most limit_us. */
void life_quiet(struct http_life *life, uint64_t limit_us);

/* Waits until every connection is freed. Call after the HTTP threads have ended. */
void life_drain(struct http_life *life);

#endif
