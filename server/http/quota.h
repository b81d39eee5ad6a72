/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_QUOTA_H
#define HTTP_QUOTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_server;

/* How many connections an HTTP thread has, guests of the gate included. Belongs to the thread. */
struct http_quota {
        struct http_server *server;
        size_t n, max;
        size_t n_ending;  /* of n: shut down by us, not gone yet */
        uint64_t full_us; /* no accepting before: all places are taken by connections that must stay; 0 = not so */
};

void quota_enter(struct http_quota *quota);

/* A connection is gone, or is no guest any more. */
void quota_leave(struct http_quota *quota);

bool quota_has_room(const struct http_quota *quota);

/* How many of so many connections one address of another host may have. Any thread. */
size_t quota_share(size_t connections);

#endif
