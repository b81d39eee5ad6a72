/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "local_internal.h"

/*
 * Opening a peer's GPU memory. Two tasks of the pool do it: the first finds the GPU here that can, on no GPU's lane,
 * the second opens the memory on that GPU's lane, where the driver may take any time. The peer learns the result by
 * FRAME_MAPPED. A task has a use of the mapping, so that its link does not end before it.
 *
 * Thread: the progress thread, but for the functions whose names end in _run.
 */

static struct gpu_mapping *mapping_of(struct pool_task *task)
{
        return FERRY_CONTAINER_OF(task, struct gpu_mapping, task);
}

static enum pool_verdict open_run(struct pool_task *task)
{
        struct gpu_mapping *m = mapping_of(task);

        m->result = gpu_open(&m->share, m->base.size, &m->space, &m->address);
        return POOL_DONE;
}

/* Ends the opening's use. */
static void finish_opening(struct gpu_mapping *m)
{
        m->base.space = m->space;
        m->base.address = m->address;
        mapping_put(&m->base);
}

/* Opened, or not: tells the peer either way, since it waits for the answer. */
static void open_ran(struct pool_task *task)
{
        struct gpu_mapping *m = mapping_of(task);
        struct channel *channel = m->base.channel;

        if (m->result < 0)
                log_event(LOG_INFO, "GPU memory of a local peer not opened, so the peer stages it",
                          LOG_S("peer_epoch", channel_peer_epoch(channel, (char[FERRY_ID_TEXT_SIZE]){ 0 })),
                          LOG_S("reason", strerror(-m->result)));
        channel_post_frame(channel, FRAME_OF(FRAME_MAPPED, .id = m->base.id, .n = m->result == 0), NULL);
        finish_opening(m);
        mapping_pool_trim(&channel_local(channel)->mapped);
}

static enum pool_verdict find_run(struct pool_task *task)
{
        struct gpu_mapping *m = mapping_of(task);

        m->result = gpu_find(&m->share, &m->gpu);
        return POOL_DONE;
}

/* A thread of the GPU's lane opens it. */
static void find_ran(struct pool_task *task)
{
        struct gpu_mapping *m = mapping_of(task);

        if (m->result == 0 && !link_is_usable(&m->base.channel->link))
                m->result = -ECANCELED;
        if (m->result < 0) {
                open_ran(task);
                return;
        }
        *task = (struct pool_task){ .run = open_run, .done = open_ran, .class = POOL_WORK, .devices.one = 1 + m->gpu };
        pool_add_or_run(channel_local(m->base.channel)->tasks, task);
}

int gpu_mapping_open(struct channel *channel, uint64_t id, uint64_t size, const void *share)
{
        struct gpu_mapping *m;
        int r = mapping_add_gpu(channel, id, size, &m);

        if (r < 0)
                return r;
        m->task = (struct pool_task){ .run = find_run, .done = find_ran, .class = POOL_WORK };
        memcpy(&m->share, share, sizeof(m->share));
        pool_add_or_run(channel_local(channel)->tasks, &m->task);
        return 0;
}

void gpu_mappings_end(struct channel *channel)
{
        struct mapping *mapping, *next;

        HASH_ITER (hh, channel->mappings.by_id, mapping, next)
                if (mapping->range.size == 0 && pool_remove(&((struct gpu_mapping *)(void *)mapping)->task))
                        finish_opening((struct gpu_mapping *)(void *)mapping);
}
