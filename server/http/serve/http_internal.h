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

#include <ferry/encoding.h>

#include "base/address.h"
#include "events.h"
#include "http/server.h"

struct http_park;
struct http_thread;
struct http_waits;
struct idempotency;
struct metric;
struct metric_family;
struct pool_user;

/* ---- latches ---- */

/*
 * A flag for which one request may wait. Own lock, a leaf; any thread. What a thread wrote before latch_set is visible
 * to a thread that has seen the latch set.
 */
struct http_latch_waiter {
        void (*wake)(struct http_latch_waiter *waiter); /* called at most once, with no lock held */
};

struct http_latch {
        pthread_mutex_t lock;
        bool set;
        struct http_latch_waiter *waiter; /* NULL = none */
};

void latch_init(struct http_latch *latch);
void latch_destroy(struct http_latch *latch);

/* Call once, or once after each reset. Wakes the waiter. The latch must stay valid until this returns. */
void latch_set(struct http_latch *latch);
/* Only while it is set, which nobody waits for then. */
void latch_reset(struct http_latch *latch);
bool latch_is_set(struct http_latch *latch);

/* Registers the waiter. false: the latch is set, and nothing was registered. Never calls wake itself. */
bool latch_wait(struct http_latch *latch, struct http_latch_waiter *waiter);

/* true: the waiter was registered, and wake will not be called. false: wake was called, or is being called. */
bool latch_unwait(struct http_latch *latch, struct http_latch_waiter *waiter);

/* ---- work for a request ---- */

/* Longer than the time-outs of fetching, resolving and connecting together, of HTTP after it, and of the registry. */
enum { WORK_WAIT_MS = 30000, WORK_DETAIL_SIZE = 256 };

/*
 * What a request waits for: the first member of a struct that is its state. References: the request's, and that of the
 * work, which runs on other threads, is bounded in time, and touches neither the server nor the request.
 */
struct http_work {
        atomic_uint references;
        struct http_latch over;
        /* Written by the work until over: */
        int error; /* FERRY_E_*; 0 = done */
        char detail[WORK_DETAIL_SIZE];
        void *owned; /* freed with it */
};

/* Zeroed, with both references. NULL: no memory. */
void *work_new(size_t size);
void work_unref(struct http_work *work);

/* Makes it the request's state or, where it could not be begun, frees it. Returns error. */
int work_begun(struct http_request *request, struct http_work *work, int error);

/* Ends the work, and drops its reference. */
void work_end(struct http_work *work, int error, const char *detail);

/* Whether the request's work is over. false: answered; awaited: what had not happened; late: the same as a title. */
bool work_is_over(struct http_request *request, const char *awaited, const char *late);

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

/* 0 or -ENOMEM. */
int credentials_new(const struct http_secrets *secrets, struct http_credentials **ret_credentials);

struct http_credentials *credentials_ref(struct http_credentials *credentials);

/* Takes NULL; returns NULL. */
struct http_credentials *credentials_unref(struct http_credentials *credentials);

void credentials_source_init(struct credentials_source *source);
void credentials_source_destroy(struct credentials_source *source);

/* Makes credentials, whose reference it takes over, the newest. Any thread. */
void credentials_replace(struct credentials_source *source, struct http_credentials *credentials);

/* The newest set; valid until the next call. */
struct http_credentials *credentials_current(struct credentials_cache *cache);

/* Drops the reference. */
void credentials_forget(struct credentials_cache *cache);

/* ---- files ---- */

/* A file that is built into the worker (scripts/embed), plain and gzipped. */
struct http_asset {
        const char *type; /* media type */
        const char *etag, *gzip_etag;
        const unsigned char *data, *gzip;
        size_t size, gzip_size;
};

extern const struct http_asset asset_openapi_yaml, asset_openapi_json, asset_docs, asset_docs_script, asset_page,
        asset_page_script, asset_page_style;

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

/* ---- parked requests ---- */

/*
 * Parked requests: their connections are suspended and occupy no thread. The first of these wakes a request, exactly
 * once: its operation or latch, its deadline, the client's end (connection.h), the end of the server. Lock order: the
 * lock here, then those of libmicrohttpd, of latches, of the operation store and of the loop.
 */
struct http_waits {
        pthread_mutex_t lock;
        /* All below: guarded by lock. */
        pthread_cond_t changed; /* n_parked changed, or n_parks went to 0 */
        atomic_bool stopping;   /* written under the lock, read without */
        struct http_park *parked;
        size_t n_parked;
        size_t n_parks; /* objects: parked, or still used by a running callback */
};

