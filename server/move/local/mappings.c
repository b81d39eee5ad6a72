/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/util.h"
#include "local_internal.h"

/*
 * Mappings: see mapping.h. A mapping lives from FRAME_MAP to FRAME_UNMAP, and longer while a pull uses it; users counts
 * the peer's own use and those of pulls. Those without a pull are idle, in order of their last use, and the oldest are
 * asked back where there are more than the pool's maximum; the owner's UNMAP ends them.
 *
 * Where the address space is full the memory is read by pread() from its descriptor instead (RLIMIT_AS), and mapped
 * when there is room. Thread: the progress thread, but for the functions whose names end in _run.
 */

static const uint64_t bytes_max = UINT64_C(1) << 44; /* a tenth of what a process can address */

enum {
        RETURN_US = 10000000, /* an owner that has not taken memory back after this is taken for stopped */
        MAP_COUNT = 65530,    /* Linux's default of vm.max_map_count */
        POOL_SHARE = 4,       /* of which peers' memory may have this part */
        POOL_STEP = 64,       /* a trim asks for this part of the maximum more than it must */
        POOL_RELIEF = 8,      /* … and for this part of all where a mapping fails */
};

static void close_file_run(void *context)
{
        (void)close((int)(intptr_t)context);
}

/* ---- the pool ---- */

size_t local_mappings_default(void)
{
        FERRY_CLEANUP(cleanup_file) FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
        unsigned long count;

        return (file && fscanf(file, "%lu", &count) == 1 ? count : MAP_COUNT) / POOL_SHARE;
}

/* The only place that changes a mapping's state and the pool's lists; n_asked counts the list asked. */
static void set_state(struct mapping *mapping, enum mapping_state state)
{
        struct mapping_pool *pool = &channel_local(mapping->channel)->mapped;

        if (mapping->state == MAPPING_IDLE)
                DL_DELETE(pool->idle, mapping);
        if (mapping->state == MAPPING_ASKED) {
                DL_DELETE(pool->asked, mapping);
                pool->n_asked--;
        }
        mapping->state = state;
        if (state == MAPPING_IDLE)
                DL_APPEND(pool->idle, mapping);
        if (state == MAPPING_ASKED) {
                DL_APPEND(pool->asked, mapping);
                pool->n_asked++;
        }
}

/* GPU memory that could not be opened takes no room, and a link has its bounce buffers mapped once. */
static void let_idle(struct mapping *mapping)
{
        if ((mapping->range.size || mapping->space) && mapping->id != FRAME_BOUNCE_ID)
                set_state(mapping, MAPPING_IDLE);
}

/* Asks for idle ones back, until so many are left at most. */
static void ask_back(struct mapping_pool *pool, size_t keep)
{
        uint64_t now_us = clock_now_us();
        struct mapping *mapping;

        /* An owner that does not answer, as a stopped process does not: its link's end unmaps all of its memory. */
        if (pool->asked && now_us >= pool->asked->asked_us + RETURN_US)
                channel_fail(pool->asked->channel, FERRY_E_PEER_LOST,
                             "it does not take back memory that this worker has no room to keep mapped");
        while (pool->n - pool->n_asked > keep && (mapping = pool->idle)) {
                mapping->asked_us = now_us;
                set_state(mapping, MAPPING_ASKED);
                channel_post_frame(mapping->channel, FRAME_OF(FRAME_IDLE, .id = mapping->id), NULL);
        }
}

void mapping_pool_trim(struct mapping_pool *pool)
{
        if (pool->n - pool->n_asked > pool->max)
                ask_back(pool, pool->max - pool->max / POOL_STEP);
}

/* ---- mappings ---- */

static struct mapping *find(const struct channel *channel, uint64_t id)
{
        struct mapping *mapping;

        HASH_FIND(hh, channel->mappings.by_id, &id, sizeof(id), mapping);
        return mapping;
}

/* The last use has ended, and what was mapped is not any more. */
static void forget(struct mapping *mapping)
{
        struct mapping_pool *pool = &channel_local(mapping->channel)->mapped;

        mapping->channel->mappings.n--;
        mapping->channel->mappings.bytes -= mapping->range.size;
        pool->n--;
        metric_add(pool->metric, -1);
        free(mapping);
}

/*
 * Enters a mapping without an address, of which the peer has a use: in so many bytes, which begin with it, and of so
 * many bytes of host memory. 0, -EBADMSG, -ENOSPC or -ENOMEM.
 */
static int mapping_new(struct channel *channel, uint64_t id, uint64_t size, size_t own_size, uint64_t on_host,
                       struct mapping **ret_mapping)
{
        struct mapping_pool *pool = &channel_local(channel)->mapped;
        struct mappings *mappings = &channel->mappings;
        struct mapping *mapping;

