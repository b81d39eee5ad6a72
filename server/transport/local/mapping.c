/* SPDX-License-Identifier: Apache-2.0 */
#include "mapping.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "frame.h"
#include "memfd.h"

static const uint64_t bytes_max = UINT64_C(1) << 44; /* a tenth of what a process can address */

/* ---- unmapping ---- */

/* Unpinning may take long and wait for the device, so the progress thread must not do it. */

static void unmap(const struct gpu_pin *range)
{
        (void)munmap((void *)(uintptr_t)range->address, range->size);
}

static void unpin_run(void *context)
{
        struct gpu_pin *range = context;

        gpu_pin_end(range);
        unmap(range);
        free(range);
}

static void close_run(void *context)
{
        gpu_close(context);
}

void unmap_range(struct gpu_pin *range, struct copier *copier)
{
        struct gpu_pin *copy = gpu_is_pinned(range) ? malloc(sizeof(*copy)) : NULL;

        if (copy) {
                gpu_pin_move(copy, range);
                copier_run_detached(copier, (struct copier_gpus){ .one = 1 + copy->gpu }, unpin_run, copy);
                return;
        }
        gpu_pin_end(range);
        unmap(range);
}

void unmap_gpu(const struct space *space, struct copier *copier)
{
        if (space)
                copier_run_detached(copier, copier_gpus_of(space, NULL), close_run, (void *)(uintptr_t)space);
}

/* ---- mappings ---- */

/* Makes a mapping without an address. 0, -EBADMSG, -ENOSPC or -ENOMEM. */
static int mapping_new(const struct mappings *mappings, uint64_t id, uint64_t size, struct mapping **ret_mapping)
{
        struct mapping *mapping;

        HASH_FIND(hh, mappings->by_id, &id, sizeof(id), mapping);
        if (mapping)
                return -EBADMSG;
        if (mappings->n >= FRAME_MEMORIES_MAX)
                return -ENOSPC;
        mapping = calloc(1, sizeof(*mapping));
        if (!mapping)
                return -ENOMEM;
        mapping->id = id;
        mapping->size = size;
        mapping->users = 1; /* the peer's own use */
        *ret_mapping = mapping;
        return 0;
}

/* Adds the mapping to the table, or frees it. 0, -ENOSPC or -ENOMEM. */
static int mapping_enter(struct mappings *mappings, struct mapping *mapping)
{
        int r = 0;

        mappings->n++;
        mappings->bytes += mapping->range.size;
        HASH_ADD(hh, mappings->by_id, id, sizeof(mapping->id), mapping);
        if (mappings->bytes > bytes_max || !mapping->hh.tbl) {
                r = mapping->hh.tbl ? -ENOSPC : -ENOMEM;
                if (mapping->hh.tbl)
                        HASH_DEL(mappings->by_id, mapping);
                mapping_put(mappings, mapping);
        }
        return r;
}

int mappings_add(struct mappings *mappings, uint64_t id, uint64_t size, int fd)
{
        struct mapping *mapping;
        void *address = NULL;
        int r = mapping_new(mappings, id, size, &mapping);

        if (r < 0)
                return r;
        r = memfd_map(fd, size, &address, &mapping->range.size);
        if (r < 0) {
                free(mapping);
                return r;
        }
        mapping->address = mapping->range.address = address;
        mapping->range.read_only = true;
        return mapping_enter(mappings, mapping);
}

int mappings_add_gpu(struct mappings *mappings, uint64_t id, uint64_t size, struct mapping **ret_mapping)
{
        struct mapping *mapping;
        int r = mapping_new(mappings, id, size, &mapping);

        if (r == 0)
                r = mapping_enter(mappings, mapping);
        if (r < 0)
                return r;
        mapping->users++;
        *ret_mapping = mapping;
        return 0;
}

int mappings_remove(struct mappings *mappings, uint64_t id)
{
        struct mapping *mapping;

        HASH_FIND(hh, mappings->by_id, &id, sizeof(id), mapping);
        if (!mapping)
                return -EBADMSG;
        HASH_DEL(mappings->by_id, mapping);
        mapping_put(mappings, mapping);
        return 0;
}

const uint8_t *mapping_get(struct mappings *mappings, uint64_t id, uint64_t offset, uint64_t size,
                           struct mapping **ret_mapping)
{
        struct mapping *mapping;
        uint64_t end;

        HASH_FIND(hh, mappings->by_id, &id, sizeof(id), mapping);
        if (!mapping || !mapping->address || size == 0 || __builtin_add_overflow(offset, size, &end) ||
            end > mapping->size)
                return NULL;
        mapping->users++;
        *ret_mapping = mapping;
        return mapping->address + offset;
}

void mapping_put(struct mappings *mappings, struct mapping *mapping)
{
        if (--mapping->users > 0)
                return;
        mappings->n--;
        mappings->bytes -= mapping->range.size;
        if (mapping->range.size)
                unmap_range(&mapping->range, mappings->copier);
        else
                mappings->close(mappings, mapping->id, mapping->space);
        free(mapping);
}

void mappings_clear(struct mappings *mappings)
{
        struct mapping *mapping, *next;

        HASH_ITER (hh, mappings->by_id, mapping, next) {
                HASH_DEL(mappings->by_id, mapping);
                mapping_put(mappings, mapping);
        }
}
