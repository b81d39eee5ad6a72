/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_internal.h"

#include <errno.h>
#include <string.h>

#include <ferry/encoding.h>
#include <ferry/error.h>

#include "base/util.h"
#include "memory/region.h"
#include "operations/operations.h"

/*
 * Regions of the program: memory of its own, or memory that the worker allocates for it. They are held: REST lists and
 * uses them, but only the program deletes them, and allows others to store into them by HTTP.
 *
 * Contract: ferry/worker.h. Thread: any, but not a callback: making and deleting a region waits for the engine.
 */

enum { LET_GO_MS = 250 /* as a DELETE of a region waits, but this holds the program's thread */ };

_Static_assert((int)FERRY_WORKER_ID_SIZE == (int)FERRY_ID_TEXT_SIZE, "an id fits");

int ferry_worker_region_add(struct ferry_worker *worker, void *address, size_t size, const char *device,
                            const char *name, char ret_id[FERRY_WORKER_ID_SIZE])
{
        const struct region_spec spec = { .size = size, .device = device ?: "cpu", .name = name, .held = true };
        char detail[REGION_DETAIL_SIZE];
        struct region *region;
        int r;

        if (!worker_is_ours(worker->generation))
                return -ECHILD;
        r = region_adopt(worker->regions, address, &spec, &region, detail);
        if (r)
                return worker_fail(r, detail[0] ? "%s" : NULL, detail);
        ferry_id_format("rgn_", region->id, ret_id);
        region_unref(region);
        return 0;
}

int ferry_worker_region_alloc(struct ferry_worker *worker, size_t size, const char *device, const char *name,
                              void **ret_address, char ret_id[FERRY_WORKER_ID_SIZE])
{
        const struct region_spec spec = {
                .size = size,
                .device = device ?: "cpu",
                .name = name,
                .sealed = !device || strcmp(device, "cpu") == 0,
                .held = true,
        };
        char detail[REGION_DETAIL_SIZE] = "";
        struct region *region;
        int r;

        if (!worker_is_ours(worker->generation))
                return -ECHILD;
        r = region_create(worker->regions, &spec, &region, detail);
        if (r)
                return worker_fail(r, detail[0] ? "%s" : NULL, detail);
        r = region_await(region);
        if (r == 0) {
                ferry_id_format("rgn_", region->id, ret_id);
                *ret_address = region->address;
        } else {
                (void)worker_fail(r, region->detail[0] ? "%s" : NULL, region->detail);
                (void)region_delete_held(worker->regions, region->id);
        }
        region_unref(region);
        return r;
}

/* Finds a region of the program, and takes a reference. NULL: none. */
static struct region *find_held(struct ferry_worker *worker, const char *id)
{
        struct region *region;
        uint64_t number;

        region = id && ferry_id_parse("rgn_", id, &number) ? region_find(worker->regions, number) : NULL;
        if (region && region->held)
                return region;
        (void)worker_fail(FERRY_E_NOT_FOUND, "This program has no region \"%.*s\"", FERRY_WORKER_ID_SIZE, id ?: "");
        return region_unref(region);
}

int ferry_worker_region_allow(struct ferry_worker *worker, const char *id, int content_writes)
{
        struct region *region;

        if (!worker_is_ours(worker->generation))
                return -ECHILD;
        region = find_held(worker, id);
        if (!region)
                return FERRY_E_NOT_FOUND;
        region_allow_content(region, content_writes);
        region_unref(region);
        return 0;
}

/*
 * A peer's client may know of the end of a transfer before this worker does: a region that is in its last transfer is
 * waited for a moment.
 */
int ferry_worker_region_remove(struct ferry_worker *worker, const char *id)
{
        struct region *region;
        int r;

        if (!worker_is_ours(worker->generation))
                return -ECHILD;
        region = find_held(worker, id);
        if (!region)
                return FERRY_E_NOT_FOUND;
        r = region_delete_held(worker->regions, region->id);
        if (r == FERRY_E_REGION_IN_USE && operation_store_lets_go(worker->operations, region->id)) {
                region_await_unused(region, LET_GO_MS);
                r = region_delete_held(worker->regions, region->id);
        }
        region_unref(region);
        return r ? worker_fail(r, NULL) : 0;
}
