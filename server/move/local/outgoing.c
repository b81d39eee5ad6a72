/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/space.h"
#include "base/util.h"
#include "local_internal.h"

/*
 * Sends: how a payload travels, and its lease. Up to WIRE_INLINE_MAX bytes go inside the message. Longer ones are named
 * as extents of memory that the peer maps; what it cannot map, such as an embedding program's own memory, or many short
 * pieces, is first copied into a bounce buffer, BOUNCE_SIZE at a time. The message ends when the peer releases the
 * lease (outgoing_released), or when this side ends it (outgoing_end), which is one store and waits for nobody.
 *
 * outgoing_fit() decides, and says how many bytes go into one message; outgoing_send() finds the same way again. Bytes
 * off the host and long checksums pass through the pool first (staging.h). Thread: the progress thread.
 */

enum {
        /* Bytes. A message whose extents hold fewer is copied into a bounce buffer. */
        MAPPED_MIN = 64 << 10,
        LOOK_MIN = 4 << 20, /* bytes of a payload whose progress is looked at … */
        LOOK_US = 10000,    /* … at this interval */
};

/* ---- sending ---- */

/*
 * Whether a message that has been refused may fit now: the queue is short, and a lease is free. One that needs a bounce
 * buffer is refused again while none is free, since others that wait need none.
 */
static bool has_room(const struct channel *channel)
{
        return channel->queue_bytes < CHANNEL_QUEUE_ROOM && channel->leases.n_used < FRAME_LEASES;
}

/* Returns 0 for outgoing_fit(), and has outgoing_tell_room() call handlers->room. */
static uint64_t wait_for_room(struct channel *channel)
{
        channel->wants_room = true;
        return 0;
}

/*
 * The order of the tests is that of the costs: inline, mapped, through a bounce buffer. Where no bounce buffer can be
 * made the payload goes inline, up to FRAME_INLINE_MAX.
 */
uint64_t outgoing_fit(struct link *link, const struct stream *stream, uint64_t offset, uint64_t limit, bool *ret_inline)
{
        struct channel *channel = channel_of(link);
        struct extents extents;
        uint64_t found;

        *ret_inline = false;
        if (channel->queue_bytes >= CHANNEL_QUEUE_ROOM)
                return wait_for_room(channel);
        if (limit <= WIRE_INLINE_MAX)
                return limit;
        if (!leases_may_grant(&channel->leases, leases_owner(stream, offset)))
                return wait_for_room(channel);
        if (!export_is_decided(channel, stream, offset))
                return wait_for_room(channel);
        found = export_find_extents(channel, stream, offset, limit, &extents);
        if (found > 0 && (found >= MAPPED_MIN || !extents.full))
                return found;
        if (found == 0)
                limit = export_count_unmappable(channel, stream, offset, limit);
        if (limit <= WIRE_INLINE_MAX)
                return limit;
        if (export_bounce_buffers(channel) < 0) {
                *ret_inline = true;
                return limit < FRAME_INLINE_MAX ? limit : FRAME_INLINE_MAX;
        }
        if (leases_find_bounce(&channel->leases, leases_owner(stream, offset)) < 0)
                return wait_for_room(channel);
        return limit < BOUNCE_SIZE ? limit : BOUNCE_SIZE;
}

void outgoing_tell_room(struct channel *channel)
{
        struct local *local = channel_local(channel);

        if (!channel->wants_room || !link_is_usable(&channel->link) || !has_room(channel))
                return;
        channel->wants_room = false;
        local->base.handlers.room(local->base.handlers.context, &channel->link);
}

/* Sends the payload inline, in the datagram; copies it together first where it is scattered. */
static void send_inline(struct channel *channel, struct message *message)
{
        uint64_t length = message->stream ? message->length : 0;
        struct frame frame = FRAME_OF(FRAME_MESSAGE, .size = length);
        uint8_t header[WIRE_SIZE], *bytes = message->stage ? message->stage->bytes : NULL, *copy = NULL;

        if (length > 0 && !bytes && stream_run(message->stream, message->offset, length, &bytes) < length) {
                bytes = copy = malloc(length);
                if (!copy) {
                        message_end(message, MESSAGE_NO_MEMORY);
                        return;
                }
                (void)stream_load(message->stream, message->offset, copy, length);
        }
        wire_encode(&message->header, header);
        channel_post(channel, (struct iovec[]){ { &frame, sizeof(frame) }, { header, WIRE_SIZE }, { bytes, length } },
                     length > 0 ? 3 : 2, NULL);
        free(copy);
        explicit_bzero(header, sizeof(header));
        message->copied = length;
        message_end(message, MESSAGE_OK);
}

/*
 * Grants a lease and sends the message that names the extents. buffer: the bounce buffer that the lease frees; -1 =
 * none.
 */
