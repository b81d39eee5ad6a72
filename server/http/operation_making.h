/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_OPERATION_MAKING_H
#define HTTP_OPERATION_MAKING_H

#include <stdbool.h>
#include <stddef.h>

struct http_request;
struct operation;
struct refusal;

/*
 * Creates the operation of a body, given as text, and starts it if it is active. Returns it with a reference. NULL:
 * nothing was made; *refusal, which must be zeroed, says why. passive: refuse active kinds. may_run_inline: see
 * operation_begin.
 */
struct operation *operation_make(struct http_request *request, const char *text, size_t size, bool passive,
                                 bool may_run_inline, struct refusal *refusal);

#endif
