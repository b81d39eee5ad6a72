/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_SERVER_THREAD_H
#define HTTP_SERVER_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
        int epoll_fd; /* the listeners, event_fd, and the shards' own */
        int event_fd;
        /* Any thread: */
        atomic_bool stopping;
        atomic_bool asleep;                  /* or about to be: whoever queues a shard must signal */
        _Atomic(struct http_shard *) queued; /* to be run; the latest first */
        /* The thread's own: */
        uint64_t busy_us; /* when it did something last */
        struct http_shard **shards;
        size_t n_shards, shards_capacity;
        size_t first_room; /* all shards before it are full */
        size_t n_connections, connections_max;
        bool listening;    /* the listeners are in epoll_fd */
        uint64_t retry_us; /* not listening before; 0 = nothing is short */
        uint64_t sweep_us; /* when a shard may be due; 0 = none will be */
};

/* Makes the thread with its first shard. 0 or -errno; logged. */
int server_thread_new(struct http_server *server, size_t connections_max, struct http_thread **ret_thread);

/* From now on it accepts and serves. 0 or -errno. */
int server_thread_start(struct http_thread *thread);

/* Ends the thread, its connections, none of which may be suspended, and the daemons. */
void server_thread_stop(struct http_thread *thread);

/* After server_thread_stop, when nobody will call server_thread_queue any more. Takes NULL; returns NULL. */
struct http_thread *server_thread_free(struct http_thread *thread);

/* Has the shard run soon. Any thread. */
void server_thread_queue(struct http_thread *thread, struct http_shard *shard);

/* A connection of the shard at that place is gone. */
void server_thread_has_room(struct http_thread *thread, size_t place);

#endif
