/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_SERVE_INTERNAL_H
#define HTTP_SERVE_INTERNAL_H

#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "serve/request.h"

struct epoll_event;
struct http_pending;

/* What the files of this folder share, in the order in which a connection meets them. */

/* ---- the run queue of a thread (wakeups.c) ---- */

/*
 * A queue of work for a thread (the owner) that sleeps in epoll. The owner adds event_fd to its epoll instance, and
 * calls run_queue_sleep before epoll_wait and run_queue_awake after it. Lock-free.
 */
struct run_item {
        atomic_bool queued;
        struct run_item *next; /* in the queue; written by the thread that has set queued */
};

struct run_queue {
        int event_fd;
        atomic_bool asleep; /* or about to sleep: a thread that adds an item must signal */
        _Atomic(struct run_item *) latest;
};

/* 0 or -errno; run_queue_destroy may follow in any case. */
int run_queue_init(struct run_queue *queue);
void run_queue_destroy(struct run_queue *queue);

/* ---- any thread: */

/* Queues the item, unless it is queued already. */
void run_queue_add(struct run_queue *queue, struct run_item *item);

/* ---- the owner: */

/* Takes all items, the latest first, linked by next. NULL: none. */
struct run_item *run_queue_take(struct run_queue *queue);

/* The owner begins to run the item. Adding it from now on queues it again; what was done before an earlier add is
 * visible to this run. */
void run_item_begin(struct run_item *item);

bool run_queue_is_empty(struct run_queue *queue);

/* After run_queue_sleep the owner must check for work once more before it sleeps. */
void run_queue_sleep(struct run_queue *queue);
void run_queue_awake(struct run_queue *queue);

/* event_fd is readable. */
void run_queue_signalled(struct run_queue *queue);

/* ---- readers of events, for their thread (wakeups.c) ---- */

/* Runs a round if one is due: wakes the readers that have something to read, or are due a keep-alive. */
void event_readers_run(struct event_readers *readers);

/* Wakes all; after events_stopped was set and the thread has ended. */
void event_readers_end(struct event_readers *readers);

/* Whether event_readers_run must be called at once, and else its next deadline; 0 = none. */
bool event_readers_called(const struct event_readers *readers);
uint64_t event_readers_due(const struct event_readers *readers);

/* ---- any thread: */

/* Wakes the thread for a round, if it lists any reader. */
void event_readers_tell(struct event_readers *readers);

/* ---- secrets (guard.c) ---- */

/* 0 or -ENOMEM. */
int credentials_new(const struct http_secrets *secrets, struct http_credentials **ret_credentials);

void credentials_source_init(struct credentials_source *source);
void credentials_source_destroy(struct credentials_source *source);

/* Makes credentials, whose reference it takes over, the newest. Any thread. */
void credentials_replace(struct credentials_source *source, struct http_credentials *credentials);

/* ---- listeners (listener.c), and ids of requests ---- */

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

/* ---- heads (head.c) ---- */

/*
 * Checks the first head of a connection before libmicrohttpd sees it. libmicrohttpd 0.9.75 gives no answer when a head
 * exhausts its memory, gives two answers to a malformed Content-Length, and reads "10\0zz" as 10; what it refuses by
 * itself gets a page of HTML without a Request-Id. Pure; any thread.
 */

enum head_verdict {
        HEAD_PARTIAL, /* more must come */
        HEAD_WHOLE,   /* pass the connection to libmicrohttpd */
        HEAD_REFUSED, /* answer with the error, and close the connection */
        HEAD_FOREIGN, /* not TLS on a TLS listener: close the connection */
};

/*
 * Classifies the first n bytes: the head, and the lines of chunks that have come with it. HEAD_REFUSED sets *ret_error
 * (FERRY_E_*) and *ret_detail (a sentence). */
enum head_verdict head_classify(const char *bytes, size_t n, int *ret_error, const char **ret_detail);

/*
 * Checks the heads that only libmicrohttpd sees: later ones of a connection, and all within TLS. libmicrohttpd 0.9
 * splits a head where it lies: it ends a line's text at a NUL, whatever follows, and at an LF alone, and copies the
 * *name* of a header before a folded line, with that line, to another place. In all these cases the strings that it
 * hands out are not as far apart as those of a head without hidden parts. Their distances are all that this looks at,
 * no byte outside them. Versions from 1.0.0 on refuse such heads by themselves.
 *
 * Of chunks, 0.9 takes an LF alone for a line's end, too, and hands out nothing by which that could be seen. A request
 * with chunks is therefore the last one of its connection there: what hides in its body stays a body.
 */
