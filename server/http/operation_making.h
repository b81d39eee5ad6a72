/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_OPERATION_MAKING_H
#define HTTP_OPERATION_MAKING_H

#include <stdbool.h>

struct http_request;
struct json_object;
struct operation;
struct refusal;

/*
 * Creates the operation of a body and starts it if it is active. Returns it with a reference. NULL:
 * nothing was made; *refusal, which must be zeroed, says why. passive: refuse active kinds. may_run_inline: see
 * operation_begin.
 */
struct operation *operation_make(struct http_request *request, struct json_object *json, bool passive,
                                 bool may_run_inline, struct refusal *refusal);

#endif
