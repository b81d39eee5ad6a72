/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_BODY_H
#define HTTP_BODY_H

#include <stddef.h>

struct ferry_buffer;
struct http_server;

/*
 * The JSON body of a request as it arrives, and the room that all bodies share (bodies_max). Thread: that of the
 * connection's shard.
 */

/* 0; FERRY_E_TOO_LARGE (body_max); FERRY_E_LIMIT_REACHED (bodies_max); -ENOMEM. */
int body_append(struct http_server *server, struct ferry_buffer *body, const char *data, size_t size);

/* Wipes and frees the body. */
void body_drop(struct http_server *server, struct ferry_buffer *body);

#endif
