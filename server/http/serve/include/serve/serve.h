/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_SERVE_H
#define HTTP_SERVE_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <ferry/encoding.h>

#include "base/address.h"
#include "base/loop.h"
#include "documents/documents.h"
#include "http/server.h"

struct http_park;
struct http_quota;
struct http_request;
struct http_responder;
struct http_shard;
struct http_thread;
struct idempotency;
struct metadata_origin;
struct metric;
struct metric_family;
struct pool_user;
struct run_queue;

/* The server, its connections, and what threads wait for, as an endpoint sees them. */

/* ---- flags ---- */

/*
 * A flag for which one request may wait. Own lock, a leaf; any thread. What a thread wrote before wait_flag_set is
 * visible to a thread that has seen the flag set.
 */
struct wait_flag_waiter {
        void (*wake)(struct wait_flag_waiter *waiter); /* called at most once, with no lock held */
};

struct wait_flag {
        pthread_mutex_t lock;
        bool set;
        struct wait_flag_waiter *waiter; /* NULL = none */
};

void wait_flag_init(struct wait_flag *flag);
void wait_flag_destroy(struct wait_flag *flag);

/* Call once, or once after each reset. Wakes the waiter. The flag must stay valid until this returns. */
void wait_flag_set(struct wait_flag *flag);
/* Only while it is set, which nobody waits for then. */
void wait_flag_reset(struct wait_flag *flag);
bool wait_flag_is_set(struct wait_flag *flag);

/* Registers the waiter. false: the flag is set, and nothing was registered. Never calls wake itself. */
bool wait_flag_wait(struct wait_flag *flag, struct wait_flag_waiter *waiter);

/* true: the waiter was registered, and wake will not be called. false: wake was called, or is being called. */
bool wait_flag_unwait(struct wait_flag *flag, struct wait_flag_waiter *waiter);

/* ---- credentials ---- */

/*
 * A copy of the secrets, which http_server_reload replaces by a new one. Each HTTP thread has a reference to the newest
 * set that it has used, each libmicrohttpd daemon to the set it was started with. Any thread.
 */
struct http_credentials {
        struct http_secrets secrets; /* point into text, which is wiped at the end */
        atomic_uint references;
        size_t size;
        char text[];
};

/* The newest set. Own lock, a leaf. */
struct credentials_source {
        pthread_mutex_t lock;
        struct http_credentials *newest; /* lock; a reference */
        atomic_uint n_reloads;           /* counts the sets */
};

/* The set that a thread uses; the thread's own. */
struct credentials_cache {
        struct credentials_source *source;
        struct http_credentials *current; /* a reference; NULL = none yet */
        unsigned n_reloads;               /* of the source when it was taken */
};

struct http_credentials *credentials_ref(struct http_credentials *credentials);

/* Takes NULL; returns NULL. */
struct http_credentials *credentials_unref(struct http_credentials *credentials);

/* The newest set; valid until the next call. */
struct http_credentials *credentials_current(struct credentials_cache *cache);

/* Drops the reference. */
void credentials_forget(struct credentials_cache *cache);

/* The token of an Authorization header (or NULL) of scheme Bearer; NULL = none. Pure. */
const char *guard_bearer(const char *authorization);

/* The secrets in force. Valid on the connection's thread until the handler returns. */
const struct http_secrets *guard_secrets(const struct http_request *request);

/* The request was allowed by a secret of the set in force: its connection keeps its place (connection_gives_way). */
void guard_trust(struct http_request *request);

/* ---- readers of events ---- */

/*
 * Readers that have read all events. Each HTTP thread lists the idle readers of its own connections and wakes them; the
 * thread that publishes an event only wakes the HTTP threads. An idle reader needs no thread and no timer.
 */

enum {
        EVENT_READERS_MAX = 4096,     /* streams */
        EVENT_BEAT_MS = 10000,        /* interval of keep-alives on an idle stream */
        EVENT_DELIVERY_US = 20 * 1000 /* least time between two rounds, so that a burst of events costs few rounds */
};

struct event_reader {
        /* Called after the reader was taken off the list; may free it. */
        void (*wake)(struct event_reader *reader);
        struct wait_flag *left; /* the client's end; NULL = watched elsewhere */
        bool beats;             /* also woken every EVENT_BEAT_MS */
        unsigned n_reloads;     /* of the secrets by which it was allowed: also woken when they are replaced */
        struct event_filter filter;
        struct event_place place;
        struct event_reader *previous, *next; /* previous NULL = not listed */
};