static void post_mapped(struct channel *channel, struct message *message, const struct extents *extents, int buffer)
{
        uint64_t *digests = message->stage ? message->stage->digests : &message->header.checksum;
        struct frame frame =
                FRAME_OF(FRAME_MESSAGE, .size = message->length, .number = ++channel_local(channel)->lease_number,
                         .n = (uint32_t)extents->n, .gpu_path = (uint8_t)message->gpu_path,
                         .id = message->verify ? frame_digests(message->length) : 0);
        uint8_t header[WIRE_SIZE];
        const struct iovec pieces[] = {
                { &frame, sizeof(frame) },
                { header, WIRE_SIZE },
                { (void *)(uintptr_t)extents->list, extents->n * sizeof(extents->list[0]) },
                { digests, frame.id * sizeof(digests[0]) },
        };

        if (message->piece_done && message->length >= LOOK_MIN && channel_local(channel)->look_at_us == 0)
                channel_local(channel)->look_at_us = clock_now_us() + LOOK_US;
        wire_encode(&message->header, header);
        frame.slot = leases_grant(&channel->leases, frame.number, message, buffer);
        channel_post(channel, pieces, FERRY_ARRAY_SIZE(pieces) - (frame.id == 0), NULL);
        explicit_bzero(header, sizeof(header));
}

/* Finds a free bounce buffer for the message; -1 = none. */
static int find_buffer(struct channel *channel, const struct message *message)
{
        if (message->length > BOUNCE_SIZE || export_bounce_buffers(channel) < 0)
                return -1;
        return leases_find_bounce(&channel->leases, leases_owner(message->stream, message->offset));
}

/* Sends a payload that is in a bounce buffer. */
static void send_buffer(struct channel *channel, struct message *message, int buffer)
{
        struct extents extents = { .n = 1 };

        extents.list[0] = (struct frame_extent){ FRAME_BOUNCE_ID, (uint64_t)buffer * BOUNCE_SIZE, message->length };
        post_mapped(channel, message, &extents, buffer);
}

/* Has the memory itself mapped. 0; -ENOBUFS: the peer cannot map all of it; -ENOMEM. */
static int send_memory(struct channel *channel, struct message *message)
{
        struct extents extents;
        int r;

        if (export_find_extents(channel, message->stream, message->offset, message->length, &extents) < message->length)
                return -ENOBUFS;
        r = export_stream(channel, message->stream, message->offset, message->length);
        if (r == 0)
                post_mapped(channel, message, &extents, -1);
        return r;
}

/* Sends a payload by a lease. One that does not fit, which fit() prevents, ends with MESSAGE_NO_MEMORY. */
static void send_mapped(struct channel *channel, struct message *message)
{
        int r = channel->leases.n_used < FRAME_LEASES ? send_memory(channel, message) : -ENOMEM, buffer;

        if (r == -ENOBUFS && (buffer = find_buffer(channel, message)) >= 0) {
                (void)stream_load(message->stream, message->offset, leases_bounce(&channel->leases, buffer),
                                  message->length);
                send_buffer(channel, message, buffer);
                r = 0;
        }
        if (r < 0)
                message_end(message, MESSAGE_NO_MEMORY);
}

/* Whether the payload is inside the message. Digests of such a payload are one checksum, in the header. */
static bool travels_inline(const struct message *message)
{
        return message->length <= WIRE_INLINE_MAX || (message->force_inline && message->length <= FRAME_INLINE_MAX);
}

/*
 * ---- staged, on threads of move/message/staging.h: the checksums of long payloads are made, and bytes off the host
 * loaded, unless the peer can map them as they are ----
 */

/* Sends a message that has passed through the pool. */
static void leave(struct channel *channel, struct message *message)
{
        uint64_t *place = message->stage->place;

        message->stage->place = NULL; /* the lease owns the buffer from now on */
        if (travels_inline(message))
                send_inline(channel, message);
        else if (place)
                send_buffer(channel, message, (int)(place - channel->leases.bounce_owner));
        else
                send_mapped(channel, message);
}

void outgoing_loaded(struct channel *channel)
{
        if (channel->n_asked == 0)
                return;
        export_return_asked(channel);
        outgoing_tell_room(channel);
}

/* Sends loaded messages while there is room. */
static void send_loaded(struct link *link)
{
        struct message *m;

        while ((m = stage_take_loaded(link))) {
                if (!travels_inline(m) && channel_of(link)->leases.n_used == FRAME_LEASES) {
                        DL_PREPEND(link->loading, m);
                        break; /* until a release makes room */
                }
                leave(channel_of(link), m);
        }
        outgoing_loaded(channel_of(link));
}

/* Whether a message of the transfer is being loaded, which a later one must not overtake. */
static bool is_loading(const struct channel *channel, uint64_t transfer)
{
        const struct message *m;

        DL_SEARCH_SCALAR(channel->link.loading, m, transfer, transfer);
        return m;
}

/* The staging steps that must run before the peer copies from the memory. */
static unsigned steps_before(const struct channel *channel, const struct message *message)
{
        const struct space *space = stream_space(message->stream, message->offset);
        unsigned steps = message->verify ? STAGING_CHECKSUM : 0U;

        if ((space && space->foreign) || (!steps && is_loading(channel, message->transfer)))
                steps |= STAGING_CHECK;
        return steps;
}

