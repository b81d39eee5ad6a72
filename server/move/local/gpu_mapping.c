/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "local_internal.h"

/*
 * Opening and closing a peer's GPU memory. Two tasks of the pool open it: the first finds the GPU here that can, on no
 * GPU's lane, the second opens the memory on that GPU's lane, where the driver may take any time. The peer learns the
 * result by FRAME_MAPPED, and by FRAME_UNMAPPED that memory is not open any more and may be freed.
 *
 * Thread: the progress thread, but for the functions whose names end in _run. A link ends only when no opening and no
 * closing is left (progress.c), so a task may use its channel.
 */

static enum pool_verdict open_run(struct pool_task *task)
{
        struct gpu_opening *opening = FERRY_CONTAINER_OF(task, struct gpu_opening, task);

        opening->result = gpu_open(&opening->share, opening->mapping->size, &opening->space, &opening->address);
        return POOL_DONE;
}

/* Frees the opening; the mapping keeps what was opened. */
static void finish_opening(struct gpu_opening *opening)
{
        opening->mapping->space = opening->space;
        opening->mapping->address = opening->address;
        DL_DELETE(opening->channel->openings, opening);
        mapping_put(&opening->channel->mappings, opening->mapping);
        free(opening);
}

/* Opened, or not: tells the peer either way, since it waits for the answer. */
static void open_ran(struct pool_task *task)
{
        struct gpu_opening *opening = FERRY_CONTAINER_OF(task, struct gpu_opening, task);
        struct mapping_pool *pool = opening->channel->mappings.pool;

        if (opening->result < 0)
                log_event(LOG_INFO, "GPU memory of a local peer not opened, so the peer stages it",
                          LOG_S("peer_epoch", channel_peer_epoch(opening->channel, (char[FERRY_ID_TEXT_SIZE]){ 0 })),
                          LOG_S("reason", strerror(-opening->result)));
        channel_post_frame(opening->channel,
                           FRAME_OF(FRAME_MAPPED, .id = opening->mapping->id, .n = opening->result == 0), NULL);
        finish_opening(opening);
        mapping_pool_trim(pool);
}

static enum pool_verdict find_run(struct pool_task *task)
{
        struct gpu_opening *opening = FERRY_CONTAINER_OF(task, struct gpu_opening, task);

        opening->result = gpu_find(&opening->share, &opening->gpu);
        return POOL_DONE;
}

/* A thread of the GPU's lane opens it. */
static void find_ran(struct pool_task *task)
{
        struct gpu_opening *opening = FERRY_CONTAINER_OF(task, struct gpu_opening, task);

        if (opening->result == 0 && !link_is_usable(&opening->channel->link))
                opening->result = -ECANCELED;
        if (opening->result < 0) {
                open_ran(task);
                return;
        }
        *task = (struct pool_task){
                .run = open_run, .done = open_ran, .class = POOL_WORK, .devices.one = 1 + opening->gpu
        };
        pool_add_or_run(channel_local(opening->channel)->tasks, task);
}

int gpu_mapping_open(struct channel *channel, uint64_t id, uint64_t size, const void *share)
{
        struct gpu_opening *opening = calloc(1, sizeof(*opening));
        int r = opening ? mappings_add_gpu(&channel->mappings, id, size, &opening->mapping) : -ENOMEM;

        if (r < 0) {
                free(opening);
                return r;
        }
        opening->task = (struct pool_task){ .run = find_run, .done = find_ran, .class = POOL_WORK };
        opening->channel = channel;
        memcpy(&opening->share, share, sizeof(opening->share));
        DL_APPEND(channel->openings, opening);
        pool_add_or_run(channel_local(channel)->tasks, &opening->task);
        return 0;
}

void gpu_mappings_end(struct channel *channel)
{
        struct gpu_opening *opening, *next;

        DL_FOREACH_SAFE (channel->openings, opening, next)
                if (pool_remove(&opening->task))
                        finish_opening(opening);
}

/* ---- closing ---- */

static enum pool_verdict close_run(struct pool_task *task)
{
        gpu_free(FERRY_CONTAINER_OF(task, struct gpu_closing, task)->space);
        return POOL_DONE;
}

static void close_ran(struct pool_task *task)
{
        struct gpu_closing *closing = FERRY_CONTAINER_OF(task, struct gpu_closing, task);

        channel_post_frame(closing->channel, FRAME_OF(FRAME_UNMAPPED, .id = closing->id), NULL);
        closing->channel->n_closings--;
        free(closing);
}

void gpu_mapping_close(struct mappings *mappings, uint64_t id, const struct space *space)
{
        struct channel *channel = FERRY_CONTAINER_OF(mappings, struct channel, mappings);
        struct gpu_closing *closing = malloc(sizeof(*closing));

        if (!closing) { /* no memory: the peer stops waiting at its time limit, or at the link's end */
                unmap_gpu(space, mappings->pool->tasks);
                return;
        }
        *closing = (struct gpu_closing){ .task = { .run = close_run,
                                                   .done = close_ran,
                                                   .class = POOL_WORK,
                                                   .devices = pool_devices_of(space, NULL) },
                                         .channel = channel,
                                         .id = id,
                                         .space = space };
        channel->n_closings++;
        pool_add_or_run(mappings->pool->tasks, &closing->task);
}
