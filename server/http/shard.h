/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_SHARD_H
#define HTTP_SHARD_H

#include <microhttpd.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "credentials.h"
#include "event_readers.h"
#include "quota.h"
#include "run_queue.h"

struct http_arrival;
struct http_connection;
struct http_gate;

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

#endif
