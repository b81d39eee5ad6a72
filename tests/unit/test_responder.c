/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/error.h>

#include "engine_internal.h"
#include "responder.h"
#include "unit.h"

/* One responder of a link whose transport the test plays. */

enum { TOTAL = 4096, EPOCH = 7, OPERATION_ID = 8, TRANSFER_ID = 9 };

struct scene {
        struct engine engine;
        struct transport transport;
        struct link link;
        struct peer peer;
        struct segment segment;
        struct message *loading; /* the transport's: they are being loaded from a GPU */
        unsigned n_loading;
        uint64_t available; /* bytes, of a claim that follows a read; UINT64_MAX = of one that does not */
        int ended;          /* claims */
        int error;          /* of the last one */
};

static struct scene *scene; /* the test's */

static void play_send(struct link *link, struct message *message)
{
        message->link = link;
        if (message->length > 0) {
                DL_APPEND(scene->loading, message);
                scene->n_loading++;
        } else {
                message_free(link->transport, message);
        }
}

/* Received one after the other, by the test. */
static void play_receive(struct link *link, struct message *message, struct payload *payload)
{
        message->link = link;
        payload->taken = true;
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

        transport_clear(&s->transport);
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
        s->peer = (struct peer){ .engine = &s->engine, .link = &s->link };
        s->link.owner = &s->peer;
        s->segment = (struct segment){ memory, TOTAL, NULL, NULL };
        s->available = UINT64_MAX;
        return s;
}

static void take_read_of(struct scene *s, uint64_t transfer, uint32_t flags, uint64_t length)
{
        const struct wire_header read = { .type = WIRE_READ,
                                          .flags = flags,
                                          .from_epoch = EPOCH,
                                          .operation = OPERATION_ID,
                                          .transfer = transfer,
                                          .length = length,
                                          .total = TOTAL };

        responder_on_read(&s->engine, &s->peer, &read, &(struct payload){ 0 });
}

static void take_read(struct scene *s, uint32_t flags, uint64_t length)
{
        take_read_of(s, TRANSFER_ID, flags, length);
}

static void take_done(struct scene *s, uint64_t length)
{
        const struct wire_header done = { .type = WIRE_DONE,
                                          .flags = WIRE_QUIET,
                                          .from_epoch = EPOCH,
                                          .operation = OPERATION_ID,
                                          .transfer = TRANSFER_ID,
                                          .length = length,
                                          .total = TOTAL };

        responder_on_done(&s->engine, &s->peer, &done, &(struct payload){ 0 });
}

/* A READ of all bytes, which one message carries. */
static struct responder *read_all(struct scene *s)
{
        take_read(s, WIRE_FINAL, TOTAL);
        assert_non_null(s->loading);
        return responder_find(&s->engine, TRANSFER_ID);
}

static void finish_loading(struct scene *s, enum message_result result)
{
        struct message *message = s->loading;

        DL_DELETE(s->loading, message);
        s->n_loading--;
        message->done(message, result);
        message_free(&s->transport, message);
        (void)responders_step(&s->engine);
}

TEST(a_claim_that_is_cancelled_while_its_one_message_is_loaded_ends_with_the_load)
{
        struct scene *s = scene_new();

        responder_fail(read_all(s), FERRY_E_CANCELLED, FERRY_E_CANCELLED_BY_PEER, "");
        (void)responders_step(&s->engine);
        assert_int_equal(s->ended, 0); /* a GPU is reading its memory */
        finish_loading(s, MESSAGE_CANCELLED);
        assert_int_equal(s->ended, 1);
        assert_int_equal(s->error, FERRY_E_CANCELLED);
}

TEST(a_claim_whose_one_message_is_not_sent_ends_at_once)
{
        FOR_EACH (enum message_result, result, MESSAGE_FAULT, MESSAGE_NO_MEMORY) {
                struct scene *s = scene_new();

                (void)read_all(s);
                s->loading->fault = -EFAULT;
                finish_loading(s, result);
                assert_int_equal(s->ended, 1);
                assert_int_equal(s->error, FERRY_E_TRANSFER_FAILED);
        }
}

TEST(a_peer_that_asks_for_single_bytes_again_and_again_is_bounded)
{
        struct scene *s = scene_new();

        for (unsigned i = 0; i < ENGINE_WINDOW_MAX; i++)
                take_read(s, 0, 1);
        assert_int_equal(s->n_loading, ENGINE_WINDOW_MAX);
        for (unsigned i = 0; i < ENGINE_WINDOW_MAX; i++)
                take_read(s, 0, 1);
        assert_int_equal(s->n_loading, ENGINE_WINDOW_MAX); /* the transport has no more at once */
        for (unsigned i = 0; i < 3; i++) {
                finish_loading(s, MESSAGE_OK);
                assert_true(s->peer.ready);
                responders_send(&s->peer);
                assert_int_equal(s->n_loading, ENGINE_WINDOW_MAX);
        }
        for (unsigned i = 0; i < 4; i++)
                take_read(s, 0, 1);
        assert_int_equal(s->ended, 0); /* it waits for what the transport has */
        while (s->loading)
                finish_loading(s, MESSAGE_CANCELLED);
        assert_int_equal(s->ended, 1);
        assert_int_equal(s->error, FERRY_E_TRANSFER_FAILED);
}

