/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_OPERATION_SET_H
#define HTTP_OPERATION_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ferry_json_writer;
struct http_event;
struct http_request;
struct operation;
struct operation_set;
struct refusal;

/*
 * The results of a request about several operations, in the request's order: each an operation, or a problem. Owned by
 * the request and used by its thread only; the event below may happen on any.
 */

/* Makes a set of n results the request's state, which ends the wait and frees it. 0 or -errno. */
int operation_set_begin(struct http_request *request, size_t n);

/* Makes result i an operation, whose reference it takes over. */
void operation_set_put(struct operation_set *set, size_t i, struct operation *operation);

/* Makes result i a problem. */
void operation_set_refuse(struct operation_set *set, size_t i, const struct http_request *request,
                          const struct refusal *refusal);

/* Makes result i what an id names: an operation, or the problem gone or not-found. */
void operation_set_find(struct operation_set *set, size_t i, const char *id);

/*
 * The event that all results, or any, are done. A problem is done, and a deleted operation is. Called once at most; the
 * event stays until the request ends.
 */
struct http_event *operation_set_wait(struct operation_set *set, bool any);

/*
 * Writes the results as they are now, an array. metadata: with those of the passive operations that have not ended.
 * From max bytes on an operation is a problem.
 */
void operation_set_write(struct operation_set *set, struct http_request *request, bool metadata, size_t max,
                         struct ferry_json_writer *writer);

#endif
