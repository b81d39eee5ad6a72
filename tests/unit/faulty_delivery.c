/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/clock.h"
#include "faulty_internal.h"
#include "message/staging.h"

/* splitmix64 */
uint64_t faulty_draw(struct faulty *f)
{
        uint64_t z = f->random += UINT64_C(0x9e3779b97f4a7c15);

        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        return z ^ z >> 31;
}

uint64_t faulty_later(struct faulty *f)
{
        return clock_now_us() + (f->plan.delay_us ? faulty_draw(f) % f->plan.delay_us : 0);
}

void delivery_free(struct delivery *d)
{
        DL_DELETE(d->faulty->deliveries, d);
        free(d->buffer.address);
        free(d);
}

struct delivery *delivery_new(struct faulty *f, struct link *link, const struct wire_header *header, uint64_t length)
{
        struct delivery *d = calloc(1, sizeof(*d));

        assert(d);
        d->faulty = f;
        d->link = link;
        d->header = *header;
        d->length = length;
        d->buffer = (struct segment){ .address = malloc(length + 1), .size = length };
        assert(d->buffer.address);
        (void)stream_init(&d->stream, &d->buffer, 1); /* of one segment it owns nothing */
        DL_APPEND(f->deliveries, d);
        return d;
}

void delivery_finish(struct delivery *d, enum message_result result)
{
        struct message *message = d->message;
        bool tell = d->stage == STAGE_BEGUN || !message->begin;

        delivery_free(d);
        if (tell && message->done)
                message->done(message, result);
        message_free(message);
}

static void spoil(struct delivery *d)
{
        if (d->flip && d->buffer.size > 0)
                d->buffer.address[faulty_draw(d->faulty) % d->buffer.size] ^=
                        (uint8_t)(1 + faulty_draw(d->faulty) % 255);
        d->flip = false;
}

static void arrived(struct message *message, enum message_result result)
{
        struct delivery *d = message->owner;

        d->stage = STAGE_WAITING;
        d->result = result;
        if (result == MESSAGE_OK &&
            message->verify) /* a message of many checksums has none of all, but this one gets it */
                (void)stream_checksum(&d->stream, 0, d->length, &d->header.checksum);
        spoil(d);
}

void delivery_fetch(struct delivery *d, struct payload *payload)
{
        struct message *message;

        if (payload->bytes || payload->length == 0) {
                memcpy(d->buffer.address, payload->bytes ? payload->bytes : "", payload->length);
                d->stage = STAGE_WAITING;
                d->is_inline = true;
                spoil(d);
                return;
        }
        message = message_new(d->link->transport);
        assert(message);
        message->stream = &d->stream;
        message->header = d->header;
        message->verify = (d->header.flags & WIRE_VERIFY) != 0;
        message->length = payload->length;
        message->done = arrived;
        message->owner = d;
        message->transfer = faulty_draw(d->faulty); /* a cancel of the engine's is not for it */
        d->faulty->inner->receive(d->link, message, payload);
}

bool delivery_must_wait(const struct delivery *first, const struct delivery *end, const struct link *link,
                        uint64_t transfer)
{
        for (const struct delivery *d = first; d && d != end; d = d->next)
                if (d->ordered && d->stage <= STAGE_WAITING && d->link == link && d->header.transfer == transfer)
                        return true;
        return false;
}

/* The same once more, later. */
static void repeat(struct delivery *d)
{
        struct delivery *copy = delivery_new(d->faulty, d->link, &d->header, d->length);

        memcpy(copy->buffer.address, d->buffer.address, d->length);
        copy->stage = STAGE_WAITING;
        copy->is_inline = d->is_inline;
        copy->result = d->result;
        copy->due_us = faulty_later(d->faulty);
        d->again = false;
}

static void hand_over(struct delivery *d)
{
        struct faulty *f = d->faulty;
        struct payload payload = { .length = d->length,
                                   .bytes = d->is_inline ? d->buffer.address : NULL,
                                   .descriptor = d };

        if (!link_is_usable(d->link)) {
                delivery_free(d);
                return;
        }
        if (d->again)
                repeat(d);
        f->delivering = d;
        f->above.message(f->above.context, d->link, &d->header, &payload);
        f->delivering = NULL;
        if (!payload.taken)
                delivery_free(d);
}

static void store(struct delivery *d, uint64_t from, uint64_t to)
{
        to = to < d->length ? to : d->length;
        if (from < to)
                stream_store(d->message->stream, d->message->offset + from, d->buffer.address + from, to - from);
}

void delivery_advance(struct delivery *d)
{
        struct faulty *f = d->faulty;
        struct message *message = d->message;

        switch (d->stage) {
        case STAGE_ARRIVING:
                break;
        case STAGE_WAITING:
                hand_over(d);
                break;
        case STAGE_TAKEN:
                if (message->begin && !message->begin(message)) {
                        delivery_finish(d, MESSAGE_CANCELLED);
                        break;
                }
                d->stage = STAGE_BEGUN;
                d->due_us = faulty_later(f);
                store(d, 0, message->length / 2);
                if (d->result != MESSAGE_OK || message->verify) /* it is not compared yet */
                        break;
                message->copied = message->length / 2;
                if (message->piece_done && message->copied > 0)
                        message->piece_done(message); /* which may end it */
                break;
        case STAGE_BEGUN:
                store(d, message->length / 2, message->length);
                if (d->result == MESSAGE_OK && message->verify && message_check(message) < 0)
                        d->result = MESSAGE_DIFFERS;
                if (d->result == MESSAGE_OK)
                        message->copied = message->length;
                delivery_finish(d, d->result);
                break;
        }
}

bool delivery_is_due(const struct delivery *d, uint64_t now_us)
{
        if (d->stage == STAGE_ARRIVING || d->due_us > now_us)
                return false;
        return d->stage != STAGE_WAITING || !d->ordered ||
               !delivery_must_wait(d->faulty->deliveries, d, d->link, d->header.transfer);
}

struct delivery *delivery_find_due(const struct faulty *f, uint64_t now_us)
{
        struct delivery *d;

        DL_FOREACH (f->deliveries, d)
                if (delivery_is_due(d, now_us))
                        return d;
        return NULL;
}

struct delivery *delivery_find_taken(const struct faulty *f, const struct link *link, const uint64_t *transfer)
{
        struct delivery *d;

        DL_FOREACH (f->deliveries, d)
                if (d->stage >= STAGE_TAKEN && d->link == link && (!transfer || d->message->transfer == *transfer))
                        return d;
        return NULL;
}