/* The requester is complete as soon as it has that message. */
TEST(what_one_message_has_carried_is_complete_though_the_followed_read_fails)
{
        FOR_EACH (int, revoked, false, true) {
                struct scene *s = scene_new();
                struct responder *r;

                s->available = TOTAL;
                r = read_all(s);
                s->available = 0; /* the followed read has failed */
                if (revoked)
                        responder_fail(r, FERRY_E_PEER_LOST, FERRY_E_PEER_LOST, "");
                finish_loading(s, MESSAGE_OK);
                take_done(s, TOTAL);
                (void)responders_step(&s->engine);
                assert_int_equal(s->ended, 1);
                assert_int_equal(s->error, 0);
        }
}

TEST(a_done_of_too_few_bytes_fails_at_once)
{
        struct scene *s = scene_new();

        (void)read_all(s);
        finish_loading(s, MESSAGE_OK);
        take_done(s, TOTAL - 1);
        (void)responders_step(&s->engine);
        assert_int_equal(s->ended, 1);
        assert_int_equal(s->error, FERRY_E_TRANSFER_FAILED);
}

TEST(a_transfer_that_is_over_takes_no_place_of_the_next_one)
{
        struct scene *s = scene_new(); /* its engine has one */

        (void)read_all(s);
        finish_loading(s, MESSAGE_OK);
        take_done(s, TOTAL);
        take_read_of(s, TRANSFER_ID + 1, WIRE_FINAL, TOTAL); /* before the engine has taken a step */
        assert_int_equal(s->ended, 1);
        assert_int_equal(s->error, 0);
        assert_non_null(responder_find(&s->engine, TRANSFER_ID + 1));
        responder_fail(responder_find(&s->engine, TRANSFER_ID + 1), FERRY_E_CANCELLED, FERRY_E_CANCELLED_BY_PEER, "");
        finish_loading(s, MESSAGE_CANCELLED);
}

/* Of payloads that do not come inline. */
static void take_write(struct scene *s, uint64_t offset, uint64_t length)
{
        const struct wire_header write = { .type = WIRE_WRITE,
                                           .from_epoch = EPOCH,
                                           .operation = OPERATION_ID,
                                           .transfer = TRANSFER_ID,
                                           .offset = offset,
                                           .length = length,
                                           .total = TOTAL };

        responder_on_write(&s->engine, &s->peer, &write, &(struct payload){ .length = length });
}

TEST(a_peer_that_writes_on_without_waiting_is_bounded)
{
        enum { LENGTH = TOTAL / ENGINE_WINDOW_MAX };
        struct scene *s = scene_new();

        for (unsigned i = 0; i < ENGINE_WINDOW_MAX; i++)
                take_write(s, i * LENGTH, LENGTH);
        assert_int_equal(s->n_loading, ENGINE_WINDOW_MAX);
        for (unsigned i = 0; i < 3; i++) { /* as it should: one is done before the next comes */
                assert_true(s->loading->begin(s->loading));
                finish_loading(s, MESSAGE_OK);
                take_write(s, 0, LENGTH);
        }
        assert_int_equal(s->n_loading, ENGINE_WINDOW_MAX);
        take_write(s, 0, LENGTH);
        assert_int_equal(s->n_loading, ENGINE_WINDOW_MAX);
        (void)responders_step(&s->engine);
        assert_int_equal(s->ended, 1);
        assert_int_equal(s->error, FERRY_E_TRANSFER_FAILED);
        while (s->loading) { /* the transport refuses them */
                struct message *message = s->loading;

                assert_false(message->begin(message));
                DL_DELETE(s->loading, message);
                message_free(&s->transport, message);
        }
}

/* To a GPU: the transport copies it from the message. */
TEST(a_write_that_comes_inline_takes_no_place_of_one_that_does_not)
{
        enum { LENGTH = TOTAL / ENGINE_WINDOW_MAX };
        const struct wire_header inline_write = { .type = WIRE_WRITE,
                                                  .from_epoch = EPOCH,
                                                  .operation = OPERATION_ID,
                                                  .transfer = TRANSFER_ID,
                                                  .length = LENGTH,
                                                  .total = TOTAL };
        static const uint8_t bytes[LENGTH];
        static const struct space gpu;
        struct scene *s = scene_new();

        s->segment.space = &gpu;
        for (unsigned i = 0; i < 2; i++) { /* received, and waiting */
                responder_on_write(&s->engine, &s->peer, &inline_write,
                                   &(struct payload){ .bytes = bytes, .length = LENGTH });
                assert_true(s->loading->prev->force_inline);
                assert_true(s->loading->begin(s->loading));
                if (i == 0)
                        finish_loading(s, MESSAGE_OK);
        }
        for (unsigned i = 0; i < ENGINE_WINDOW_MAX; i++)
                take_write(s, i * LENGTH, LENGTH);
        assert_int_equal(s->n_loading, ENGINE_WINDOW_MAX + 1);
        take_write(s, 0, LENGTH);
        (void)responders_step(&s->engine);
        assert_int_equal(s->n_loading, ENGINE_WINDOW_MAX + 1);
        assert_int_equal(responder_find(&s->engine, TRANSFER_ID)->error, FERRY_E_TRANSFER_FAILED);
        finish_loading(s, MESSAGE_OK);
        while (s->loading) {
                struct message *message = s->loading;

                assert_false(message->begin(message));
                DL_DELETE(s->loading, message);
                message_free(&s->transport, message);
        }
}
