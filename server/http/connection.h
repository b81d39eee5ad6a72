/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_CONNECTION_H
#define HTTP_CONNECTION_H

#include <microhttpd.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "event.h"

struct event_readers;
struct http_listener;
struct http_quota;
struct http_request;
struct http_server;
struct http_shard;
struct metadata_origin;

enum {
        CONNECTION_BODY_US = 20 * 1000000, /* for a body, and more for its bytes: */
        CONNECTION_READ_US = 60 * 1000000, /* for a client to go on reading its answer, likewise */
        CONNECTION_RATE = 500,             /* bytes a second at least */
        CONNECTION_DEAD_S = 5,             /* for the host of a transfer's peer to acknowledge anything */
};

/*
 * What we know of a client's connection beside libmicrohttpd. The loop watches it for the client's end, which
 * libmicrohttpd can miss: 0.9.75 reads once for each edge of its epoll, so an end that came together with the last
 * bytes, or while the connection was suspended, would only be seen by the idle time-out. Shutting down once more what
 * the client has shut down already makes a new edge.
 *
 * shutdown(2) is all that is ever done to the socket here: between the notifications of its start and its end it is
 * open in every version, and that call changes nothing for libmicrohttpd but what it reads and writes next.
 *
 * Made and closed by the shard's thread. Counted references: that thread's, and the watch's while it is armed.
 */
struct http_connection {
        struct http_server *server;
        struct http_shard *shard; /* shard.c's */
        struct http_quota *quota;
        struct event_readers *readers;
        struct http_listener *listener; /* that has accepted it */
        struct metadata_origin *origin; /* metadata_json.c's; owned; NULL = nobody has asked for metadata on it yet */
        struct http_request *request;   /* the shard's thread; owned: from its target on; NULL = none */
        struct http_connection *previous, *next; /* shard.c's: of those that arrive (next alone) or are open */
        uint64_t added_us;                       /* when the socket was handed to libmicrohttpd */
        uint64_t key;                            /* of the client's address; 0 = this machine */
        /* The shard's thread: */
        struct MHD_Connection *mhd; /* NULL = not started yet */
        bool trusted;               /* a request on it had a token, or needed none and was not just anybody's */
        bool peer_watched;          /* by connection_watch_peer */
        bool ending;                /* shut down by us; libmicrohttpd has not noticed */
        uint64_t since_us;          /* when its last request began or ended, or it was added */
        uint64_t head_us;           /* when bytes of a head were first seen; 0 = none are there */
        uint64_t body_size;         /* bytes of the request's body so far */
        uint64_t sent_us, sent;     /* since when the client reads slowly, and what it had acknowledged then; 0 = no */
        struct loop_watch watch;
        atomic_uint references;
        struct http_event end; /* the client sends nothing more; a parked request waits for it */
        pthread_mutex_t lock;  /* a leaf */
        int fd;                /* lock; -1 = closed */
};

/* For a socket that is about to be libmicrohttpd's. NULL: no memory. */
struct http_connection *connection_new(struct http_quota *quota, struct event_readers *readers,
                                       struct http_listener *listener, int fd);

/* libmicrohttpd has taken the socket in: from now on its end is watched for. */
void connection_open(struct http_connection *connection, struct MHD_Connection *mhd);

/* libmicrohttpd is about to close it, or has never taken it. The last call. */
void connection_close(struct http_connection *connection);

/* A request begins with its target; NULL = no memory. */
struct http_request *connection_begin_request(struct http_connection *connection, const char *target);

/* Ends the request on it, if there is one. */
void connection_end_request(struct http_connection *connection);

/*
 * Whether it waits for a request or for a TLS handshake. A fresh connection without TLS is not idle: the gate has seen
 * the head of its request, which libmicrohttpd 1.0 reads in the second run at the earliest, 0.9.75 in the first.
 */
bool connection_is_idle(const struct http_connection *connection);

/*
 * Ends a connection whose head, body or reading is too slow. When it must be looked at again at the latest; 0 = not
 * before something happens on it.
 */
uint64_t connection_look(struct http_connection *connection, uint64_t now);

/*
 * A transfer depends on the client: from now on the connection ends when the client's host has been silent for
 * CONNECTION_DEAD_S. A client that is stopped or reads slowly is not silent: its kernel answers. Only from
 * libmicrohttpd's handlers.
 */
void connection_watch_peer(struct http_connection *connection);

/* Bytes that have gone either way; 0 where the kernel does not count them. */
uint64_t connection_bytes(const struct http_connection *connection);

/* Has libmicrohttpd close it soon. */
void connection_end(struct http_connection *connection);

/* Ours of libmicrohttpd's, which keeps it as its socket context. Only from its handlers. */
static inline struct http_connection *connection_of(struct MHD_Connection *connection)
{
        return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

/* Whether the client sends nothing more. Only from libmicrohttpd's handlers. */
static inline bool connection_has_ended(struct MHD_Connection *connection)
{
        return event_has_happened(&connection_of(connection)->end);
}

/* After bytes were read, and after an answer: has an end that libmicrohttpd may have missed reported again. */
void connection_repeat_end(struct http_connection *connection);

#endif