struct event_readers {
        struct http_server *server;
        struct run_queue *queue; /* of the thread */
        atomic_bool told;        /* any thread: an event was published, a client has left, or there are new secrets */
        atomic_size_t n_idle;    /* written by the thread */
        /* The thread's own: */
        struct event_reader *idle;
        uint64_t due_us;   /* time of the next round, because told was seen; 0 = none */
        uint64_t round_us; /* time of the last round */
        uint64_t beat_us;  /* time of the next keep-alives; 0 = none */
};

/* ---- the thread itself: */

/*
 * Lists a reader that has read all. false, and not listed: an event has come meanwhile, the client has left, the
 * secrets have been replaced, or the server stops.
 */
bool event_reader_idle(struct event_readers *readers, struct event_reader *reader);
/* Takes the reader off the list, if it is listed. */
void event_reader_leave(struct event_readers *readers, struct event_reader *reader);

/* ---- the server ---- */

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
struct http_users {
        pthread_mutex_t lock;
        pthread_cond_t changed; /* CLOCK_MONOTONIC; a count went to 0 */
        atomic_size_t n_active; /* requests between their headers and the end of their answer */
        atomic_bool ending;     /* users_quiet waits, or has waited */
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
        struct idempotency *idempotency;           /* has its own lock */
        struct metric_family *requests;            /* {route, code} */
        struct metric_family *problems;            /* {code} */
        struct metric_family *durations;           /* {route} */
        _Atomic(struct metric *) *route_durations; /* by the index in config.routes; owned; NULL = memory was short */
        atomic_size_t body_bytes;                  /* counts against bodies_max */
        struct metric *bodies;
        struct metric *ended[HTTP_END_COUNT]; /* connections */
        bool tls;
        bool watch_heads; /* this libmicrohttpd skips parts of heads and takes a bare LF for a line's end (head.c) */
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
        struct http_users users;     /* has its own lock */
};

/* The base URL for clients on other machines; local_host: see address_publish. Not for a Unix socket. */
void listener_public_url(const struct http_listener *listener, const char *local_host, char *url, size_t size);

/* The number of connections, out of so many, that one address of another host may have. Any thread. */
size_t quota_share(size_t connections);

/* ---- a connection ---- */

enum {
        /* libmicrohttpd's memory for a connection, bytes: the head, its parsed form, the head of the answer. */
        HEAD_MEMORY = 16 << 10,
        /* Longest head, bytes. */
        HEAD_MAX = HEAD_MEMORY,
};

/* Time for a head: from its first byte; for the first head of a connection, from the accept. */
enum { GATE_HEAD_US = 10 * 1000000 };

enum {
        CONNECTION_BODY_US = 20 * 1000000, /* time for a body, plus its bytes at CONNECTION_RATE */
        CONNECTION_READ_US = 60 * 1000000, /* time for a client that reads its answer, plus its bytes at that rate */
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
        struct metadata_origin *origin;          /* cache of api/offers.c; owned; NULL = not needed yet */
        struct http_responder *transfer;         /* of move/content.h, which waits for its client; owned; NULL = none */
        struct http_request *request;            /* the shard's thread; owned; NULL = none */
        struct http_connection *previous, *next; /* shard.c's lists: arriving (next alone) or open */
        uint64_t added_us;                       /* when libmicrohttpd got the socket */
        uint64_t key;                            /* of the client's address, see struct accepted_socket */
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
        struct wait_flag end; /* the client has shut down its direction; a parked request waits for it */
        pthread_mutex_t lock; /* a leaf */
        int fd;               /* lock; -1 = closed */
};

/*
 * A transfer depends on the client: from now on the connection ends when the client's host has been silent for
 * CONNECTION_DEAD_S. A client that is stopped or reads slowly is not silent: its kernel answers. Only from
 * libmicrohttpd's handlers.
 */
void connection_watch_peer(struct http_connection *connection);

/* Whether the client has shut down its direction. */
static inline bool connection_has_ended(struct http_connection *connection)
{
        return wait_flag_is_set(&connection->end);
}

/* The secrets that the connection's thread uses. Only from that thread. */
struct credentials_cache *connection_credentials(const struct http_connection *connection);

/* Formats the connection's local address; "" for a Unix socket. Only from libmicrohttpd's callbacks. */
void connection_local_host(const struct http_connection *connection, char *host, size_t size);

/* Has the shard run soon by its thread. Any thread, with any lock held. */
void shard_wake(struct http_shard *shard);

#endif
