/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/encoding.h>
#include <ferry/error.h>

#include "base/clock.h"
#include "base/util.h"
#include "memory/gpu.h"
#include "region_internal.h"

/*
 * Regions: their creation, adoption and use. region.h is the contract. A region is reserved in its table first (number
 * and bytes), then made: a small one here, a large one by tasks of the pool (region_make.c), an adopted one is only
 * registered. What fails gives the reservation back. From its listing on the table has a reference, the caller another.
 *
 * Thread: any but the engine's for what registers or deregisters. uses is one atomic word, so that an operation takes a
 * region without a lock; a deletion sets a bit in it, after which no use begins.
 */

/* A region without memory, with one reference. NULL when memory is short. */
static struct region_private *private_new(struct region_table *table, const struct region_spec *spec, bool owned)
{
        struct region_private *private = calloc(1, sizeof(*private));
        if (!private)
                return NULL;
        private->table = table;
        atomic_fetch_add(&table->references, 1);
        atomic_init(&private->references, 1);
        atomic_init(&private->state, REGION_PREPARING);
        atomic_init(&private->huge, true);
        private->owned = owned;
        private->on_gpu = strcmp(spec->device, "cpu") != 0;
        private->pages.fd = -1;
        struct region *region = &private->region;
        region->private = private;
        region->fd = -1;
        region->id = random_id();
        region->size = (size_t)spec->size;
        region->sealed = spec->sealed;
        region->held = spec->held;
        region->idle_ms = spec->idle_ms;
        region->created_unix_ms = clock_unix_ms();
        (void)snprintf(region->name, sizeof(region->name), "%s", spec->name ? spec->name : "");
        (void)snprintf(region->device, sizeof(region->device), "%s", spec->device);
        return private;
}

/* Whether there is such a device. 0 or FERRY_E_UNKNOWN_DEVICE. */
static int device_check(const char *device, char detail[REGION_DETAIL_SIZE])
{
        const char *reason;
        unsigned n, count;

        if (device && strcmp(device, "cpu") == 0)
                return 0;
        if (!device || !gpu_parse(device, &n)) {
                if (device && strlen(device) <= 64) /* whole: a cut may not be UTF-8 */
                        (void)snprintf(detail, REGION_DETAIL_SIZE, "\"%s\" is not a device such as cpu or cuda:0",
                                       device);
                return FERRY_E_UNKNOWN_DEVICE;
        }
        count = gpu_count(&reason);
        if (n < count)
                return 0;
        if (count == 0)
                (void)snprintf(detail, REGION_DETAIL_SIZE, "%s", reason);
        else
                (void)snprintf(detail, REGION_DETAIL_SIZE, "The last GPU of this worker is cuda:%u", count - 1);
        return FERRY_E_UNKNOWN_DEVICE;
}

/* Writes the sentence. Returns FERRY_E_INVALID_PARAMETER. */
static int invalid(char detail[REGION_DETAIL_SIZE], const char *reason)
{
        (void)snprintf(detail, REGION_DETAIL_SIZE, "%s", reason);
        return FERRY_E_INVALID_PARAMETER;
}

/* Checks a request for a region. Returns 0 or the FERRY_E_* of region_create(), with a sentence. */
static int parameters_check(const struct region_spec *spec, char detail[REGION_DETAIL_SIZE])
{
        int r = device_check(spec->device, detail);

        if (r != 0)
                return r;
        if (spec->sealed && strcmp(spec->device, "cpu") != 0)
                return invalid(detail, "Only host memory can be sealed");
        if (spec->size == 0)
                return invalid(detail, "A region has at least one byte");
        if (spec->name && (strlen(spec->name) >= REGION_NAME_SIZE || !ferry_utf8_valid(spec->name)))
                return invalid(detail, "The name of a region is UTF-8 of at most 64 bytes");
        if (spec->size <= INT64_MAX && spec->size <= SIZE_MAX)
                return 0;
        (void)snprintf(detail, REGION_DETAIL_SIZE, "No machine has an address space of this size");
        return FERRY_E_NO_SPACE;
}

/* The space of memory that the program owns. Errors as of region_adopt. */
static int adopt(struct region_private *private, void *address, char detail[REGION_DETAIL_SIZE])
{
        struct region *region = &private->region;

        region->address = address;
        if (private->on_gpu)
                return gpu_adopt(region->device, address, region->size, &region->space, detail);
        return foreign_adopt(&private->table->maps, address, region->size, &region->space, &region->read_only);
}

/* Lists a region whose memory is ready and registered, with one more reference for the caller. */
static int ready_list(struct region_private *private)
{
        int r;

        region_state_set(private, REGION_READY);
        atomic_fetch_add(&private->references, 1);
        r = region_table_add(private->table, private);
        if (r != 0)
                region_deregister(private);
        return r;
}

