/* SPDX-License-Identifier: Apache-2.0 */
#include "faulty_transport.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include <ferry/error.h>

#include "base/clock.h"
#include "base/util.h"
#include "transport/local.h"
#include "transport/ucx.h"

/*
 * The wrapped transport keeps its struct; its table of functions and its handlers are exchanged. So a link, a message
 * and registered memory are its own, and what meets no fault passes through.
 *
 * What does is kept: its payload is received into a buffer of ours, and it is handed over from there when it is due. A
 * payload that did not come inside its message is handed over as if it came in two halves, with time between begin,
 * the first half and done, in which a cancel or the end of the link may come.
 *
 * Thread: who holds the progress lock of the engine, as for every transport.
 */

enum delivery_stage {
        STAGE_ARRIVING, /* its payload is on its way into the buffer */
        STAGE_WAITING,  /* to be handed over */
        STAGE_TAKEN,    /* the engine has taken its payload */
        STAGE_BEGUN,    /* … and half of it is in place */
};

/* A message that is kept. */
struct delivery {
        struct faulty *faulty;
        struct link *link;
        enum delivery_stage stage;
        bool ordered; /* later messages of its transfer wait for it */
        bool is_inline;
        bool again; /* it is handed over once more */
        bool flip;
        uint64_t due_us;
        struct wire_header header;
        struct segment buffer;
        struct stream stream; /* of the buffer */
        uint64_t length;      /* of the payload that is handed over */
        enum message_result result;
        struct message *message; /* the engine's receive */
        struct delivery *prev, *next;
};

struct faulty {
        struct transport_ops ops; /* the transport's; by them it is found */
        const struct transport_ops *inner;
        struct transport_handlers above;
        struct faulty_plan plan;
        uint64_t random;
        struct delivery *deliveries;       /* utlist, in the order in which they came */
        const struct delivery *delivering; /* its payload may be taken now */
};

static struct faulty_plan next_plan;
static bool planned;
static atomic_ulong counts[FAULTS];
static atomic_ulong opened;

void faulty_set_plan(const struct faulty_plan *plan)
{
        next_plan = plan ? *plan : (struct faulty_plan){ 0 };
        planned = plan != NULL;
        opened = 0;
        for (int i = 0; i < FAULTS; i++)
                counts[i] = 0;
}

unsigned long faulty_count(enum fault fault)
{
        return counts[fault];
}

static struct faulty *faulty_of(const struct transport *transport)
{
        return FERRY_CONTAINER_OF(transport->ops, struct faulty, ops);
}

/* splitmix64 */
static uint64_t draw(struct faulty *f)
{
        uint64_t z = f->random += UINT64_C(0x9e3779b97f4a7c15);

        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        return z ^ z >> 31;
}

static uint64_t later(struct faulty *f)
{
        return clock_now_us() + (f->plan.delay_us ? draw(f) % f->plan.delay_us : 0);
}

/* Of the faults [first, end). */
static enum fault draw_fault(struct faulty *f, enum fault first, enum fault end)
{
        uint64_t number = draw(f) % 1000;

        for (enum fault fault = first; fault < end; fault++) {
                if (number < f->plan.per_mille[fault]) {
                        counts[fault]++;
                        return fault;
                }
                number -= f->plan.per_mille[fault];
        }
        return FAULT_NONE;
}

/* ---- deliveries ---- */

static void delivery_free(struct delivery *d)
{
        DL_DELETE(d->faulty->deliveries, d);
        free(d->buffer.address);
        free(d);
}

static struct delivery *delivery_new(struct faulty *f, struct link *link, const struct wire_header *header,
                                     uint64_t length)
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

/* Ends the engine's receive, unless it was not begun: then its done does not run. */
static void finish(struct delivery *d, enum message_result result)
{
        struct message *message = d->message;
        bool tell = d->stage == STAGE_BEGUN || !message->begin;
        struct transport *transport = d->link->transport;

        delivery_free(d);
        if (tell && message->done)
                message->done(message, result);
        message_free(transport, message);
}

static void spoil(struct delivery *d)
{
        if (d->flip && d->buffer.size > 0)
                d->buffer.address[draw(d->faulty) % d->buffer.size] ^= (uint8_t)(1 + draw(d->faulty) % 255);
        d->flip = false;
}

static void arrived(struct message *message, enum message_result result)
{
        struct delivery *d = message->owner;

        d->stage = STAGE_WAITING;
        d->result = result;
        spoil(d);
}

