/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REQUESTER_FIXTURE_H
#define REQUESTER_FIXTURE_H

#include <errno.h>

#include <ferry/error.h>

#include "base/clock.h"
#include "connect.h"
#include "engine_internal.h"
#include "message/staging.h"
#include "peer.h"
#include "requester.h"
#include "unit.h"

/* One requester of a link whose transport the test plays, on a clock that the test moves. */

enum { CHUNK = 64 << 10, TOTAL = 16 * CHUNK, EPOCH = 7, OPERATION_ID = 8, TRANSFER_ID = 9, CONNECT_US = 5000 * 1000 };

static uint64_t later_us;

uint64_t __wrap_clock_now_us(void);

uint64_t __wrap_clock_now_us(void)
{
        return 1000 * 1000 * 1000 + later_us;
}

struct scene {
        struct engine engine;
        struct transport transport;
        struct link link, second;
        struct session session;
        struct requester requester;
        struct segment segment;
        unsigned n_fit;          /* so many more messages fit */
        unsigned n_sent;         /* messages */
        unsigned n_received;     /* payloads that were to be fetched … */
        struct message *fetched; /* … and the last one, if the test keeps it */
        bool keeps;
        bool resolving; /* names and addresses, without end */
        uint64_t sent;  /* bytes of payloads */
        unsigned flags; /* of the last message */
};

static struct scene *scene; /* the test's */

int __real_resolver_ask(struct engine *engine, const char *text, int family, struct resolved *ret_resolved);
int __wrap_resolver_ask(struct engine *engine, const char *text, int family, struct resolved *ret_resolved);

int __wrap_resolver_ask(struct engine *engine, const char *text, int family, struct resolved *ret_resolved)
{
        return scene->resolving ? -EINPROGRESS : __real_resolver_ask(engine, text, family, ret_resolved);
}

static void play_send(struct link *link, struct message *message)
{
        message->link = link;
        scene->n_sent++;
        scene->sent += message->length;
        scene->flags = message->header.flags;
        if (message->done)
                message->done(message, MESSAGE_OK);
        message_free(message);
}

static void cancel(struct link *link, uint64_t transfer)
{
}

static uint64_t request_size(struct link *link, const struct stream *own, uint64_t offset, uint64_t limit)
{
        return limit < 4 * CHUNK ? limit : 4 * CHUNK;
}

/* No more than CHUNK, inline. */
static uint64_t fit(struct link *link, const struct stream *stream, uint64_t offset, uint64_t limit, bool *ret_inline)
{
        *ret_inline = true;
        if (scene->n_sent >= scene->n_fit)
                return 0;
        return limit < CHUNK ? limit : CHUNK;
}

static uint64_t window(struct link *link)
{
        return TOTAL;
}

static const char *carrier(struct link *link)
{
        return "tcp";
}

static struct link *open_second(struct transport *transport, const struct transport_peer *session, int *ret_error)
{
        link_init(&scene->second, transport, false);
        return &scene->second;
}

static void fail_link(struct link *link, int error, const char *detail)
{
        (void)link_fail(link, error, detail);
}

static void play_receive(struct link *link, struct message *message, struct payload *payload)
{
        message->link = link;
        payload->taken = true;
        if (payload->bytes) {
                stage_store_inline(NULL, message, payload->bytes);
                return;
        }
        scene->n_received++;
        if (scene->keeps)
                scene->fetched = message;
        else
                message_free(message);
}

static void ignore_progress(void *context, uint64_t bytes)
{
}

static void scene_free(void *context)
{
        struct scene *s = context;

        later_us = 0;
        HASH_CLEAR(hh, s->engine.requesters_by_id);
        peers_clear(&s->engine);
        free(s->second.owner);
        stream_clear(&s->requester.stream);
        free(s);
}

static struct scene *scene_new(enum engine_direction direction)
{
        static const struct transport_ops ops = {
                .send = play_send,
                .cancel = cancel,
                .request_size = request_size,
                .fit = fit,
                .window = window,
                .carrier = carrier,
                .connect = open_second,
                .fail = fail_link,
                .receive = play_receive,
        };
        static uint8_t memory[TOTAL];
        struct scene *s = scene = test_keep(calloc(1, sizeof(*s)), scene_free);
        struct requester *r = &s->requester;

        transport_init(&s->transport, &ops, "played", 0, &(struct transport_handlers){ 0 });
        link_init(&s->link, &s->transport, false);
        link_set_state(&s->link, LINK_UP);
        s->engine.tick_us = UINT64_MAX;
        s->session = (struct session){ .engine = &s->engine, .link = &s->link };
        s->link.owner = &s->session;
        s->segment = (struct segment){ memory, TOTAL, NULL, NULL };
        s->n_fit = UINT32_MAX;
        r->engine = &s->engine;
        r->session = &s->session;
        r->state = REQUESTER_MOVING;
        r->spec = (struct engine_transfer){ .id = TRANSFER_ID,
                                            .direction = direction,
                                            .peer.epoch = EPOCH,
                                            .remote_operation = OPERATION_ID,
                                            .total = TOTAL,
                                            .progress = ignore_progress };
        assert_int_equal(stream_init(&r->stream, &s->segment, 1), 0);
        HASH_ADD(hh, s->engine.requesters_by_id, spec.id, sizeof(r->spec.id), r);
        return s;
}

/* An answer to the transfer, with more fields. */
#define ANSWER(type_, ...)                                                                                             \
        ((struct wire_header){ .type = type_, .from_epoch = EPOCH, .transfer = TRANSFER_ID, __VA_ARGS__ })

/* DATA of so many bytes that come inline, or have to be fetched. */
static inline void take_data(struct scene *s, uint64_t length, bool is_inline)
{
        static const uint8_t bytes[CHUNK];
        const struct wire_header data = ANSWER(WIRE_DATA, .length = length, .total = TOTAL);

        requester_on_data(&s->session, &data, &(struct payload){ .length = length, .bytes = is_inline ? bytes : NULL });
}

#endif
