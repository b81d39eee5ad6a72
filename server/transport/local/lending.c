/* SPDX-License-Identifier: Apache-2.0 */
#include "lending.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/log.h"
#include "base/util.h"

/* Leaves room for the memories of one message and for the ring. */
enum { LENT_MAX = FRAME_MEMORIES_MAX - FRAME_EXTENTS_MAX - 1 };

/* ---- memory ---- */

/* The driver may take its time: here it may. NULL: it has no handles for such memory, which is staged then. */
static struct gpu_share *share_new(const struct space *space)
{
        struct gpu_share *share = malloc(sizeof(*share));

        if (share && gpu_share(space, share) < 0) {
                free(share);
                share = NULL;
        }
        return share;
}

int lending_register(struct transport *transport, struct memory *memory)
{
        struct memfd *memfd = NULL;
        int r = memory->fd < 0 ? 0 : memfd_open(memory->fd, &memfd);

        memory->handles[transport->index] = memory->space ? (void *)share_new(memory->space) : memfd;
        if (r == -EMFILE || r == -ENFILE || r == -ENOMEM) {
                log_event(LOG_ERROR, "memory registration failed", LOG_S("transport", transport->name),
                          LOG_S("reason", strerror(-r)), LOG_S("advice", "raise the limit of open files (ulimit -n)"));
                return r;
        }
        if (r < 0)
                log_event(LOG_INFO, "memory copied for local peers, not mapped", LOG_S("reason", strerror(-r)));
        return 0;
}

/* Takes over lent, which is in no table any more, until the peer has closed it. */
static void await_close(struct channel *channel, struct lent *lent)
{
        if (lent->space && link_is_usable(&channel->link)) {
                HASH_ADD(hh, channel->closing_by_id, id, sizeof(lent->id), lent);
                if (lent->hh.tbl)
                        return;
        }
        lent_free(lent);
}

void lending_closed(struct channel *channel, uint64_t id)
{
        struct lent *lent;

        HASH_FIND(hh, channel->closing_by_id, &id, sizeof(id), lent);
        if (!lent)
                return;
        HASH_DEL(channel->closing_by_id, lent);
        lent_free(lent);
}

void lending_deregister(struct transport *transport, struct memory *memory)
{
        struct local *local = (struct local *)(void *)transport;
        struct channel *channel;

        DL_FOREACH (local->channels, channel) {
                struct frame frame = frame_of(FRAME_FORGET);
                struct lent *lent;

                HASH_FIND(hh, channel->lent_by_id, &memory->id, sizeof(memory->id), lent);
                if (!lent)
                        continue;
                HASH_DEL(channel->lent_by_id, lent);
                await_close(channel, lent);
                frame.id = memory->id;
                channel_post_frame(channel, frame, NULL);
        }
        if (memory->space)
                free(memory->handles[transport->index]);
        else
                (void)memfd_drop(memory->handles[transport->index]);
        memory->handles[transport->index] = NULL;
}

static void *handle_of(const struct channel *channel, const struct memory *memory)
{
        return memory->handles[channel->link.transport->index];
}

static struct memfd *memfd_of_memory(const struct channel *channel, const struct memory *memory)
{
        return memory->space ? NULL : handle_of(channel, memory);
}

static struct lent *find_lent(const struct channel *channel, uint64_t id)
{
        struct lent *lent;

        HASH_FIND(hh, channel->lent_by_id, &id, sizeof(id), lent);
        return lent;
}

static bool peer_has(const struct channel *channel, uint64_t id)
{
        const struct lent *lent = find_lent(channel, id);

        return lent && lent->state == LENT;
}

static bool may_lend(const struct channel *channel, const struct memory *memory)
{
        if (memory->space)
                return peer_has(channel, memory->id);
        return memfd_of_memory(channel, memory) &&
               (HASH_COUNT(channel->lent_by_id) < LENT_MAX || peer_has(channel, memory->id));
}

/* 0 or -ENOMEM. */
static int lent_add(struct channel *channel, uint64_t id, int state)
{
        struct lent *lent = malloc(sizeof(*lent));

        if (!lent)
                return -ENOMEM;
        lent->id = id;
        lent->state = state;
        lent->space = NULL;
        HASH_ADD(hh, channel->lent_by_id, id, sizeof(id), lent);
        if (!lent->hh.tbl) {
                free(lent);
                return -ENOMEM;
        }
        return 0;
}

/* 0 or -ENOMEM. */
static int lend(struct channel *channel, uint64_t id, uint64_t size, struct memfd *memfd)
{
        struct frame frame = frame_of(FRAME_LEND);
        int r = lent_add(channel, id, LENT);

        if (r < 0)
                return r;
        frame.id = id;
        frame.size = size;
        channel_post_frame(channel, frame, memfd);
        return 0;
}