static void fetch(struct delivery *d, struct payload *payload)
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
        message->length = payload->length;
        message->done = arrived;
        message->owner = d;
        message->transfer = draw(d->faulty); /* a cancel of the engine's is not for it */
        d->faulty->inner->receive(d->link, message, payload);
}

/* Whether a message of its transfer is kept that it must not overtake. */
static bool must_wait(const struct delivery *first, const struct delivery *end, const struct link *link,
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
        copy->due_us = later(d->faulty);
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

/* It is due. */
static void advance(struct delivery *d)
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
                        finish(d, MESSAGE_CANCELLED);
                        break;
                }
                d->stage = STAGE_BEGUN;
                d->due_us = later(f);
                store(d, 0, message->length / 2);
                message->copied = message->length / 2;
                if (f->above.copied && message->copied > 0)
                        f->above.copied(f->above.context, message); /* which may end it */
                break;
        case STAGE_BEGUN:
                store(d, message->length / 2, message->length);
                message->copied = message->length;
                finish(d, d->result);
                break;
        }
}

static bool is_due(const struct delivery *d, uint64_t now_us)
{
        if (d->stage == STAGE_ARRIVING || d->due_us > now_us)
                return false;
        return d->stage != STAGE_WAITING || !d->ordered ||
               !must_wait(d->faulty->deliveries, d, d->link, d->header.transfer);
}

/* One that is due at that time; NULL = none. */
static struct delivery *find_due(const struct faulty *f, uint64_t now_us)
{
        struct delivery *d;

        DL_FOREACH (f->deliveries, d)
                if (is_due(d, now_us))
                        return d;
        return NULL;
}

static struct delivery *find_taken(const struct faulty *f, const struct link *link, const uint64_t *transfer)
{
        struct delivery *d;

        DL_FOREACH (f->deliveries, d)
                if (d->stage >= STAGE_TAKEN && d->link == link && (!transfer || d->message->transfer == *transfer))
                        return d;
        return NULL;
}

/* ---- what comes from below ---- */

/* A byte of the header differs. Whether it is still one. */
static bool flip_header(struct faulty *f, struct wire_header *header)
{
        uint8_t bytes[WIRE_SIZE], version;

        wire_encode(header, bytes);
        bytes[draw(f) % WIRE_SIZE] ^= (uint8_t)(1 + draw(f) % 255);
        return wire_decode(bytes, sizeof(bytes), header, &version) == WIRE_OK;
}

static void keep(struct faulty *f, struct link *link, const struct wire_header *header, struct payload *payload,
                 enum fault fault)
{
        struct delivery *d = delivery_new(f, link, header, payload->length);

        d->ordered = fault != FAULT_REORDER;
        d->again = fault == FAULT_REPEAT;
        d->flip = fault == FAULT_FLIP;
        d->due_us = fault == FAULT_DELAY || fault == FAULT_REORDER ? later(f) : 0;
        if (fault == FAULT_TRUNCATE)
                d->length = draw(f) % payload->length;
        fetch(d, payload);
}

static void on_message(void *context, struct link *link, const struct wire_header *header, struct payload *payload)
{
        struct faulty *f = faulty_of(link->transport);
        struct wire_header changed = *header;
        enum fault fault = f->plan.script ? f->plan.script(f->plan.context, header) : FAULT_NONE;

        if (fault == FAULT_NONE)
                fault = draw_fault(f, FAULT_DROP, FAULTS);
        else
                counts[fault]++;
        if (fault == FAULT_TRUNCATE && payload->length == 0)
                fault = FAULT_DROP;
        if (fault == FAULT_DROP || (fault == FAULT_FLIP_HEADER && !flip_header(f, &changed)))
                return;
        if (fault == FAULT_END)
                f->inner->fail(link, FERRY_E_PEER_LOST, "the test ended the link");
        else if (fault == FAULT_NONE && !must_wait(f->deliveries, NULL, link, header->transfer))
                f->above.message(context, link, header, payload);
        else
                keep(f, link, &changed, payload, fault);
}

static void on_ended(void *context, struct link *link)
{
        struct faulty *f = faulty_of(link->transport);
        struct delivery *d, *next;

        while ((d = find_taken(f, link, NULL)))
                finish(d, MESSAGE_LOST);
        DL_FOREACH_SAFE (f->deliveries, d, next)
                if (d->link == link)
                        delivery_free(d);
        f->above.ended(context, link);
}

/* ---- what the engine calls ---- */

