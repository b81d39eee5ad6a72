/* SPDX-License-Identifier: Apache-2.0 */
#include "outgoing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/space.h"
#include "lending.h"
#include "staged.h"

enum {
        PIECES_MAX = 32,     /* of an inline payload; more are copied together first */
        LEND_MIN = 64 << 10, /* bytes; if the extents of a message hold fewer, the payload goes through the ring */
};

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
        if (!lending_is_known(channel, stream, offset))
                return wait_for_room(channel);
        if (limit > WIRE_CHUNK_MAX)
                limit = WIRE_CHUNK_MAX;
        found = lending_find(channel, stream, offset, limit, &extents);
        if (found > 0 && (found >= LEND_MIN || !extents.full))
                return found;
        if (found == 0)
                limit = lending_find_other(channel, stream, offset, limit);
        if (limit <= WIRE_INLINE_MAX)
                return limit;
        if (lending_make_ring(channel) < 0) {
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

/* The pieces of a payload that travels inside. NULL: too many. */
static struct iovec *payload_pieces(const struct message *message, uint64_t length, struct iovec *next)
{
        const struct iovec *end = next + PIECES_MAX;
        uint64_t done = 0;

        if (message->stage) {
                *next++ = (struct iovec){ message->stage->bytes, length };
                return next;
        }
        while (done < length && next < end) {
                uint8_t *address;
                uint64_t run = stream_run(message->stream, message->offset + done, length - done, &address);

                *next++ = (struct iovec){ address, run };
                done += run;
        }
        return done < length ? NULL : next;
}

/* Sends the payload inside the datagram; copies it together first where it is scattered. */
static void send_inside(struct channel *channel, struct message *message)
{
        struct frame frame = frame_of(FRAME_MESSAGE);
        uint64_t length = message->stream ? message->length : 0;
        struct iovec pieces[2 + PIECES_MAX], *first, *next;
        uint8_t header[WIRE_SIZE], *copy = NULL;

        frame.size = length;
        wire_encode(&message->header, header);
        first = frame_pieces(pieces, &frame, header);
        next = payload_pieces(message, length, first);
        if (!next) {
                copy = malloc(length);
                if (!copy) {
                        message_finish(message, MESSAGE_NO_MEMORY);
                        return;
                }
                gather(copy, message->stream, message->offset, length);
                *first = (struct iovec){ copy, length };
                next = first + 1;
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
        frame.gpu_path = (uint8_t)message->gpu_path;
        wire_encode(&message->header, header);
        next = frame_pieces(pieces, &frame, header);
        *next++ = (struct iovec){ (void *)(uintptr_t)extents->list, extents->n * sizeof(extents->list[0]) };
        frame.slot = loan_grant(&channel->loans, frame.number, message, buffer);
        channel_post(channel, pieces, (size_t)(next - pieces), NULL);
        explicit_bzero(header, sizeof(header));
}

/* Finds a free buffer of the ring for the message; -1 = none. */
static int find_buffer(struct channel *channel, const struct message *message)
{
        if (message->length > LOAN_BUFFER_SIZE || lending_make_ring(channel) < 0)
                return -1;
        return loans_find_buffer(&channel->loans);
}

static void send_buffer(struct channel *channel, struct message *message, int buffer)
{
        struct extents extents = { .n = 1 };

        extents.list[0] =
                (struct frame_extent){ lending_ring_id, (uint64_t)buffer * LOAN_BUFFER_SIZE, message->length };
        send_lent(channel, message, &extents, buffer);
}

/* Lends the memory itself. 0; -ENOBUFS: some of it cannot be lent; -ENOMEM. */
static int send_memory(struct channel *channel, struct message *message)
{
        struct extents extents;
        int r;

        if (lending_find(channel, message->stream, message->offset, message->length, &extents) < message->length)
                return -ENOBUFS;
        r = lending_announce(channel, message->stream, message->offset, message->length);
        if (r == 0)
                send_lent(channel, message, &extents, -1);
        return r;
}

/* Sends a payload by a lease. One that does not fit, which fit() prevents, ends with MESSAGE_NO_MEMORY. */
static void send_outside(struct channel *channel, struct message *message)
{
        int r = channel->loans.n_free > 0 ? send_memory(channel, message) : -ENOMEM, buffer;

        if (r == -ENOBUFS && (buffer = find_buffer(channel, message)) >= 0) {
                gather(loans_buffer(&channel->loans, buffer), message->stream, message->offset, message->length);
                send_buffer(channel, message, buffer);
                r = 0;
        }
        if (r < 0)
                message_finish(message, MESSAGE_NO_MEMORY);
}

static bool goes_inside(const struct message *message)
{
        return message->length <= WIRE_INLINE_MAX || (message->inside && message->length <= FRAME_INSIDE_MAX);
}

/* ---- off the host ---- */

/* The staging steps that must run before the memory is lent. */
static unsigned steps_before(const struct channel *channel, const struct message *message)
{
        const struct space *space = stream_space(message->stream, message->offset);
        unsigned steps = message->verify ? STAGING_CHECKSUM : 0U;

        if ((space && space->foreign) || staged_has(channel, message->transfer))
                steps |= STAGING_CHECK;
        return steps;
}

static bool stage_in_ring(struct channel *channel, struct message *message)
{
        struct loans *loans = &channel->loans;
        int buffer = find_buffer(channel, message);

        if (buffer < 0 || !stage_new(channel_local(channel)->staging, message, loans_buffer(loans, buffer)))
                return false;
        loans->buffer_used[buffer] = true;
        message->stage->place = &loans->buffer_used[buffer];
        message->stage->pin = &loans->pin;
        return true;
}

static void send_off_host(struct channel *channel, struct message *message)
{
        struct staging *staging = channel_local(channel)->staging;
        unsigned steps = STAGING_LOAD;
        struct extents extents;
        bool staged;

        if (goes_inside(message)) {
                staged = stage_new_buffer(staging, message);
        } else if (lending_find(channel, message->stream, message->offset, message->length, &extents) ==
                   message->length) {
                steps = steps_before(channel, message);
                if (!steps) {
                        send_outside(channel, message);
                        return;
                }
                staged = stage_new(staging, message, NULL);
        } else {
                staged = stage_in_ring(channel, message);
        }
        if (!staged) {
                message_finish(message, MESSAGE_NO_MEMORY);
                return;
        }
        if (steps & STAGING_LOAD)
                message->gpu_path = GPU_PATH_STAGED;
        staged_load(channel, message, steps);
}

/* The buffer of the ring that holds a loaded message; -1 = none. */
static int buffer_of(const struct channel *channel, const struct message *message)
{
        const uint8_t *bytes = message->stage ? message->stage->bytes : NULL, *ring = channel->loans.ring;

        if (!bytes || !ring || bytes < ring || bytes >= ring + (size_t)LOAN_BUFFERS * LOAN_BUFFER_SIZE)
                return -1;
        return (int)((size_t)(bytes - ring) / LOAN_BUFFER_SIZE);
}

bool outgoing_may_leave(const struct channel *channel, const struct message *message)
{
        return goes_inside(message) || channel->loans.n_free > 0;
}

void outgoing_leave(struct channel *channel, struct message *message)
{
        int buffer = buffer_of(channel, message);

        message->stage->place = NULL; /* the loan owns the buffer from now on */
        if (goes_inside(message))
                send_inside(channel, message);
        else if (buffer >= 0)
                send_buffer(channel, message, buffer);
        else
                send_outside(channel, message);
}

/* ---- any ---- */

void outgoing_send(struct link *link, struct message *message)
{
        struct channel *channel = channel_of(link);
        bool has_payload = message->stream && message->length > 0;

        message->link = link;
        if (!link_is_usable(link))
                message_finish(message, MESSAGE_LOST);
        else if (has_payload && message->begin && !message->begin(message))
                message_finish(message, MESSAGE_CANCELLED);
        else if (has_payload && message->stream->off_host)
                send_off_host(channel, message);
        else if (!has_payload || goes_inside(message))
                send_inside(channel, message);
        else
                send_outside(channel, message);
}

/* ---- their end ---- */

/* Ends a slot's lease, if it is of the transfer; NULL = any. */
static void take_back(struct channel *channel, uint32_t slot, const uint64_t *transfer, enum message_result result)
{
        const struct message *message = channel->loans.loans[slot].message;

        if (message && (!transfer || message->transfer == *transfer))
                message_finish(loan_end(&channel->loans, slot), result);
}

void outgoing_cancel(struct channel *channel, uint64_t transfer)
{
        staged_cancel(channel, transfer);
        for (uint32_t slot = 0; slot < FRAME_LEASES; slot++)
                take_back(channel, slot, &transfer, MESSAGE_CANCELLED);
}

void outgoing_end(struct channel *channel)
{
        staged_end(channel);
        for (uint32_t slot = 0; slot < FRAME_LEASES; slot++)
                take_back(channel, slot, NULL, MESSAGE_LOST);
}

bool outgoing_released(struct channel *channel, uint32_t slot, uint64_t number, enum gpu_path path)
{
        struct message *message;

        if (!loan_release(&channel->loans, slot, number, &message))
                return false;
        if (message && path > message->gpu_path)
                message->gpu_path = path;
        if (message)
                message_finish(message, MESSAGE_OK);
        staged_flush(channel);
        return true;
}

bool outgoing_is_idle(const struct channel *channel)
{
        if (channel->queue || channel->loading)
                return false;
        for (size_t i = 0; i < FRAME_LEASES; i++)
                if (channel->loans.loans[i].message)
                        return false;
        return true;
}