struct head_parts {
        const char *at; /* the end of the last part */
        bool broken;
};

/* Whether this version of libmicrohttpd (MHD_get_version) needs the check. */
bool head_parts_needed(const char *library_version);
/* Starts with the request line. target_end: where the target ended in MHD_OPTION_URI_LOG_CALLBACK. */
void head_parts_begin(struct head_parts *parts, const char *target_end, const char *version);
/* Takes the headers in their order. */
void head_parts_add(struct head_parts *parts, const char *name, const char *value);
/* Whether the head, which ends at end, consists of these parts alone. */
bool head_parts_end(const struct head_parts *parts, const char *end);

/* Classifies the first bytes of a TLS connection: whole once they are a handshake record. Never HEAD_REFUSED. */
enum head_verdict head_classify_tls(const char *bytes, size_t n);

/* ---- the quota of a thread (gate.c) ---- */

/* Counts the connections of an HTTP thread, pending ones of the gate included. Belongs to the thread. */
struct http_quota {
        struct http_server *server;
        size_t n, max;
        size_t n_ending;  /* of n: shut down by us, not closed yet */
        uint64_t full_us; /* no accept before this time: the thread is full and no connection may be closed; 0 = accept
                           */
};

void quota_enter(struct http_quota *quota);

/* A connection has ended, or has left the gate. */
void quota_leave(struct http_quota *quota);

bool quota_has_room(const struct http_quota *quota);

/* ---- its gate (gate.c) ---- */

/*
 * Pending connections: accepted, and their first request head is not whole yet. With its first head, or first TLS
 * record, a pending connection becomes a connection of libmicrohttpd (below); until then it costs a descriptor, some
 * memory and little processor time, whatever it sends. Time limit: GATE_HEAD_US. Belongs to its HTTP thread.
 */

union http_address {
        struct sockaddr base;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
};

/* An accepted socket. */
struct accepted_socket {
        struct http_listener *listener;
        int fd;
        uint64_t key; /* address_key of the client; 0 = this machine */
        union http_address address;
        socklen_t size; /* of address */
};

struct http_gate {
        struct http_server *server;
        struct http_quota *quota;
        int epoll_fd; /* borrowed; gate_owns tells the gate's events from the others */
        /* Takes over the socket of a connection whose first head is whole. */
        void (*admit)(void *context, const struct accepted_socket *arrival);
        void *context;
        /* Oldest first, so that the first one's deadline is the next. */
        struct http_pending *arriving;
        struct http_pending *refused; /* answered: what they still send is read and dropped for a while */
        struct http_pending *gone; /* closed, but epoll_wait may have returned events of them already; see gate_reap */
        char peeked[HEAD_MAX];     /* what the connection at hand has sent */
};

/* The key under which connections of one client address are counted: IPv4 address or IPv6 /64; 0 = this machine. */
uint64_t address_key(const union http_address *address);

/* Takes over an accepted socket, and counts it as one of the thread's connections. */
void gate_take(struct http_gate *gate, const struct accepted_socket *arrival);

/* Whether an event of epoll_fd belongs to the gate. The data of other events have the highest bit clear. */
bool gate_owns(const struct epoll_event *event);

/* Handles an event of which gate_owns is true. */
void gate_deliver(struct http_gate *gate, const struct epoll_event *event);

/* Next deadline (us); 0 = none. */
uint64_t gate_due(const struct http_gate *gate);

/* Closes the connections whose deadline has passed. */
void gate_sweep(struct http_gate *gate, uint64_t now);

/*
 * Takes over, and counts, a connection that ends with an answer to a request which was not read to its end: what the
 * client still sends is read and dropped for a while, so that a reset does not take the answer away. fd is the caller's
 * duplicate of the socket.
 */
void gate_linger(struct http_gate *gate, const struct accepted_socket *arrival);

/*
 * The connection to close first when the thread is full: one that has its answer, else the oldest of the address with
 * the most. NULL = none; *ret_since_us: since when it has done nothing, 0 = it has nothing more to do.
 */
struct http_pending *gate_victim(struct http_gate *gate, uint64_t *ret_since_us);
void gate_evict(struct http_gate *gate, struct http_pending *pending);

/* Number of pending connections from the address. */
size_t gate_count(const struct http_gate *gate, uint64_t key);