        if (find(channel, id))
                return -EBADMSG;
        if (mappings->n >= FRAME_MEMORIES_MAX || on_host > bytes_max - mappings->bytes)
                return -ENOSPC;
        mapping = calloc(1, own_size);
        if (!mapping)
                return -ENOMEM;
        *mapping = (struct mapping){ .id = id, .size = size, .fd = -1, .users = 1, .channel = channel };
        HASH_ADD(hh, mappings->by_id, id, sizeof(mapping->id), mapping);
        if (!mapping->hh.tbl) {
                free(mapping);
                return -ENOMEM;
        }
        mapping->range.size = on_host;
        mappings->n++;
        mappings->bytes += on_host;
        pool->n++;
        metric_add(pool->metric, 1);
        *ret_mapping = mapping;
        return 0;
}

int mapping_add(struct channel *channel, uint64_t id, uint64_t size, int fd)
{
        struct mapping_pool *pool = &channel_local(channel)->mapped;
        struct mapping *mapping;
        void *address = NULL;
        int r = mapping_new(channel, id, size, sizeof(*mapping), size, &mapping);

        if (r < 0)
                return r;
        r = memfd_map(fd, size, &address);
        if (r == -ENOMEM) {
                log_event(LOG_INFO, "memory of a local peer read, not mapped", LOG_U("size", size),
                          LOG_S("reason", "the address space is limited (RLIMIT_AS, ulimit -v; vm.max_map_count)"));
                ask_back(pool, pool->n - pool->n / POOL_RELIEF - 1);
                r = mapping->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
                if (r < 0)
                        r = -errno;
        }
        if (r < 0) {
                HASH_DEL(channel->mappings.by_id, mapping);
                forget(mapping);
                return r;
        }
        mapping->address = mapping->range.address = address;
        mapping->range.read_only = true;
        let_idle(mapping);
        mapping_pool_trim(pool);
        return 0;
}

int mapping_add_gpu(struct channel *channel, uint64_t id, uint64_t size, struct gpu_mapping **ret_mapping)
{
        struct mapping *mapping;
        int r = mapping_new(channel, id, size, sizeof(**ret_mapping), 0, &mapping);

        if (r < 0)
                return r;
        mapping->users++;
        *ret_mapping = (struct gpu_mapping *)(void *)mapping; /* its first member */
        return 0;
}

/* Ends the peer's own use. */
static void end_use(struct mapping *mapping)
{
        HASH_DEL(mapping->channel->mappings.by_id, mapping);
        set_state(mapping, MAPPING_GONE);
        mapping_put(mapping);
}

int mapping_remove(struct channel *channel, uint64_t id)
{
        struct mapping *mapping = find(channel, id);

        if (!mapping)
                return -EBADMSG;
        end_use(mapping);
        return 0;
}

/* Maps what there was no room for before. */
static void map_read_memory(struct mapping *mapping)
{
        void *address;

        if (mapping->fd < 0 || mapping->users > 1 || memfd_map(mapping->fd, mapping->size, &address) < 0)
                return;
        mapping->address = mapping->range.address = address;
        (void)close(mapping->fd); /* the mapping keeps the file, so this frees nothing */
        mapping->fd = -1;
}

struct mapping *mapping_get(struct channel *channel, uint64_t id, uint64_t offset, uint64_t size)
{
        struct mapping *mapping = find(channel, id);
        uint64_t end;

        if (!mapping || (!mapping->address && mapping->fd < 0) || size == 0 ||
            __builtin_add_overflow(offset, size, &end) || end > mapping->size)
                return NULL;
        map_read_memory(mapping);
        if (mapping->state == MAPPING_IDLE)
                set_state(mapping, MAPPING_USED);
        mapping->users++;
        return mapping;
}

static enum pool_verdict close_run(struct pool_task *task)
{
        gpu_free(FERRY_CONTAINER_OF(task, struct gpu_mapping, task)->base.space);
        return POOL_DONE;
}

static void close_ran(struct pool_task *task)
{
        struct mapping *mapping = &FERRY_CONTAINER_OF(task, struct gpu_mapping, task)->base;

        channel_post_frame(mapping->channel, FRAME_OF(FRAME_UNMAPPED, .id = mapping->id), NULL);
        forget(mapping);
}

void mapping_put(struct mapping *mapping)
{
        struct pool_user *tasks = channel_local(mapping->channel)->tasks;

        if (--mapping->users == 1 && mapping->state == MAPPING_USED)
                let_idle(mapping);
        if (mapping->users > 0)
                return;
        if (mapping->range.size == 0) {
                struct pool_task *task = &((struct gpu_mapping *)(void *)mapping)->task;

                *task = (struct pool_task){ .run = close_run,
                                            .done = close_ran,
                                            .class = POOL_WORK,
                                            .devices = pool_devices_of(mapping->space, NULL) };
                pool_add_or_run(tasks, task);
                return;
        }
        if (mapping->fd >= 0)
                pool_run(tasks, POOL_WORK, (struct pool_devices){ 0 }, close_file_run, (void *)(intptr_t)mapping->fd);
        else
                unmap_range(&mapping->range, tasks);
        forget(mapping);
}

void mappings_clear(struct channel *channel)
{
        struct mapping *mapping, *next;

        HASH_ITER (hh, channel->mappings.by_id, mapping, next)
                end_use(mapping);
}
