/* SPDX-License-Identifier: Apache-2.0 */
#include "making.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/util.h"
#include "latch.h"
#include "memory/region.h"
#include "request.h"

struct making {
        struct region *region; /* a reference, the request's */
        struct region_table *owner;
        atomic_uint references; /* the request's, and the region's until its callback */
        struct region_waiter waiter;
        struct http_latch over;
};

static void making_unref(struct making *making)
{
        if (atomic_fetch_sub(&making->references, 1) != 1)
                return;
        latch_destroy(&making->over);
        free(making);
}

/* Any thread. */
static void on_over(struct region_waiter *waiter)
{
        struct making *making = FERRY_CONTAINER_OF(waiter, struct making, waiter);

        latch_set(&making->over);
        making_unref(making);
}

static void making_end(struct http_request *request)
{
        struct making *making = request->state;

        if (region_unwait(making->region, &making->waiter))
                making_unref(making);
        if (making->owner)
                (void)region_delete(making->owner, making->region->id);
        region_unref(making->region);
        making_unref(making);
}

static int begin(struct http_request *request, struct region *region, struct region_table *owner,
                 bool (*wait)(struct region *region, struct region_waiter *waiter))
{
        struct making *making = calloc(1, sizeof(*making));

        if (!making)
                return -ENOMEM;
        latch_init(&making->over);
        making->region = region;
        making->owner = owner;
        making->waiter.wake = on_over;
        atomic_init(&making->references, 2);
        if (!wait(region, &making->waiter))
                on_over(&making->waiter);
        request_keep(request, making, making_end);
        return 0;
}

int making_begin(struct http_request *request, struct region *region, struct region_table *owner)
{
        return begin(request, region, owner, region_wait);
}

int making_begin_unused(struct http_request *request, struct region *region)
{
        return begin(request, region, NULL, region_wait_unused);
}

void making_keep(struct making *making)
{
        making->owner = NULL;
}

struct http_latch *making_over(struct making *making)
{
        return &making->over;
}

struct region *making_region(const struct making *making)
{
        return making->region;
}
