/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_SERVER_THREAD_H
#define HTTP_SERVER_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gate.h"
#include "shard.h"
#include "shard_list.h"

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
        /* All below: the thread's own, except what run_queue.h and event_readers.h allow other threads. */
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
