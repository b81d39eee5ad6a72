/* SPDX-License-Identifier: Apache-2.0 */
#include "outgoing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/log.h"

enum {
        PIECES_MAX = 32,     /* of an inline payload; more are put together first */
        LEND_MIN = 64 << 10, /* scattered so finely that fewer bytes fit into one message's extents: by the ring */
        LENT_MAX = FRAME_MEMORIES_MAX - FRAME_EXTENTS_MAX - 1, /* one message and the ring may still add theirs */
};
static const uint64_t ring_id = UINT64_MAX; /* registered memory has smaller ones */

void message_finish(struct message *message, enum message_result result)
{
        struct transport *transport = message->link->transport;

        if (message->done)
                message->done(message, result);
        message_free(transport, message);
}

/* ---- memory ---- */

int outgoing_register(struct transport *transport, struct memory *memory)
{
        struct memfd *memfd = NULL;
        int r = memory->fd < 0 ? 0 : memfd_open(memory->fd, &memfd);

        memory->handles[transport->index] = memfd;
        if (r == -EMFILE || r == -ENFILE || r == -ENOMEM) {
                log_event(LOG_ERROR, "memory cannot be lent to local peers", LOG_S("reason", strerror(-r)),
                          LOG_S("advice", "raise the limit of open files (ulimit -n)"));
                return r;
        }
        if (r < 0)
                log_event(LOG_INFO, "memory is copied for local peers, not lent", LOG_S("reason", strerror(-r)));
        return 0;
}

void outgoing_unregister(struct transport *transport, struct memory *memory)
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
                free(lent);
                frame.id = memory->id;
                channel_post_frame(channel, frame, NULL);
        }
        memory->handles[transport->index] = memfd_drop(memory->handles[transport->index]);
}

static struct memfd *memfd_of_memory(const struct channel *channel, const struct memory *memory)
{
        return memory->handles[channel->link.transport->index];
}

static bool peer_has(const struct channel *channel, uint64_t id)
{
        struct lent *lent;

        HASH_FIND(hh, channel->lent_by_id, &id, sizeof(id), lent);
        return lent != NULL;
}

static bool may_lend(const struct channel *channel, const struct memory *memory)
{
        return memfd_of_memory(channel, memory) &&
               (HASH_COUNT(channel->lent_by_id) < LENT_MAX || peer_has(channel, memory->id));
}

/* 0 or -ENOMEM. */
static int lend(struct channel *channel, uint64_t id, uint64_t size, struct memfd *memfd)
{
        struct frame frame = frame_of(FRAME_LEND);
        struct lent *lent = malloc(sizeof(*lent));

        if (!lent)
                return -ENOMEM;
        lent->id = id;
        HASH_ADD(hh, channel->lent_by_id, id, sizeof(id), lent);
        if (!lent->hh.tbl) {
                free(lent);
                return -ENOMEM;
        }
        frame.id = id;
        frame.size = size;
        channel_post_frame(channel, frame, memfd);
        return 0;
}

/* ---- extents ---- */

struct extents {
        struct frame_extent list[FRAME_EXTENTS_MAX];
        size_t n;
        bool full; /* more would have been lent */
};

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

/* How many bytes from offset on can be lent by one message, and where they are. */
static uint64_t find_extents(const struct channel *channel, const struct stream *stream, uint64_t offset,
                             uint64_t limit, struct extents *extents)
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

/* How many bytes from offset on cannot be lent. */
static uint64_t find_unlendable(const struct channel *channel, const struct stream *stream, uint64_t offset,
                                uint64_t limit)
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