/* 0 or -ENOMEM. */
int waits_new(struct http_waits **ret_waits);

/* After the HTTP threads have ended. Takes NULL; returns NULL. */
struct http_waits *waits_free(struct http_waits *waits);

/* Wakes all parked requests, parks no more, and waits until every connection is resumed. */
void waits_stop(struct http_waits *waits);

enum wait_result {
        WAIT_PARKED,   /* the handler must return; resume is called later, on the connection's thread */
        WAIT_NEEDLESS, /* it is done, or the server stops, or the client has left: answer with the present state */
        WAIT_FULL,     /* too many are parked, or memory is short */
};

/*
 * Parks the request for at most wait_ms, until request->operation is done or deleted or, with revision not 0, has a
 * higher revision. resume must answer. Only from a handler, after the body.
 */
enum wait_result wait_park(struct http_request *request, uint64_t revision, uint64_t wait_ms,
                           void (*resume)(struct http_request *request));

/* The same until the latch is set; it must stay until the request is answered. */
enum wait_result wait_park_latch(struct http_request *request, struct http_latch *latch, uint64_t wait_ms,
                                 void (*resume)(struct http_request *request));

/* The same for work that ends soon by itself: a client that shuts its direction down still gets the answer. */
enum wait_result wait_park_work(struct http_request *request, struct http_latch *latch, uint64_t wait_ms,
                                void (*resume)(struct http_request *request));

/* Answers after WAIT_FULL. */
void wait_refuse(struct http_request *request);

/*
 * Answers a request that cannot say how far its work is, if its wait ended too soon: 410 where the client has shut down
 * its direction, 503 where the server stops. before: what had not happened. false: neither, not answered.
 */
bool wait_abandoned(struct http_request *request, const char *before);

/* As wait_park and wait_park_latch, but they answer in any case: at once after WAIT_NEEDLESS, refused after WAIT_FULL.
 */
void wait_or_answer(struct http_request *request, uint64_t revision, uint64_t wait_ms,
                    void (*answer)(struct http_request *request));
void wait_latch_or_answer(struct http_request *request, struct http_latch *latch, uint64_t wait_ms,
                          void (*answer)(struct http_request *request));

/* ---- metrics ---- */

/* Registers the HTTP metrics. The server's routes are set; its end frees route_durations. */
void counters_init(struct http_server *server);

/* ---- any thread: */

/* Counts an answer, by route and status, and its time, by route. Once for each request. */
void counters_answered(const struct http_request *request, unsigned status);

/* Counts a problem (FERRY_E_*). */
void counters_problem(struct http_server *server, int error);

/* Counts a problem that the gate has answered. */
void counters_refused(struct http_server *server, int error);

/* ---- requests ---- */

/*
 * dispatch_call: libmicrohttpd's access handler, called several times for each request; finds the route and calls its
 * handler. dispatch_target: called before with the raw target; makes the request. Thread: that of the connection's
 * shard.
 */
enum MHD_Result dispatch_call(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *data, size_t *size, void **state);
void *dispatch_target(void *context, const char *target, struct MHD_Connection *connection);

/*
 * Finds the route of a method (HEAD is served by GET) and a decoded path; NULL = none. id gets the text in place of
 * {id}: "" when the path has none, or when it is longer than any id. Pure.
 */
const struct http_route *route_find(const char *method, const char *path, char id[FERRY_ID_TEXT_SIZE]);

/* Formats the methods of a path for an Allow header. false: no route has the path. Pure. */
bool route_allow(const char *path, char *allow, size_t size);

/* ---- handlers ---- */

/*
 * The handlers, each in the file of its noun. Called on the connection's thread when the request has arrived whole;
 * those of HTTP_BODY_STREAM also before the body (see request->phase). Each answers the request or parks it.
 */
typedef void http_handler(struct http_request *request);
http_handler get_root, get_worker, get_devices, get_limits, get_throughput, list_events, list_peers, list_regions,
        create_region, get_region, delete_region, get_region_content, put_region_content, list_operations,
        create_operation, create_operations, get_operation, delete_operation, cancel_operation, renew_operation,
        decline_operation, decline_remote, renew_remote, get_operation_metadata, get_operation_content,
        put_operation_content, delete_operation_content, create_peer, get_livez, get_readyz, get_metrics, get_asset;

/* Store the next bytes of an upload that the handler has accepted; beside their put_*. */
void take_operation_content(struct http_request *request, const char *data, size_t size);
void take_region_content(struct http_request *request, const char *data, size_t size);

#endif
