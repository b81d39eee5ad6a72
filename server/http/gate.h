/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_GATE_H
#define HTTP_GATE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "head.h"

struct epoll_event;
struct http_guest;
struct http_listener;
struct http_quota;
struct http_server;

/*
 * Connections that have not said what they want. A guest becomes a connection of libmicrohttpd (shard.h) when its first
 * head, or its first TLS record, is whole; until then it costs a descriptor and some memory, and no processor time,
 * whatever it sends. It has 10 s. Belongs to its HTTP thread.
 */

union http_address {
        struct sockaddr base;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
};

/* Oldest first, so that the first one's deadline is the next. */
struct http_guests {
        struct http_guest *first, *last;
};

struct http_gate {
        struct http_server *server;
        struct http_quota *quota;
        int epoll_fd; /* borrowed; the events of guests are those of which gate_owns is true */
        /* Takes the socket of a guest whose first head is whole. */
        void (*admit)(void *context, struct http_listener *listener, int fd, const union http_address *address,
                      socklen_t size);
        void *context;
        struct http_guests arriving;
        struct http_guests refused; /* answered: what they still send is read and forgotten for a moment */
        struct http_guest *gone;    /* closed, but events of them may be at hand */
        char peeked[HEAD_MAX];      /* what a guest has sent */
};

enum { GATE_HEAD_US = 10 * 1000000 /* for a head, from its first byte; of a first head from the connect */ };

/* What tells client addresses apart: the address of IPv4, the /64 of IPv6; 0 = this machine. */
uint64_t address_key(const union http_address *address);

/* Takes over a socket that was accepted, which counts as one of the thread's connections. */
void gate_take(struct http_gate *gate, struct http_listener *listener, int fd, const union http_address *address,
               socklen_t size);

/* Whether an event of epoll_fd is a guest's. The data of other events have the highest bit clear. */
bool gate_owns(const struct epoll_event *event);

/* An event of a guest. */
void gate_deliver(struct http_gate *gate, const struct epoll_event *event);

/* When the next guest's time is over; 0 = none is there. */
uint64_t gate_due(const struct http_gate *gate);

/* Ends the guests whose time is over. */
void gate_sweep(struct http_gate *gate, uint64_t now);

/* The guest that goes first when there is no room: the oldest one of the address that has the most. NULL = none. */
struct http_guest *gate_victim(struct http_gate *gate);
void gate_evict(struct http_gate *gate, struct http_guest *guest);

/* How many of the guests come from the address. */
size_t gate_count(const struct http_gate *gate, uint64_t key);

/* Frees what is gone. No event of before this call is looked at afterwards. */
void gate_reap(struct http_gate *gate);

/* Ends all. */
void gate_stop(struct http_gate *gate);

#endif