static void send_message(struct link *link, struct message *message)
{
        struct faulty *f = faulty_of(link->transport);

        enum fault fault = link_is_usable(link) ? draw_fault(f, FAULT_SWALLOW, FAULT_DROP) : FAULT_NONE;

        if (fault != FAULT_NONE) {
                enum message_result result = fault == FAULT_SWALLOW ? MESSAGE_OK : MESSAGE_NO_MEMORY;
                bool wanted = !message->begin || message->begin(message);

                message->link = link;
                if (message->done)
                        message->done(message, wanted ? result : MESSAGE_CANCELLED);
                message_free(link->transport, message);
                return;
        }
        f->inner->send(link, message);
}

static void receive(struct link *link, struct message *message, struct payload *payload)
{
        struct faulty *f = faulty_of(link->transport);
        struct delivery *d = payload->descriptor;

        if (!d || d != f->delivering) {
                f->inner->receive(link, message, payload);
                return;
        }
        payload->taken = true;
        message->link = link;
        message->copied = 0;
        d->message = message;
        d->stage = STAGE_TAKEN;
        d->due_us = later(f);
}

static void cancel(struct link *link, uint64_t transfer)
{
        struct faulty *f = faulty_of(link->transport);
        struct delivery *d;

        f->inner->cancel(link, transfer);
        while ((d = find_taken(f, link, &transfer)))
                finish(d, MESSAGE_CANCELLED);
}

static bool progress(struct transport *transport)
{
        struct faulty *f = faulty_of(transport);
        bool any = f->inner->progress(transport);
        uint64_t now_us = f->deliveries ? clock_now_us() : 0;
        struct delivery *d;

        while ((d = find_due(f, now_us))) {
                advance(d);
                any = true;
        }
        return any;
}

static bool arm(struct transport *transport)
{
        struct faulty *f = faulty_of(transport);

        return !find_due(f, clock_now_us()) && f->inner->arm(transport);
}

static uint64_t deadline(const struct transport *transport)
{
        const struct faulty *f = faulty_of(transport);
        uint64_t at_us = f->inner->deadline(transport);
        const struct delivery *d;

        DL_FOREACH (f->deliveries, d)
                if (d->due_us < at_us && is_due(d, UINT64_MAX))
                        at_us = d->due_us;
        return at_us;
}

static void free_transport(struct transport *transport)
{
        struct faulty *f = faulty_of(transport);

        f->inner->free(transport);
        assert(!f->deliveries);
        free(f);
}

/* ---- wrapping ---- */

static void wrap(struct transport *transport)
{
        const char *delays = getenv("FERRY_FAULTS");
        struct faulty *f;

        if (!planned && !delays)
                return;
        f = calloc(1, sizeof(*f));
        assert(f);
        f->inner = transport->ops;
        f->ops = *transport->ops;
        f->ops.free = free_transport;
        f->ops.progress = progress;
        f->ops.arm = arm;
        f->ops.deadline = deadline;
        f->ops.send = send_message;
        f->ops.receive = receive;
        f->ops.cancel = cancel;
        f->above = transport->handlers;
        transport->handlers.message = on_message;
        transport->handlers.ended = on_ended;
        transport->ops = &f->ops;
        f->plan = next_plan;
        if (!planned && delays) {
                f->plan.per_mille[FAULT_DELAY] = (unsigned)atoi(delays);
                f->plan.delay_us = 500;
        }
        f->random = f->plan.seed + atomic_fetch_add(&opened, 1);
}

/* The linker's --wrap. */
int __real_local_transport_new(const struct local_config *, const struct transport_handlers *, size_t,
                               struct transport **);
int __wrap_local_transport_new(const struct local_config *, const struct transport_handlers *, size_t,
                               struct transport **);
int __real_ucx_transport_new(const struct ucx_config *, const struct transport_handlers *, size_t, struct transport **);
int __wrap_ucx_transport_new(const struct ucx_config *, const struct transport_handlers *, size_t, struct transport **);

int __wrap_local_transport_new(const struct local_config *config, const struct transport_handlers *handlers,
                               size_t index, struct transport **ret_transport)
{
        int r = __real_local_transport_new(config, handlers, index, ret_transport);

        if (r == 0)
                wrap(*ret_transport);
        return r;
}

int __wrap_ucx_transport_new(const struct ucx_config *config, const struct transport_handlers *handlers, size_t index,
                             struct transport **ret_transport)
{
        int r = __real_ucx_transport_new(config, handlers, index, ret_transport);

        if (r == 0)
                wrap(*ret_transport);
        return r;
}
