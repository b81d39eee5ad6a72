/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_QUOTA_H
#define HTTP_QUOTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_server;

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

#endif
