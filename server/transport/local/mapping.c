/* SPDX-License-Identifier: Apache-2.0 */
#include "mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "frame.h"
#include "memfd.h"

static const uint64_t bytes_max = UINT64_C(1) << 44; /* a tenth of what a process can address */

enum { UNMAP_STEP = 64 << 20 }; /* bytes; between two steps other threads can map and unmap */

/* ---- unmapping ---- */

/*
 * Unpinning may wait for the device. Unmapping or closing takes as long as 0.2 s for each GiB where the peer has died,
 * since the last one that has a memory frees it. So the progress thread must do none of these.
 */

static void unmap(const struct gpu_pin *range)
{
        uint8_t *address = (uint8_t *)(uintptr_t)range->address;

        for (size_t done = 0; done < range->size; done += UNMAP_STEP)
                (void)munmap(address + done, range->size - done < UNMAP_STEP ? range->size - done : UNMAP_STEP);
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

static void close_file_run(void *context)
{
        (void)close((int)(intptr_t)context);
}

void unmap_range(struct gpu_pin *range, struct copier *copier)
{
        struct copier_gpus gpus = { .one = gpu_is_pinned(range) ? 1 + range->gpu : 0 };
        struct gpu_pin *copy = gpus.one || range->size > UNMAP_STEP ? malloc(sizeof(*copy)) : NULL;

        if (copy) {
                gpu_pin_move(copy, range);
                copier_run_detached(copier, gpus, unpin_run, copy);
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
        mapping->fd = -1;
        mapping->users = 1; /* the peer's own use */
        *ret_mapping = mapping;
        return 0;
}

/* Adds the mapping to the table, or frees it. 0 or -ENOMEM. */
static int mapping_enter(struct mappings *mappings, struct mapping *mapping)
{
        mappings->n++;
        mappings->bytes += mapping->range.size;
        HASH_ADD(hh, mappings->by_id, id, sizeof(mapping->id), mapping);
        if (mapping->hh.tbl)
                return 0;
        mapping_put(mappings, mapping);
        return -ENOMEM;
}

int mappings_add(struct mappings *mappings, uint64_t id, uint64_t size, int fd)
{
        struct mapping *mapping;
        void *address = NULL;
        int r = size <= bytes_max - mappings->bytes ? mapping_new(mappings, id, size, &mapping) : -ENOSPC;

        if (r < 0)
                return r;
        r = memfd_map(fd, size, &address);
        if (r == -ENOMEM) {
                log_event(LOG_INFO, "memory of a local peer read, not mapped", LOG_U("size", size),
                          LOG_S("reason", "the address space is limited (RLIMIT_AS, ulimit -v)"));
                r = mapping->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
                if (r < 0)
                        r = -errno;
        }
        if (r < 0) {
                free(mapping);
                return r;
        }
        mapping->address = mapping->range.address = address;
        mapping->range.size = size;
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

struct mapping *mapping_get(struct mappings *mappings, uint64_t id, uint64_t offset, uint64_t size)
{
        struct mapping *mapping;
        uint64_t end;

        HASH_FIND(hh, mappings->by_id, &id, sizeof(id), mapping);
        if (!mapping || (!mapping->address && mapping->fd < 0) || size == 0 ||
            __builtin_add_overflow(offset, size, &end) || end > mapping->size)
                return NULL;
        mapping->users++;
        return mapping;
}

void mapping_put(struct mappings *mappings, struct mapping *mapping)
{
        if (--mapping->users > 0)
                return;
        mappings->n--;
        mappings->bytes -= mapping->range.size;
        if (mapping->fd >= 0)
                copier_run_detached(mappings->copier, (struct copier_gpus){ 0 }, close_file_run,
                                    (void *)(intptr_t)mapping->fd);
        else if (mapping->range.size)
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