/* ---- memory of GPUs ---- */

/* Offers GPU memory to the peer, once. Memory that cannot be offered, or that the peer cannot open, is staged. */
static void offer(struct channel *channel, const struct memory *memory)
{
        struct frame frame = frame_of(FRAME_LEND_GPU);
        struct gpu_share *share = handle_of(channel, memory);
        struct iovec pieces[] = { { &frame, sizeof(frame) }, { share, sizeof(*share) } };

        if (!share || HASH_COUNT(channel->lent_by_id) >= LENT_MAX || lent_add(channel, memory->id, LENT_ASKED) < 0)
                return;
        find_lent(channel, memory->id)->space = memory->space;
        gpu_note_opened(memory->space);
        frame.id = memory->id;
        frame.size = memory->size;
        channel_post(channel, pieces, FERRY_ARRAY_SIZE(pieces), NULL);
}

bool lending_is_known(struct channel *channel, const struct stream *stream, uint64_t offset)
{
        const struct lent *lent;
        struct memory *memory;
        uint8_t *address;

        if (!stream_space(stream, offset))
                return true;
        (void)stream_run_in_segment(stream, offset, 1, &address, &memory);
        if (!find_lent(channel, memory->id))
                offer(channel, memory);
        lent = find_lent(channel, memory->id);
        return !lent || lent->state != LENT_ASKED;
}

void lending_answered(struct channel *channel, uint64_t id, bool opened)
{
        struct lent *lent = find_lent(channel, id);

        if (!lent || lent->state != LENT_ASKED)
                return; /* the memory was deregistered meanwhile */
        lent->state = opened ? LENT : LENT_REFUSED;
        if (!opened)
                log_event(LOG_INFO, "GPU memory staged for a local peer, which cannot open it",
                          LOG_S("peer_epoch", channel_peer_epoch(channel, (char[FERRY_ID_TEXT_SIZE]){ 0 })));
}

/* ---- extents ---- */

static bool add_extent(struct extents *extents, const struct frame_extent *next)
{
        struct frame_extent *last = extents->n > 0 ? &extents->list[extents->n - 1] : NULL;

        if (last && last->memory == next->memory && last->offset + last->size == next->offset) {
                last->size += next->size;
                return true;
        }
        extents->full = extents->n == FRAME_EXTENTS_MAX;
        if (!extents->full)
                extents->list[extents->n++] = *next;
        return !extents->full;
}

uint64_t lending_find(const struct channel *channel, const struct stream *stream, uint64_t offset, uint64_t limit,
                      struct extents *extents)
{
        uint64_t found = 0;

        extents->n = 0;
        extents->full = false;
        while (found < limit) {
                struct memory *memory;
                uint8_t *address;
                uint64_t run = stream_run_in_segment(stream, offset + found, limit - found, &address, &memory);
                struct frame_extent next = { memory->id, (uint64_t)(address - memory->address), run };

                if (!may_lend(channel, memory) || !add_extent(extents, &next))
                        break;
                found += run;
        }
        return found;
}

uint64_t lending_find_other(const struct channel *channel, const struct stream *stream, uint64_t offset, uint64_t limit)
{
        uint64_t found = 0;

        while (found < limit) {
                struct memory *memory;
                uint8_t *address;
                uint64_t run = stream_run_in_segment(stream, offset + found, limit - found, &address, &memory);

                if (may_lend(channel, memory))
                        break;
                found += run;
        }
        return found;
}

int lending_announce(struct channel *channel, const struct stream *stream, uint64_t offset, uint64_t length)
{
        uint64_t last = lending_ring_id;

        for (uint64_t done = 0; done < length;) {
                struct memory *memory;
                uint8_t *address;

                done += stream_run_in_segment(stream, offset + done, length - done, &address, &memory);
                if (memory->id == last || find_lent(channel, memory->id))
                        continue;
                last = memory->id;
                if (lend(channel, memory->id, memory->size, memfd_of_memory(channel, memory)) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* ---- the ring ---- */

int lending_make_ring(struct channel *channel)
{
        struct memfd *memfd = NULL;
        int r = channel->loans.ring ? 0 : loans_make_ring(&channel->loans, &memfd);

        if (!memfd)
                return r;
        r = lend(channel, lending_ring_id, (uint64_t)LOAN_BUFFERS * LOAN_BUFFER_SIZE, memfd);
        (void)memfd_drop(memfd);
        return r;
}
