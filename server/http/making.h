/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTTP_MAKING_H
#define HTTP_MAKING_H

#include <stdbool.h>

struct http_event;
struct region;

/*
 * A request that waits for a region being prepared. Owned by the request; only the event is touched by other threads.
 */
struct making;

/* Takes over a reference of region when it succeeds. 0 or -ENOMEM, another -errno. */
int making_new(struct region *region, struct making **ret_making);

/* Ends the wait, and gives back the reference. Takes NULL; returns NULL. */
struct making *making_free(struct making *making);

/* Happens when the region is no longer being prepared. */
struct http_event *making_over(struct making *making);

struct region *making_region(const struct making *making);

#endif
