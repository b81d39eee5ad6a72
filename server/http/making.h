/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_MAKING_H
#define HTTP_MAKING_H

#include <stdbool.h>

struct http_event;
struct http_request;
struct region;

/*
 * A request's wait for a region being prepared: its state, which ends the wait and gives the region back. Only the
 * event is touched by other threads.
 */
struct making;

/* Makes it the request's state, and takes over a reference of region, when it succeeds. 0 or -ENOMEM, another -errno.
 */
int making_begin(struct http_request *request, struct region *region);

/* Happens when the region is no longer being prepared. */
struct http_event *making_over(struct making *making);

struct region *making_region(const struct making *making);

#endif
