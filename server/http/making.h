/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_MAKING_H
#define HTTP_MAKING_H

#include <stdbool.h>

struct http_latch;
struct http_request;
struct region;
struct region_table;

/*
 * A request's wait for a region being prepared, or for the end of its uses. It is the request's state, and ends with
 * it. Other threads touch only the latch.
 */
struct making;

/*
 * Starts the wait. On success takes over the caller's reference of region. owner: the wait's end deletes the region
 * from it, unless making_keep was called; NULL = the region is another request's. 0 or -ENOMEM.
 */
int making_begin(struct http_request *request, struct region *region, struct region_table *owner);

/* The same until nothing uses a region that is ready. */
int making_begin_unused(struct http_request *request, struct region *region);

/* The client will have the region. */
void making_keep(struct making *making);

/* Happens when the region is ready or has failed, or is unused. */
struct http_latch *making_over(struct making *making);

struct region *making_region(const struct making *making);

#endif