static int lend_extents(struct channel *channel, const struct stream *stream, uint64_t offset, uint64_t length)
{
        uint64_t last = ring_id;

        for (uint64_t done = 0; done < length;) {
                struct memory *memory;
                uint8_t *address;

                done += stream_run_in_segment(stream, offset + done, length - done, &address, &memory);
                if (memory->id == last || peer_has(channel, memory->id))
                        continue;
                last = memory->id;
                if (lend(channel, memory->id, memory->size, memfd_of_memory(channel, memory)) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* ---- the ring ---- */

static int make_ring(struct channel *channel)
{
        struct memfd *memfd = NULL;
        int r = channel->loans.ring ? 0 : loans_make_ring(&channel->loans, &memfd);

        if (!memfd)
                return r;
        r = lend(channel, ring_id, (uint64_t)LOAN_BUFFERS * LOAN_BUFFER_SIZE, memfd);
        (void)memfd_drop(memfd);
        return r;
}

/* ---- sending ---- */

static bool has_room(const struct channel *channel)
{
        return channel->queue_bytes < CHANNEL_QUEUE_ROOM && channel->loans.n_free > 0 &&
               (!channel->loans.ring || loans_find_buffer(&channel->loans) >= 0);
}

static uint64_t wait_for_room(struct channel *channel)
{
        channel->wants_room = true;
        return 0;
}

uint64_t outgoing_fit(struct link *link, const struct stream *stream, uint64_t offset, uint64_t limit, bool *ret_inside)
{
        struct channel *channel = channel_of(link);
        struct extents extents;
        uint64_t found;

        *ret_inside = false;
        if (channel->queue_bytes >= CHANNEL_QUEUE_ROOM)
                return wait_for_room(channel);
        if (limit <= WIRE_INLINE_MAX)
                return limit;
        if (channel->loans.n_free == 0)
                return wait_for_room(channel);
        if (limit > WIRE_CHUNK_MAX)
                limit = WIRE_CHUNK_MAX;
        found = find_extents(channel, stream, offset, limit, &extents);
        if (found > 0 && (found >= LEND_MIN || !extents.full))
                return found;
        if (found == 0)
                limit = find_unlendable(channel, stream, offset, limit);
        if (limit <= WIRE_INLINE_MAX)
                return limit;
        if (make_ring(channel) < 0) {
                *ret_inside = true;
                return limit < FRAME_INSIDE_MAX ? limit : FRAME_INSIDE_MAX;
        }
        if (loans_find_buffer(&channel->loans) < 0)
                return wait_for_room(channel);
        return limit < LOAN_BUFFER_SIZE ? limit : LOAN_BUFFER_SIZE;
}

void outgoing_tell_room(struct channel *channel)
{
        struct local *local = channel_local(channel);

        if (!channel->wants_room || !link_is_usable(&channel->link) || !has_room(channel))
                return;
        channel->wants_room = false;
        local->base.handlers.room(local->base.handlers.context, &channel->link);
}

static void gather(uint8_t *to, const struct stream *stream, uint64_t offset, uint64_t length)
{
        while (length > 0) {
                uint8_t *address;
                uint64_t run = stream_run(stream, offset, length, &address);

                local_copy(to, address, run, false);
                to += run;
                offset += run;
                length -= run;
        }
}

static struct iovec *frame_pieces(struct iovec pieces[2], struct frame *frame, uint8_t header[WIRE_SIZE])
{
        pieces[0] = (struct iovec){ frame, sizeof(*frame) };
        pieces[1] = (struct iovec){ header, WIRE_SIZE };
        return pieces + 2;
}

/* Inside the datagram, as it lies in memory, or put together first where it is scattered. */
static void send_inside(struct channel *channel, struct message *message)
{
        struct frame frame = frame_of(FRAME_MESSAGE);
        uint64_t length = message->stream ? message->length : 0, done = 0;
        struct iovec pieces[2 + PIECES_MAX], *next;
        uint8_t header[WIRE_SIZE], *copy = NULL;

        frame.size = length;
        wire_encode(&message->header, header);
        next = frame_pieces(pieces, &frame, header);
        while (done < length && next < pieces + 2 + PIECES_MAX) {
                uint8_t *address;
                uint64_t run = stream_run(message->stream, message->offset + done, length - done, &address);

                *next++ = (struct iovec){ address, run };
                done += run;
        }
        if (done < length) {
                copy = malloc(length);
                if (!copy) {
                        message_finish(message, MESSAGE_NO_MEMORY);
                        return;
                }
                gather(copy, message->stream, message->offset, length);
                next = pieces + 2;
                *next++ = (struct iovec){ copy, length };
        }
        channel_post(channel, pieces, (size_t)(next - pieces), NULL);
        free(copy);
        explicit_bzero(header, sizeof(header));
        message_finish(message, MESSAGE_OK);
}

static void send_lent(struct channel *channel, struct message *message, const struct extents *extents, int buffer)
{
        struct local *local = channel_local(channel);
        struct frame frame = frame_of(FRAME_MESSAGE);
        uint8_t header[WIRE_SIZE];
        struct iovec pieces[3], *next;

        frame.size = message->length;
        frame.number = ++local->lease_number;
        frame.n = (uint32_t)extents->n;
        wire_encode(&message->header, header);
        next = frame_pieces(pieces, &frame, header);
        *next++ = (struct iovec){ (void *)(uintptr_t)extents->list, extents->n * sizeof(extents->list[0]) };
        frame.slot = loan_grant(&channel->loans, frame.number, message, buffer);
        channel_post(channel, pieces, (size_t)(next - pieces), NULL);
        explicit_bzero(header, sizeof(header));
}

static int send_by_ring(struct channel *channel, struct message *message, struct extents *extents)
{
        int buffer = message->length <= LOAN_BUFFER_SIZE && make_ring(channel) == 0 ? loans_find_buffer(&channel->loans)
                                                                                    : -1;

        if (buffer < 0)
                return -ENOBUFS;
        gather(loans_buffer(&channel->loans, buffer), message->stream, message->offset, message->length);
        extents->n = 1;
        extents->list[0] = (struct frame_extent){ ring_id, (uint64_t)buffer * LOAN_BUFFER_SIZE, message->length };
        send_lent(channel, message, extents, buffer);
        return 0;
}

/* What does not fit although fit() was asked is the engine's mistake, and ends for lack of memory. */
static void send_outside(struct channel *channel, struct message *message)
{
        struct extents extents;
        int r;

        if (channel->loans.n_free == 0) {
                r = -ENOBUFS;
        } else if (find_extents(channel, message->stream, message->offset, message->length, &extents) ==
                   message->length) {
                r = lend_extents(channel, message->stream, message->offset, message->length);
                if (r == 0)
                        send_lent(channel, message, &extents, -1);
        } else {
                r = send_by_ring(channel, message, &extents);
        }
        if (r < 0)
                message_finish(message, MESSAGE_NO_MEMORY);
}

void outgoing_send(struct link *link, struct message *message)
{
        struct channel *channel = channel_of(link);
        bool has_payload = message->stream && message->length > 0;

        message->link = link;
        if (!link_is_usable(link))
                message_finish(message, MESSAGE_LOST);
        else if (has_payload && message->begin && !message->begin(message))
                message_finish(message, MESSAGE_CANCELLED);
        else if (!has_payload || message->length <= WIRE_INLINE_MAX ||
                 (message->inside && message->length <= FRAME_INSIDE_MAX))
                send_inside(channel, message);
        else
                send_outside(channel, message);
}

/* ---- their end ---- */

/* Takes back one slot's message, if it is of the transfer; NULL = of any. */
static void take_back(struct channel *channel, uint32_t slot, const uint64_t *transfer, enum message_result result)
{
        const struct message *message = channel->loans.loans[slot].message;

        if (message && (!transfer || message->transfer == *transfer))
                message_finish(loan_end(&channel->loans, slot), result);
}

void outgoing_cancel(struct channel *channel, uint64_t transfer)
{
        for (uint32_t slot = 0; slot < FRAME_LEASES; slot++)
                take_back(channel, slot, &transfer, MESSAGE_CANCELLED);
}

void outgoing_end(struct channel *channel)
{
        for (uint32_t slot = 0; slot < FRAME_LEASES; slot++)
                take_back(channel, slot, NULL, MESSAGE_LOST);
}

bool outgoing_released(struct channel *channel, uint32_t slot, uint64_t number)
{
        struct message *message;

        if (!loan_release(&channel->loans, slot, number, &message))
                return false;
        if (message)
                message_finish(message, MESSAGE_OK);
        return true;
}

bool outgoing_is_idle(const struct channel *channel)
{
        if (channel->queue)
                return false;
        for (size_t i = 0; i < FRAME_LEASES; i++)
                if (channel->loans.loans[i].message)
                        return false;
        return true;
}
