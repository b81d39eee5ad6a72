/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_OPERATION_MAKING_H
#define HTTP_OPERATION_MAKING_H

#include <stdbool.h>

struct http_request;
struct json_object;
struct operation;
struct refusal;

/*
 * Makes the operation that a body asks for, and starts it when it is an active one. Returns it with a reference; NULL
 * with the reason in *refusal, which was zero, and nothing is left of it. passive: an active one is refused. awaited:
 * as operation_begin has it.
 */
struct operation *operation_make(struct http_request *request, struct json_object *document, bool passive, bool awaited,
                                 struct refusal *refusal);

#endif
