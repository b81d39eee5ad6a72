/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_OPERATION_SET_H
#define HTTP_OPERATION_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ferry_json_writer;
struct http_latch;
struct http_request;
struct operation;
struct operation_set;

/*
 * The results of a request about several operations, in the request's order: each an operation or a problem. The
 * request's state; used by its thread only, but the latch may be set on any.
 */

/* Makes a set of n results, which becomes the request's state. 0 or -ENOMEM. */
int operation_set_begin(struct http_request *request, size_t n);

/* Sets result i to an operation; takes over the caller's reference. */
void operation_set_put(struct operation_set *set, size_t i, struct operation *operation);

/* Sets result i to a problem, whose document is taken out of the writer. */
void operation_set_refuse(struct operation_set *set, size_t i, struct ferry_json_writer *problem);

/* Sets result i to the operation of an id, or to the problem gone or not-found. */
void operation_set_find(struct operation_set *set, size_t i, const char *id);

/*
 * Returns a latch that is set when all results, or any, are done. Problems and deleted operations count as done. Call
 * once at most. The latch is valid until the request ends.
 */
struct http_latch *operation_set_wait(struct operation_set *set, bool any);

/*
 * Writes the array of present results. metadata: include the metadata of passive operations that have not ended. Once
 * the text has max bytes, further operations become problems.
 */
void operation_set_write(struct operation_set *set, struct http_request *request, bool metadata, size_t max,
                         struct ferry_json_writer *writer);

#endif
