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

struct http_connection;
struct http_listener;
union http_address;

/* What the shards of one HTTP thread, and their connections, share. Belongs to the thread. */
struct shard_owner {
        struct http_server *server;
        struct run_queue queue; /* of shards */
        struct credentials_cache credentials;
        struct http_quota quota;
        struct event_readers readers;
};

/*
 * A libmicrohttpd daemon without a thread and without a socket to listen on, run by one of our threads, which runs
 * many. At each resume libmicrohttpd 0.9.75 walks over all suspended connections of a daemon: that is why one has so
 * few.
 *
 * Belongs to its thread, but for what says otherwise. Lives as long as the server: a thread that has resumed its
 * last connection may still be about to wake it. Without connections it costs a descriptor, and no time.
 */
struct http_shard {
        struct shard_owner *owner;
        struct http_server *server;
        struct MHD_Daemon *daemon;
        bool tls;
        struct http_credentials *credentials; /* a reference: what the daemon has been started with */
        size_t place;                         /* among the thread's */
        unsigned n_connections;               /* those that arrive, too */
        struct http_connection *arriving;     /* handed to the daemon, which has not told of their start */
        struct http_connection *open;         /* started and not closed */
        uint64_t due_us;                      /* when it must be run although nothing happens; 0 = never */
        uint64_t look_us;                     /* when connections may be over a limit of time; 0 = none can be */
        bool active;                          /* libmicrohttpd has called one of our functions in this run */
        /* Runs that libmicrohttpd asked for and did nothing in. */
        unsigned n_vain;
        uint64_t vain_us;    /* since when; 0 = they are few */
        uint64_t moved;      /* bytes of all connections when they were looked at */
        struct run_item run; /* any thread */
};

enum { SHARD_CONNECTIONS = 64 };

/* Starts the daemon, with the owner's credentials. 0 or -errno. */
int shard_new(struct shard_owner *owner, bool tls, struct http_shard **ret_shard);

/* Gives a shard without connections a new daemon, with the owner's credentials. 0 or -errno, and it is as before. */
int shard_renew(struct http_shard *shard);

/* Whether a daemon starts with the certificate and its key. 0 or -EINVAL. Any thread. */
int shard_try(const struct http_server *server, const struct http_credentials *credentials);

/* Ends all connections, none of which may be suspended, and the daemon. Its thread has ended, or is the caller. The
 * shard itself stays valid for shard_wake until shard_free. */
void shard_stop(struct http_shard *shard);
struct http_shard *shard_free(struct http_shard *shard);

int shard_epoll_fd(const struct http_shard *shard);

/* Takes a socket over, also when it fails, from a listener that has accepted it. There is room. The shard must be run
 * afterwards: libmicrohttpd 1.0 takes a connection in only then, 0.9.75 at once. */
void shard_add(struct http_shard *shard, struct http_listener *listener, int fd, const union http_address *address,
               socklen_t size);

/* Lets the daemon do what there is to do. called: something has happened, not only time gone by. How long until it must
 * be run although nothing happens: us, -1 = for ever. */
int64_t shard_run(struct http_shard *shard, bool called);

/* Has the shard run soon by its thread. Any thread, with any lock held. */
void shard_wake(struct http_shard *shard);

#endif
