/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_URL_H
#define CLIENT_URL_H

#include <stdbool.h>
#include <stdint.h>

#include <ferry/buffer.h>

/* Pure functions on URLs and paths. */

/*
 * Takes a worker's URL apart: base ("http://host:port", as libcurl writes it, no final slash) and, for "unix:/path",
 * the socket's path (else NULL). Both for free(). Refuses other schemes, user names, queries and fragments. 0; -EINVAL;
 * -ENOMEM.
 */
int url_parse(const char *url, char **ret_base, char **ret_socket);

/* Where in a path the number of its parameter wait_ms begins, and the number; NULL, and 0: it has none. */
const char *path_wait(const char *path, uint64_t *ret_wait_ms);

/* A path with its query, in the making. Zero-initialise; the first error sticks. */
struct path {
        struct ferry_buffer text;
        bool queried;
        int error; /* 0, -EINVAL, -ENOMEM */
};

/* Adds text as it is. */
void path_add(struct path *p, const char *text);

/* Adds one segment, percent-encoded. NULL and "" are -EINVAL: they would name another resource. */
void path_add_segment(struct path *p, const char *segment);

/* Adds a query parameter; none for a NULL value. */
void path_query(struct path *p, const char *name, const char *value);

/* Adds a query parameter; none for 0. */
void path_query_number(struct path *p, const char *name, uint64_t value);

void path_clear(struct path *p);

#endif