/* Frees closed connections. No event that epoll_wait returned before this call may be delivered after it. */
void gate_reap(struct http_gate *gate);

/* Closes all. */
void gate_stop(struct http_gate *gate);

/* ---- its shards (shard.c, shard_list.c) ---- */

/* Shared by the shards of one HTTP thread and their connections. Belongs to the thread. */
struct shard_owner {
        struct http_server *server;
        struct run_queue queue; /* of shards */
        struct credentials_cache credentials;
        struct http_quota quota;
        struct event_readers readers;
        struct http_gate *gate; /* takes the connections that linger */
};

/*
 * A libmicrohttpd daemon without a thread or a listening socket, run by an HTTP thread, which runs many of them. A
 * shard has few connections, because libmicrohttpd 0.9.75 walks over all suspended connections of a daemon at each
 * resume.
 *
 * Belongs to its thread, except where a field or function says otherwise. Lives as long as the server: a thread that
 * has resumed its last connection may still be about to wake it. An empty shard costs a descriptor and no time.
 */
struct http_shard {
        struct shard_owner *owner;
        struct MHD_Daemon *daemon;
        bool tls;
        struct http_credentials *credentials; /* a reference: those the daemon was started with */
        size_t place;                         /* index among the thread's shards */
        unsigned n_connections;               /* arriving and open */
        struct http_connection *arriving;     /* handed to the daemon, which has not reported their start */
        struct http_connection *open;         /* started and not closed */
        uint64_t due_us;                      /* next run without an event; 0 = never */
        uint64_t look_us;                     /* next check of time limits; 0 = none */
        bool active;                          /* libmicrohttpd has called one of our functions in this run */
        unsigned n_vain;                      /* runs in a row that libmicrohttpd asked for and made no progress in */
        uint64_t vain_us;                     /* when the shard was slowed down for them; 0 = it is not */
        uint64_t moved;                       /* bytes of all connections at the last check for progress */
        struct run_item run;                  /* any thread */
};

enum { SHARD_CONNECTIONS = 64 };

/* Starts the daemon, with the owner's credentials. 0 or -errno. */
int shard_new(struct shard_owner *owner, bool tls, struct http_shard **ret_shard);

/* Gives a shard without connections a new daemon, with the owner's credentials. 0; -errno and it is as before. */
int shard_renew(struct http_shard *shard);

/* Tries to start a daemon with the certificate and key. 0 or -EINVAL. Any thread. */
int shard_try(const struct http_server *server, const struct http_credentials *credentials);

/* Ends the daemon and all connections, none of which may be suspended. Its thread must have ended, or be the caller.
 * The shard stays valid for shard_wake until shard_free. */
void shard_stop(struct http_shard *shard);
struct http_shard *shard_free(struct http_shard *shard);

int shard_epoll_fd(const struct http_shard *shard);

/* Takes over a socket that the listener has accepted, also on failure. The shard must have room, and must be run
 * afterwards: libmicrohttpd 1.0 takes the connection in only then, 0.9.75 at once. */
void shard_add(struct http_shard *shard, const struct accepted_socket *arrival);

/* Runs the daemon once. called: because of an event, not of a deadline. Returns the time until the next run without an
 * event, us; -1 = none. */
int64_t shard_run(struct http_shard *shard, bool called);

/* The shards of an HTTP thread, in the order of their start. Shards are only added. Belongs to the thread. */
struct shard_list {
        struct shard_owner *owner;
        int epoll_fd;      /* the thread's, borrowed; watches those of the shards */
        uint64_t first_id; /* event data of the first shard; the others count on from there */
        struct http_shard **shards;
        size_t n, capacity;
};

/* Starts one more. 0 or -errno. */
int shard_list_add(struct shard_list *list, bool tls);

/*
 * A shard with room, a new one if needed; NULL = none can be started. A shard with a replaced certificate takes no more
 * connections, and is renewed once it is empty.
 */
struct http_shard *shard_list_room(struct shard_list *list, bool tls);

/* Finds the connection that has done nothing the longest, of those that may be ended to make room. NULL = none. */
struct http_connection *shard_list_victim(const struct shard_list *list);

/* Number of connections from the address. */
size_t shard_list_count(const struct shard_list *list, uint64_t key);

/* Ends the daemons and the connections, none of which may be suspended. The shards stay valid for shard_wake. */
void shard_list_stop(struct shard_list *list);
void shard_list_destroy(struct shard_list *list);

