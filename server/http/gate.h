/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_GATE_H
#define HTTP_GATE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "head.h"

struct epoll_event;
struct http_pending;
struct http_listener;
struct http_quota;
struct http_server;

/*
 * Pending connections: accepted, and their first request head is not whole yet. With its first head, or first TLS
 * record, a pending connection becomes a connection of libmicrohttpd (shard.h); until then it costs a descriptor, some
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

#endif
