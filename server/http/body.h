/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_BODY_H
#define HTTP_BODY_H

#include <stddef.h>

struct ferry_buffer;
struct ferry_json_errors;
struct http_server;
struct json_object;

/*
 * The JSON body of a request as it arrives and is parsed, and the room that all bodies share (bodies_max). Thread: that
 * of the connection's shard.
 */

#define BODY_FULL "bodies_max is %llu, which other requests need" /* with FERRY_E_LIMIT_REACHED */

/* 0; FERRY_E_TOO_LARGE (body_max); FERRY_E_LIMIT_REACHED (bodies_max); -ENOMEM. */
int body_append(struct http_server *server, struct ferry_buffer *body, const char *data, size_t size);

/* Wipes and frees the body. */
void body_drop(struct http_server *server, struct ferry_buffer *body);

/*
 * Parses the body, with room for the most that its tree may take. 0 with *ret_json and *ret_room for body_drop_json;
 * FERRY_E_INVALID_JSON with a complaint, also where bodies_max has no such room; FERRY_E_LIMIT_REACHED: it has not at
 * present; -ENOMEM.
 */
int body_parse(struct http_server *server, const struct ferry_buffer *body, struct json_object **ret_json,
               size_t *ret_room, struct ferry_json_errors *errors);

void body_drop_json(struct http_server *server, struct json_object *json, size_t room);

#endif