/* ---- the thread (server_thread.c) ---- */

/*
 * One of the threads that serve HTTP. Each accepts from every listener and keeps what it has accepted, in the first of
 * its shards that has room; it starts another shard when all are full.
 */
struct http_thread {
        struct http_server *server;
        pthread_t thread;
        bool started;
        int epoll_fd;         /* the listeners, the run queue's event_fd, the gate's connections, and the shards' own */
        atomic_bool stopping; /* any thread */
        /* All below: the thread's own, except what the run queue and the readers of events allow other threads. */
        struct shard_owner owner;
        uint64_t busy_us; /* time of the last work */
        struct shard_list shards;
        struct http_gate gate;
        bool listening;    /* the listeners are in epoll_fd */
        uint64_t retry_us; /* no accept before this time, because it failed; 0 = accept */
        uint64_t warn_us;  /* the log says no more of that before this time */
        uint64_t sweep_us; /* the next deadline of a shard; 0 = none */
};

/* Makes the thread with its first shard. 0 or -errno; logged. */
int server_thread_new(struct http_server *server, size_t connections_max, struct http_thread **ret_thread);

/* Starts accepting and serving. 0 or -errno. */
int server_thread_start(struct http_thread *thread);

/* Ends the thread, its daemons and its connections, none of which may be suspended. */
void server_thread_stop(struct http_thread *thread);

/* After server_thread_stop, when no other thread will add to the run queue. Takes NULL; returns NULL. */
struct http_thread *server_thread_free(struct http_thread *thread);

/* ---- a connection (connection.c) ---- */

/* Makes the connection of a socket that libmicrohttpd is about to get. NULL: memory is short. */
struct http_connection *connection_new(struct http_quota *quota, struct event_readers *readers,
                                       const struct accepted_socket *arrival);

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

/* Bytes sent and received; 0 where the kernel does not count them. false: not a TCP connection. */
bool connection_bytes(const struct http_connection *connection, uint64_t *ret_bytes);

/* Shuts the socket down, so that libmicrohttpd closes it soon. */
void connection_end(struct http_connection *connection);

