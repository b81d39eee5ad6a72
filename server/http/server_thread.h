/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_SERVER_THREAD_H
#define HTTP_SERVER_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event_readers.h"
#include "gate.h"
#include "head.h"

struct http_credentials;
struct http_server;
struct http_shard;

/*
 * One of the threads that serve HTTP. Each accepts for itself, from every listener, and keeps what it has accepted: in
 * the first of its shards that has room, so that few are in use when connections are few. It starts one more when all
 * are full.
 */
struct http_thread {
        struct http_server *server;
        pthread_t thread;
        bool started;
        struct http_credentials *credentials; /* the thread's own: a reference to what it uses */
        unsigned n_reloads;                   /* the thread's own: when it took them */
        int epoll_fd;                         /* the listeners, event_fd, and the shards' own */
        int event_fd;
        /* Any thread: */
        atomic_bool stopping;
        atomic_bool asleep;                  /* or about to be: whoever queues a shard must signal */
        _Atomic(struct http_shard *) queued; /* to be run; the latest first */
        /* The thread's own: */
        uint64_t busy_us; /* when it did something last */
        struct http_shard **shards;
        size_t n_shards, shards_capacity;
        struct http_gate gate;
        struct event_readers readers;          /* what other threads touch of it says so */
        size_t n_connections, connections_max; /* guests, too */
        size_t n_ending;                       /* of them: shut down by us, not gone yet */
        bool listening;                        /* the listeners are in epoll_fd */
        uint64_t retry_us;                     /* not listening before; 0 = nothing is short */
        uint64_t full_us;                      /* likewise, while nobody can be sent away for others; 0 = not so */
        uint64_t sweep_us;                     /* when a shard or a guest may be due; 0 = none will be */
        char peeked[HEAD_MAX];                 /* what a guest has sent */
};

/* Makes the thread with its first shard. 0 or -errno; logged. */
int server_thread_new(struct http_server *server, size_t connections_max, struct http_thread **ret_thread);

/* From now on it accepts and serves. 0 or -errno. */
int server_thread_start(struct http_thread *thread);

/* Ends the thread, its connections, none of which may be suspended, and the daemons. */
void server_thread_stop(struct http_thread *thread);

/* After server_thread_stop, when nobody will call server_thread_queue any more. Takes NULL; returns NULL. */
struct http_thread *server_thread_free(struct http_thread *thread);

/* Has the thread look what there is to do. Any thread. */
void server_thread_wake(struct http_thread *thread);

/* Has the shard run soon. Any thread. */
void server_thread_queue(struct http_thread *thread, struct http_shard *shard);

/* ---- the thread itself: */

/* The newest secrets; valid until the next call. */
const struct http_credentials *server_thread_credentials(struct http_thread *thread);

/* One more connection. */
void server_thread_enter(struct http_thread *thread);
/* A connection is gone, or is no guest any more. */
void server_thread_leave(struct http_thread *thread);

/* Has gate_deliver called when something comes. 0 or -errno. */
int server_thread_watch_guest(struct http_thread *thread, int fd, struct http_guest *guest);

/* How many of so many connections one address of another host may have. Any thread. */
size_t server_thread_share(size_t connections);

/* Hands a socket to libmicrohttpd, and lets it read. */
void server_thread_admit(struct http_thread *thread, struct http_listener *listener, int fd,
                         const union http_address *address, socklen_t size);

#endif