/* Makes and lists a small region. Returns 0, or an error with its memory freed. */
static int small_create(struct region_private *private, char detail[REGION_DETAIL_SIZE])
{
        int r = region_make_small(private, detail);

        if (r != 0)
                return r;
        r = ready_list(private);
        if (r != 0)
                pages_free(&private->pages);
        return r;
}

/*
 * Lists a region, and has the pool make it. Takes two more references: with the caller's, one each for the table and
 * the task.
 */
static int large_create(struct region_private *private)
{
        int r;

        atomic_fetch_add(&private->references, 2);
        r = region_table_add(private->table, private);
        if (r == 0)
                region_make_start(private);
        return r;
}

int region_create(struct region_table *table, const struct region_spec *spec, struct region **ret_region,
                  char detail[REGION_DETAIL_SIZE])
{
        char unread[REGION_DETAIL_SIZE];
        struct region_private *private;
        bool now;
        int r;

        if (!detail)
                detail = unread;
        detail[0] = '\0';
        r = parameters_check(spec, detail);
        if (r == 0)
                r = region_table_reserve(table, spec, spec->size, &now, detail);
        if (r != 0)
                return r;
        private = private_new(table, spec, true);
        if (!private)
                r = -ENOMEM;
        else if (now && !region_is_large(private))
                r = small_create(private, detail);
        else
                r = large_create(private);
        if (r != 0) {
                region_table_cancel(table, spec, spec->size);
                if (private)
                        region_private_free(private);
                return r;
        }
        *ret_region = &private->region;
        return 0;
}

int region_adopt(struct region_table *table, void *address, const struct region_spec *spec, struct region **ret_region,
                 char detail[REGION_DETAIL_SIZE])
{
        struct region_private *private;
        uintptr_t end;
        bool now;
        int r;

        detail[0] = '\0';
        r = parameters_check(spec, detail);
        if (r == 0 && (!address || __builtin_add_overflow((uintptr_t)address, spec->size - 1, &end)))
                r = invalid(detail, "No memory has this address and size");
        if (r == 0)
                r = region_table_reserve(table, spec, 0, &now, detail);
        if (r != 0)
                return r;
        private = private_new(table, spec, false);
        r = -ENOMEM;
        if (private) {
                r = adopt(private, address, detail);
                if (r == 0)
                        r = region_register(private, detail);
                if (r == 0)
                        r = ready_list(private);
        }
        if (r != 0) {
                region_table_cancel(table, spec, 0);
                if (private)
                        region_private_free(private);
                return r;
        }
        *ret_region = &private->region;
        return 0;
}

int region_check_writable(const struct region *region, uint64_t offset, uint64_t size)
{
        if (!region->read_only)
                return 0;
        return foreign_check_writable(&region->private->table->maps, (const uint8_t *)region->address + offset,
                                      (size_t)size);
}

int region_use(struct region *region)
{
        struct region_private *private = region->private;
        uint32_t uses = atomic_load(&private->uses);

        do {
                if (uses & REGION_DELETED)
                        return FERRY_E_NOT_FOUND;
                if (region_state(region) != REGION_READY)
                        return FERRY_E_REGION_NOT_READY;
        } while (!atomic_compare_exchange_weak(&private->uses, &uses, uses + 1));
        return 0;
}

void region_unuse(struct region *region)
{
        region_idle_touch(region->private); /* before the timer can find it unused */
        atomic_fetch_sub(&region->private->uses, 1);
}

void region_allow_content(struct region *region, bool allowed)
{
        atomic_store(&region->private->content_allowed, allowed);
}

bool region_content_allowed(const struct region *region)
{
        return !region->held || atomic_load(&region->private->content_allowed);
}

int region_stream_begin(struct region *region)
{
        int r = 0;

        if (!region->private->owned)
                r = region_use(region);
        else if (region_deleted(region))
                r = FERRY_E_NOT_FOUND;
        else if (region_state(region) != REGION_READY)
                r = FERRY_E_REGION_NOT_READY;
        if (r != 0)
                return r;
        atomic_fetch_add(&region->private->streams, 1);
        (void)region_ref(region);
        return 0;
}

/* The last stream of a deleted region lets its bytes count as being freed. */
void region_stream_end(struct region *region)
{
        if (!region->private->owned) {
                region_unuse(region);
                region_tell_unused(region);
        }
        region_idle_touch(region->private);
        if (atomic_fetch_sub(&region->private->streams, 1) == 1 && region->private->owned && region_deleted(region))
                region_table_begin_freeing(region->private->table, region->private);
        (void)region_unref(region);
}

uint32_t region_in_use(const struct region *region)
{
        return atomic_load(&region->private->uses) & REGION_USES;
}
