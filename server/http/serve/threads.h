/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_THREADS_H
#define HTTP_THREADS_H

#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "head.h"
#include "http_internal.h"

struct epoll_event;
struct http_connection;
struct http_pending;

/* ---- the run queue of a thread ---- */

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

/* Wakes the owner. */
void run_queue_wake(struct run_queue *queue);

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

/* ---- its quota ---- */

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

/* The number of connections, out of so many, that one address of another host may have. Any thread. */
size_t quota_share(size_t connections);

/* ---- its gate ---- */

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
struct http_arrival {
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
        void (*admit)(void *context, const struct http_arrival *arrival);
        void *context;
        /* Oldest first, so that the first one's deadline is the next. */
        struct http_pending *arriving;
        struct http_pending *refused; /* answered: what they still send is read and dropped for a while */
        struct http_pending *gone; /* closed, but epoll_wait may have returned events of them already; see gate_reap */
        char peeked[HEAD_MAX];     /* what the connection at hand has sent */
};

/* Time for a head: from its first byte; for the first head of a connection, from the accept. */
enum { GATE_HEAD_US = 10 * 1000000 };

/* The key under which connections of one client address are counted: IPv4 address or IPv6 /64; 0 = this machine. */
uint64_t address_key(const union http_address *address);

/* Takes over an accepted socket, and counts it as one of the thread's connections. */
void gate_take(struct http_gate *gate, const struct http_arrival *arrival);

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
void gate_linger(struct http_gate *gate, const struct http_arrival *arrival);

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

/* ---- its shards ---- */

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
void shard_add(struct http_shard *shard, const struct http_arrival *arrival);

/* Runs the daemon once. called: because of an event, not of a deadline. Returns the time until the next run without an
 * event, us; -1 = none. */
int64_t shard_run(struct http_shard *shard, bool called);

/* Has the shard run soon by its thread. Any thread, with any lock held. */
void shard_wake(struct http_shard *shard);

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

/* Of the connections that may be ended to make room, the one that has done nothing the longest. NULL = none. */
struct http_connection *shard_list_victim(const struct shard_list *list);

/* Number of connections from the address. */
size_t shard_list_count(const struct shard_list *list, uint64_t key);

/* Ends the daemons and the connections, none of which may be suspended. The shards stay valid for shard_wake. */
void shard_list_stop(struct shard_list *list);
void shard_list_destroy(struct shard_list *list);

/* ---- the thread ---- */

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

#endif