/* The socket context of a libmicrohttpd connection. Only from libmicrohttpd's callbacks. */
static inline struct http_connection *connection_of(struct MHD_Connection *connection)
{
        return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

/* Makes libmicrohttpd see an end that it may have missed. Call after bytes were read, and after an answer. */
void connection_repeat_end(struct http_connection *connection);

/* ---- what the end of the server waits for: requests being answered, and connections (connection.c) ---- */

void users_init(struct http_users *users);
void users_destroy(struct http_users *users);

/* A request has begun; connection_end_request ends it. */
void users_enter(struct http_users *users);

/* Waits until no request is active, at most limit_us. */
void users_quiet(struct http_users *users, uint64_t limit_us);

/* Waits until every connection is freed. Call after the HTTP threads have ended. */
void users_drain(struct http_users *users);

/* ---- a request (dispatch.c, guard.c, request.c) ---- */

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
const struct http_route *route_find(const struct http_routes *routes, const char *method, const char *path,
                                    char id[FERRY_ID_TEXT_SIZE]);

/* Formats the methods of a path for an Allow header. false: no route has the path. Pure. */
bool route_allow(const struct http_routes *routes, const char *path, char *allow, size_t size);

/*
 * Checks before every handler: refuses messages whose end is ambiguous, Host names that are not the worker's (DNS
 * rebinding), pages of other origins, and missing tokens.
 */

/*
 * Checks that the headers say unambiguously where the body ends; ambiguity enables request smuggling, and libmicrohttpd
 * lets some of it through. NULL = they do; else a sentence that says what is wrong. Pure.
 */
const char *guard_framing_fault(const struct http_headers *headers, const char *version);

/* Whether a Host header names this worker: an IP literal, localhost, or one of the n names. Pure. */
bool guard_host_allowed(const char *header, const char *const *names, size_t n);

/* Whether the origin is the worker's own: that of the request's Host, which was checked before, or url (or NULL). Pure.
 */
bool guard_origin_own(const char *origin, const char *host, bool tls, const char *url);

/* Whether the origin is one of the n allowed ones, ignoring case. Pure. */
bool guard_origin_allowed(const char *origin, const char *const *allowed, size_t n);

/*
 * Checks an Authorization header (or NULL) against the tokens for a route that needs `need`. Where tokens->full is NULL
 * every route is open but those of HTTP_AUTH_KEY. 0; FERRY_E_UNAUTHENTICATED; FERRY_E_FORBIDDEN (the token is for other
 * routes). For HTTP_AUTH_KEY and HTTP_AUTH_FULL_OR_KEY anything in the form of a key passes: the handler compares it.
 * Pure; compares in constant time.
 */
struct guard_tokens {
        const char *full, *peer, *metrics; /* NULL = none */
};
int guard_authorize(const char *authorization, const struct guard_tokens *tokens, enum http_auth need);

/* Checks framing, Host and Origin of a request. false: answered. */
bool guard_admit(struct http_request *request);

/*
 * Checks the token of a request that has a route. false: answered. A connection with one is trusted; one with an
 * operation's key, once the handler has compared that.
 */
bool guard_authenticate(struct http_request *request);

struct http_request *request_new(struct http_server *server, struct http_connection *connection, const char *target);

/* Copies what the log line needs. Call once method and headers are set. */
void request_note(struct http_request *request);

/* The request is parked from now on, to go on with resume. wait.c only. */
void request_park(struct http_request *request, void (*resume)(struct http_request *));

/* It is parked no more. */
void request_unpark(struct http_request *request);

/* Logs and frees. Takes NULL; returns NULL. */
struct http_request *request_free(struct http_request *request);

/*
 * The JSON body as it arrives and is parsed, and the room that all bodies share (bodies_max).
 * Appends a piece; answers where it is one too many.
 */
void request_append_body(struct http_request *request, const char *data, size_t size);

/* Parses the body, with room for the most that its tree may take. false: answered with what is wrong with it. */
bool request_parse_body(struct http_request *request);

/* Frees what it was parsed into. */
void request_drop_json(struct http_request *request);

/* ---- parked requests (wait.c) ---- */

/*
 * Parked requests: their connections are suspended and occupy no thread. The first of these wakes a request, exactly
 * once: its operation or flag, its deadline, the client's end (serve.h), the end of the server. Lock order: the
 * lock here, then those of libmicrohttpd, of flags, of the operation store and of the loop.
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

/* ---- metrics (answer.c) ---- */

/* Registers the HTTP metrics. The server's config is set; its end frees route_durations. */
void counters_init(struct http_server *server);

/* ---- any thread: */

/* Counts a problem that the gate has answered. */
void counters_refused(struct http_server *server, int error);

/* ---- Idempotency-Keys (idempotency.c) ---- */

/*
 * A bounded map from Idempotency-Key to the hash of its request and the ids of the resources it made. A batch may make
 * some of its resources only: a retry gets those, and makes the others. Any thread; own lock, a leaf.
 */

struct http_request;
struct idempotency;

/* A key whose resources are being made: reserved for one request, which commits or aborts it. */
struct idempotency_entry;

enum { IDEMPOTENCY_KEEP_US = 600 * 1000 * 1000 };

enum idempotency_verdict {
        IDEMPOTENCY_NEW,      /* reserved: commit or abort must follow */
        IDEMPOTENCY_REPLAY,   /* ret_ids: the resources of the first request */
        IDEMPOTENCY_RETRY,    /* the same, 0 = not made yet; reserved: commit or abort must follow */
        IDEMPOTENCY_CONFLICT, /* the key was used for another request */
        IDEMPOTENCY_BUSY,     /* another request with this key is making them */
        IDEMPOTENCY_FULL,     /* all keys are reserved, or memory is short */
};

/* Remembers at most max keys; forgets the oldest first. 0 or -ENOMEM. */
int idempotency_new(size_t max, struct idempotency **ret_idempotency);
struct idempotency *idempotency_free(struct idempotency *idempotency);

/*
 * n: number of resources that the request asks for. now_us: CLOCK_MONOTONIC. *ret_entry is NULL unless the key was
 * reserved.
 */
enum idempotency_verdict idempotency_begin(struct idempotency *idempotency, const char *key, uint64_t hash,
                                           uint64_t now_us, uint64_t *ret_ids, size_t n,
                                           struct idempotency_entry **ret_entry);
/* ids: 0 = not made. */
void idempotency_commit(struct idempotency *idempotency, struct idempotency_entry *entry, const uint64_t *ids);
/* Forgets the key, unless it has made something. */
void idempotency_abort(struct idempotency *idempotency, struct idempotency_entry *entry);

/* Drops a reservation that was not committed. */
void replay_abort(struct http_request *request);

#endif