/*
 * Gives a message a bounce buffer to be loaded into, and marks the buffer as taken before there is a lease. Returns
 * false when none is free or memory is short.
 */
static bool stage_in_ring(struct channel *channel, struct message *message)
{
        struct leases *leases = &channel->leases;
        int buffer = find_buffer(channel, message);

        if (buffer < 0 || !stage_new(channel_local(channel)->staging, message, leases_bounce(leases, buffer)))
                return false;
        leases->bounce_owner[buffer] = leases_owner(message->stream, message->offset);
        message->stage->place = &leases->bounce_owner[buffer];
        message->stage->pin = &leases->pin;
        return true;
}

/*
 * Has the pool load, check or digest a payload before it is sent. Memory of a GPU that the peer has open is sent as it
 * is, unless something must happen before.
 */
static void send_staged(struct channel *channel, struct message *message)
{
        struct staging *staging = channel_local(channel)->staging;
        unsigned steps = STAGING_LOAD;
        struct extents extents;
        bool staged;

        if (travels_inline(message)) {
                staged = stage_new_buffer(staging, message);
        } else if (export_find_extents(channel, message->stream, message->offset, message->length, &extents) ==
                   message->length) {
                steps = steps_before(channel, message);
                if (!steps) {
                        send_mapped(channel, message);
                        return;
                }
                /* Other messages must not take the last places for its memories meanwhile. */
                staged = export_stream(channel, message->stream, message->offset, message->length) == 0 &&
                         stage_new(staging, message, NULL);
        } else {
                staged = stage_in_ring(channel, message);
        }
        if (staged && message->verify && !travels_inline(message))
                staged = stage_digest_pieces(message, FRAME_DIGEST_PIECE);
        if (!staged) {
                message_end(message, MESSAGE_NO_MEMORY);
                return;
        }
        if (steps & STAGING_LOAD)
                message->gpu_path = message_gpu_path(message, GPU_PATH_STAGED);
        stage_load(message, steps, send_loaded);
}

/* ---- any ---- */

/* Whether a thread of the pool has something to do before the message leaves, or has for an earlier one. */
static bool must_stage(const struct channel *channel, const struct message *message)
{
        if (message->stream->off_host)
                return true;
        return message->verify && (message->length > FRAME_DIGEST_PIECE || is_loading(channel, message->transfer));
}

void outgoing_send(struct link *link, struct message *message)
{
        struct channel *channel = channel_of(link);
        bool has_payload = message->stream && message->length > 0;

        message->link = link;
        if (!link_is_usable(link)) {
                message_end(message, MESSAGE_LOST);
        } else if (has_payload && !message_begin(message)) {
                message_end(message, MESSAGE_CANCELLED);
        } else if (has_payload && must_stage(channel, message)) {
                send_staged(channel, message);
        } else {
                if (has_payload && message->verify)
                        (void)message_seal(message);
                if (!has_payload || travels_inline(message))
                        send_inline(channel, message);
                else
                        send_mapped(channel, message);
        }
}

/* ---- their progress ---- */

/* Whether there is a long one to look at again. The peer may say anything. */
static bool look(struct channel *channel)
{
        bool again = false;

        for (uint32_t slot = 0; slot < FRAME_LEASES; slot++) {
                struct message *message = channel->leases.slots[slot].message;
                uint64_t copied;

                if (!message || !message->piece_done)
                        continue;
                again |= message->length >= LOOK_MIN;
                if (!channel->peer_page)
                        continue;
                copied = atomic_load_explicit(&channel->peer_page->copied[slot], memory_order_relaxed);
                if (copied <= message->copied || copied > message->length)
                        continue;
                message->copied = copied;
                message->piece_done(message); /* may end it */
        }
        return again;
}

void outgoing_look(struct local *local)
{
        struct channel *channel;
        bool again = false;

        DL_FOREACH (local->channels, channel)
                if (link_is_usable(&channel->link))
                        again |= look(channel);
        local->look_at_us = again ? clock_now_us() + LOOK_US : 0;
}

/* ---- their end ---- */

void outgoing_end(struct channel *channel, const uint64_t *transfer, enum message_result result)
{
        for (uint32_t slot = 0; slot < FRAME_LEASES; slot++) {
                const struct message *message = channel->leases.slots[slot].message;

                if (message && (!transfer || message->transfer == *transfer))
                        message_end(leases_end(&channel->leases, slot), result);
        }
}

bool outgoing_released(struct channel *channel, uint32_t slot, uint64_t number, enum gpu_path path)
{
        struct message *message;

        if (!leases_release(&channel->leases, slot, number, &message))
                return false;
        if (message && path > message->gpu_path)
                message->gpu_path = path;
        if (message)
                message_end(message, MESSAGE_OK);
        send_loaded(&channel->link);
        return true;
}

bool outgoing_is_idle(const struct channel *channel)
{
        if (channel->queue || channel->link.loading)
                return false;
        for (size_t i = 0; i < FRAME_LEASES; i++)
                if (channel->leases.slots[i].message)
                        return false;
        return true;
}
