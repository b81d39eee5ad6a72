/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_INTERNAL_H
#define HTTP_INTERNAL_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/address.h"
#include "credentials.h"
#include "events.h"
#include "http/server.h"

struct pool_user;
struct http_thread;
struct http_waits;
struct idempotency;
struct metric;
struct metric_family;

/* One bound address. Fixed after http_server_new. */
struct http_listener {
        struct http_server *server;
        int fd;
        bool local; /* a Unix socket: protected by file permissions; Host is not checked */
        bool tls;
        char host[ADDRESS_HOST_SIZE];
        uint16_t port;
        char *path;        /* of the Unix socket that the listener made; NULL = none */
        dev_t path_device; /* with path_inode: the file that was made there */
        ino_t path_inode;
        char *url;             /* as bound */
        const char *authority; /* host:port in url, the usual Host header; not of a Unix socket */
};

/* Why the worker ended a connection. */
enum http_end {
        HTTP_END_SLOW_HEAD, /* the head, the body or the reading of the answer took too long */
        HTTP_END_SLOW_BODY,
        HTTP_END_SLOW_READER,
        HTTP_END_REFUSED_HEAD,
        HTTP_END_EVICTED,
        HTTP_END_ADDRESS_LIMIT,
        HTTP_END_COUNT
};

/*
 * Counts what the end of the server must wait for: requests being answered, and connections that a callback may still
 * touch. Any thread; own lock, a leaf.
 */
struct http_life {
        pthread_mutex_t lock;
        pthread_cond_t changed; /* CLOCK_MONOTONIC; a count went to 0 */
        atomic_size_t n_active; /* requests between their headers and the end of their answer */
        atomic_bool ending;     /* life_quiet waits, or has waited */
        size_t n_alive;         /* connections; guarded by lock */
};

/* libmicrohttpd's callbacks for each request. */
struct http_dispatch {
        MHD_AccessHandlerCallback call;
        void *(*target)(void *context, const char *target, struct MHD_Connection *connection);
};

/* Fixed after http_server_new, except atomics and members that have their own lock. */
struct http_server {
        struct http_config config;
        struct event_listener listener; /* of the events */
        size_t n_listeners;
        struct http_listener *listeners;
        size_t n_threads;
        struct http_thread **threads;
        uint64_t started_us;
        uint64_t started_unix_ms;
        struct idempotency *idempotency; /* has its own lock */
        struct metric_family *requests;  /* {route, code} */
        struct metric_family *problems;  /* {code} */
        struct metric_family *durations; /* {route} */
        const struct http_route *routes;
        size_t n_routes;
        _Atomic(struct metric *) *route_durations; /* by the index in routes; owned; NULL = memory was short */
        atomic_size_t body_bytes;                  /* counts against bodies_max */
        struct metric *bodies;
        struct metric *ended[HTTP_END_COUNT]; /* connections */
        bool tls;
        bool watch_heads; /* this libmicrohttpd skips parts of heads and takes a bare LF for a line's end (head.h) */
        struct http_dispatch dispatch;
        struct credentials_source credentials; /* has its own lock */
        atomic_bool draining;
        _Atomic uint64_t last_request;  /* id of the last request; starts at random */
        atomic_size_t n_connections;    /* of all threads */
        atomic_size_t most_connections; /* since the memory of those that have gone was given back */
        atomic_bool events_stopped;     /* readers of events must not wait any more */
        atomic_size_t n_streams;        /* of events */
        struct metric *waiters, *event_readers, *events_missed;
        struct pool_user *tasks;     /* of the pool: copies of content of GPUs, digests */
        atomic_size_t copying_bytes; /* of its buffers */
        struct http_waits *waits;    /* has its own lock */
        struct http_life life;       /* has its own lock */
};

/* Opens and binds the listener's socket. 0 or -errno; logged. */
int listener_open(struct http_listener *listener, const char *text);

/* Unlinks the Unix socket, unless another file has its path by now. Idempotent; before listener_close. */
void listener_unlink(const struct http_listener *listener);

/* Closes what is open, frees the strings. Idempotent. */
void listener_close(struct http_listener *listener);

/* The id of the next request: unique in this worker, and almost certainly among all workers. Not a secret. */
static inline uint64_t server_next_request_id(struct http_server *server)
{
        return atomic_fetch_add_explicit(&server->last_request, UINT64_C(0x9e3779b97f4a7c15), memory_order_relaxed);
}

/* The base URL for clients on other machines; local_host: see address_publish. Not for a Unix socket. */
void listener_public_url(const struct http_listener *listener, const char *local_host, char *url, size_t size);

#endif
