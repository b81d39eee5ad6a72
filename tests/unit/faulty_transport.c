/* SPDX-License-Identifier: Apache-2.0 */
#include "faulty_internal.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include <ferry/error.h>

#include "base/clock.h"
#include "base/util.h"
#include "message/staging.h"
#include "move/local.h"
#include "move/ucx.h"

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

/* Of the faults [first, end). */
static enum fault draw_fault(struct faulty *f, enum fault first, enum fault end)
{
        uint64_t number = faulty_draw(f) % 1000;

        for (enum fault fault = first; fault < end; fault++) {
                if (number < f->plan.per_mille[fault]) {
                        counts[fault]++;
                        return fault;
                }
                number -= f->plan.per_mille[fault];
        }
        return FAULT_NONE;
}

/* ---- what comes from below ---- */

/* A byte of the header differs. Whether it is still one. */
static bool flip_header(struct faulty *f, struct wire_header *header)
{
        uint8_t bytes[WIRE_SIZE], version;

        wire_encode(header, bytes);
        bytes[faulty_draw(f) % WIRE_SIZE] ^= (uint8_t)(1 + faulty_draw(f) % 255);
        return wire_decode(bytes, sizeof(bytes), header, &version) == WIRE_OK;
}

static void keep(struct faulty *f, struct link *link, const struct wire_header *header, struct payload *payload,
                 enum fault fault)
{
        struct delivery *d = delivery_new(f, link, header, payload->length);

        d->ordered = fault != FAULT_REORDER;
        d->again = fault == FAULT_REPEAT;
        d->flip = fault == FAULT_FLIP;
        d->due_us = fault == FAULT_DELAY || fault == FAULT_REORDER ? faulty_later(f) : 0;
        if (fault == FAULT_TRUNCATE)
                d->length = faulty_draw(f) % payload->length;
        delivery_fetch(d, payload);
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
        else if (fault == FAULT_NONE && !delivery_must_wait(f->deliveries, NULL, link, header->transfer))
                f->above.message(context, link, header, payload);
        else
                keep(f, link, &changed, payload, fault);
}

static void on_ended(void *context, struct link *link)
{
        struct faulty *f = faulty_of(link->transport);
        struct delivery *d, *next;

        while ((d = delivery_find_taken(f, link, NULL)))
                delivery_finish(d, MESSAGE_LOST);
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
                message_free(message);
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
        message->link = link;
        if (d->is_inline && !message->stream->off_host) { /* at once, as below */
                stage_store_inline(NULL, message, d->buffer.address);
                return;
        }
        payload->taken = true;
        message->copied = 0;
        d->message = message;
        d->stage = STAGE_TAKEN;
        d->due_us = faulty_later(f);
}

static void cancel(struct link *link, uint64_t transfer)
{
        struct faulty *f = faulty_of(link->transport);
        struct delivery *d;

        f->inner->cancel(link, transfer);
        while ((d = delivery_find_taken(f, link, &transfer)))
                delivery_finish(d, MESSAGE_CANCELLED);
}

static bool progress(struct transport *transport)
{
        struct faulty *f = faulty_of(transport);
        bool any = f->inner->progress(transport);
        uint64_t now_us = f->deliveries ? clock_now_us() : 0;
        struct delivery *d;

        while ((d = delivery_find_due(f, now_us))) {
                delivery_advance(d);
                any = true;
        }
        return any;
}

static bool arm(struct transport *transport)
{
        struct faulty *f = faulty_of(transport);

        return !delivery_find_due(f, clock_now_us()) && f->inner->arm(transport);
}

static uint64_t deadline(const struct transport *transport)
{
        const struct faulty *f = faulty_of(transport);
        uint64_t at_us = f->inner->deadline(transport);
        const struct delivery *d;

        DL_FOREACH (f->deliveries, d)
                if (d->due_us < at_us && delivery_is_due(d, UINT64_MAX))
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
