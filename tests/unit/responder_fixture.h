/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RESPONDER_FIXTURE_H
#define RESPONDER_FIXTURE_H

#include <ferry/error.h>

#include "engine_internal.h"
#include "message/staging.h"
#include "peer.h"
#include "responder.h"
#include "unit.h"

/* One responder of a link whose transport the test plays. */

enum { TOTAL = 4096, EPOCH = 7, OPERATION_ID = 8, TRANSFER_ID = 9 };

struct scene {
        struct engine engine;
        struct transport transport;
        struct link link;
        struct session session;
        struct segment segment;
        struct message *loading; /* the transport's: they are being loaded from a GPU */
        unsigned n_loading;
        uint64_t available; /* bytes, of a claim that follows a read; UINT64_MAX = of one that does not */
        int ended;          /* claims */
        int error;          /* of the last one, as bytes */
        uint64_t bytes;
        uint32_t status; /* of the last message without a payload */
};

static struct scene *scene; /* the test's */

static void play_send(struct link *link, struct message *message)
{
        message->link = link;
        if (message->length > 0) {
                DL_APPEND(scene->loading, message);
                scene->n_loading++;
        } else {
                scene->status = message->header.status;
                message_free(message);
        }
}

/* Received one after the other, by the test. */
static void play_receive(struct link *link, struct message *message, struct payload *payload)
{
        message->link = link;
        payload->taken = true;
        if (payload->bytes && !message->stream->segments[0].space) {
                stage_store_inline(NULL, message, payload->bytes);
                return;
        }
        DL_APPEND(scene->loading, message);
        scene->n_loading++;
}

/* What a thread is copying from a GPU ends after that. */
static void cancel(struct link *link, uint64_t transfer)
{
}

static uint64_t fit(struct link *link, const struct stream *stream, uint64_t offset, uint64_t limit, bool *ret_inline)
{
        return limit;
}

static uint64_t window(struct link *link)
{
        return TOTAL;
}

static const char *carrier(struct link *link)
{
        return "shm";
}

static void ignore_progress(void *context, uint64_t bytes)
{
}

static void note_end(void *context, const struct engine_outcome *outcome)
{
        struct scene *s = context;

        s->ended++;
        s->error = outcome->error;
        s->bytes = outcome->bytes;
}

static uint64_t available(void *context, uint64_t offset, uint64_t length)
{
        const struct scene *s = context;
        uint64_t left = s->available > offset ? s->available - offset : 0;

        return left < length ? left : length;
}

static int grant(void *context, const struct engine_claim_request *request, struct engine_claim *ret_claim)
{
        struct scene *s = context;

        *ret_claim = (struct engine_claim){ .segments = &s->segment,
                                            .n_segments = 1,
                                            .total = TOTAL,
                                            .progress = ignore_progress,
                                            .available = s->available == UINT64_MAX ? NULL : available,
                                            .context = s,
                                            .ended = note_end };
        return 0;
}

static void scene_free(void *context)
{
        struct scene *s = context;

        peer_remove_link(&s->session, 0, "");
        peers_clear(&s->engine);
        free(s);
}

static struct scene *scene_new(void)
{
        static const struct transport_ops ops = { .send = play_send,
                                                  .receive = play_receive,
                                                  .cancel = cancel,
                                                  .fit = fit,
                                                  .window = window,
                                                  .carrier = carrier };
        static uint8_t memory[TOTAL];
        struct scene *s = scene = test_keep(calloc(1, sizeof(*s)), scene_free);

        transport_init(&s->transport, &ops, "played", 0, &(struct transport_handlers){ 0 });
        link_init(&s->link, &s->transport, true);
        link_set_state(&s->link, LINK_UP);
        s->engine = (struct engine){ .tick_us = UINT64_MAX,
                                     .max_claims = 1,
                                     .operations = { .claim = grant, .context = s } };
        s->session = (struct session){ .engine = &s->engine, .link = &s->link };
        s->link.owner = &s->session;
        s->segment = (struct segment){ memory, TOTAL, NULL, NULL };
        s->available = UINT64_MAX;
        return s;
}

/* A request of all_ bytes, with more fields. */
#define REQUEST(type_, all_, ...)                                                                                      \
        ((struct wire_header){ .type = type_,                                                                          \
                               .from_epoch = EPOCH,                                                                    \
                               .operation = OPERATION_ID,                                                              \
                               .total = all_,                                                                          \
                               .whole = TOTAL,                                                                         \
                               __VA_ARGS__ })

static inline void take_read_of(struct scene *s, uint64_t transfer, uint16_t flags, uint64_t length)
{
        const struct wire_header read =
                REQUEST(WIRE_READ, TOTAL, .flags = flags, .transfer = transfer, .length = length);

        responder_on_read(&s->session, &read, &(struct payload){ 0 });
}

static inline void take_read(struct scene *s, uint16_t flags, uint64_t length)
{
        take_read_of(s, TRANSFER_ID, flags, length);
}

/* Of a transfer of all_ bytes. */
static inline void take_done_of(struct scene *s, uint64_t all, uint64_t length)
{
        const struct wire_header done =
                REQUEST(WIRE_DONE, all, .flags = WIRE_QUIET, .transfer = TRANSFER_ID, .length = length);

        responder_on_done(&s->session, &done, &(struct payload){ 0 });
}

static inline void take_done(struct scene *s, uint64_t length)
{
        take_done_of(s, TOTAL, length);
}

/* A READ of all bytes, which one message carries. */
static inline struct responder *read_all(struct scene *s)
{
        take_read(s, WIRE_FINAL, TOTAL);
        assert_non_null(s->loading);
        return responder_find(&s->engine, TRANSFER_ID);
}

/* The peer is known to have so many bytes of it. */
static inline void finish_copied(struct scene *s, enum message_result result, uint64_t copied)
{
        struct message *message = s->loading;

        DL_DELETE(s->loading, message);
        s->n_loading--;
        message->copied = copied;
        message->done(message, result);
        message_free(message);
        (void)responders_step(&s->engine);
}

static inline void finish_loading(struct scene *s, enum message_result result)
{
        finish_copied(s, result, result == MESSAGE_OK ? s->loading->length : 0);
}

/* Of payloads that do not come inline. */
static inline void take_write(struct scene *s, uint64_t offset, uint64_t length)
{
        const struct wire_header write =
                REQUEST(WIRE_WRITE, TOTAL, .transfer = TRANSFER_ID, .offset = offset, .length = length);

        responder_on_write(&s->session, &write, &(struct payload){ .length = length });
}

/* The transport refuses what it has not begun. */
static inline void refuse_loading(struct scene *s)
{
        while (s->loading) {
                struct message *message = s->loading;

                assert_false(message->begin(message));
                DL_DELETE(s->loading, message);
                message_free(message);
        }
}

/* Ends the claim, if there is one. */
static inline void fail_claim(struct scene *s)
{
        struct responder *r = responder_find(&s->engine, TRANSFER_ID);

        if (r)
                responder_fail(r, FERRY_E_CANCELLED, FERRY_E_CANCELLED_BY_PEER, "");
        (void)responders_step(&s->engine);
}

#endif
