/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/error.h>

#include "base/clock.h"
#include "engine_internal.h"
#include "requester.h"
#include "unit.h"

/* One requester of a link whose transport the test plays. */

enum { CHUNK = 64 << 10, TOTAL = 16 * CHUNK, EPOCH = 7, OPERATION_ID = 8, TRANSFER_ID = 9 };

struct scene {
        struct engine engine;
        struct transport transport;
        struct link link;
        struct peer peer;
        struct requester requester;
        struct segment segment;
        unsigned n_fit;  /* so many more messages fit */
        unsigned n_sent; /* messages */
        uint64_t sent;   /* bytes of payloads */
};

static struct scene *scene; /* the test's */

static void play_send(struct link *link, struct message *message)
{
        message->link = link;
        scene->n_sent++;
        scene->sent += message->length;
        if (message->done)
                message->done(message, MESSAGE_OK);
        message_free(link->transport, message);
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

static void ignore_progress(void *context, uint64_t bytes)
{
}

static void scene_free(void *context)
{
        struct scene *s = context;

        HASH_CLEAR(hh, s->engine.requesters_by_id);
        stream_clear(&s->requester.stream);
        transport_clear(&s->transport);
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
        };
        static uint8_t memory[TOTAL];
        struct scene *s = scene = test_keep(calloc(1, sizeof(*s)), scene_free);
        struct requester *r = &s->requester;

        transport_init(&s->transport, &ops, "played", 0, &(struct transport_handlers){ 0 });
        link_init(&s->link, &s->transport, false);
        link_set_state(&s->link, LINK_UP);
        s->engine.tick_us = UINT64_MAX;
        s->peer = (struct peer){ .engine = &s->engine, .link = &s->link };
        s->segment = (struct segment){ memory, TOTAL, NULL, NULL };
        s->n_fit = UINT32_MAX;
        r->engine = &s->engine;
        r->peer = &s->peer;
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

static void tell_held(struct scene *s)
{
        const struct wire_header h = { .type = WIRE_HELLO_ACK, .from_epoch = EPOCH, .transfer = TRANSFER_ID };

        requester_on_held(&s->engine, &s->peer, &h);
}

TEST(a_read_that_its_peer_holds_leaves_the_window_at_the_next_look)
{
        struct scene *s = scene_new(ENGINE_READ);
        struct requester *r = &s->requester;
        uint64_t now_us = clock_now_us();

        assert_true(requester_request_next(r));
        requester_tick(r, now_us);
        assert_false(r->share.aside); /* it may only be slow */
        tell_held(s);
        requester_tick(r, now_us);
        assert_true(r->share.aside);
        assert_int_equal(s->peer.requested.in_flight, 0);
        assert_int_equal(s->peer.requested.aside, 4 * CHUNK);
}

TEST(a_held_read_that_moves_comes_back_and_says_nothing_of_the_link)
{
        struct scene *s = scene_new(ENGINE_READ);
        struct requester *r = &s->requester;

        assert_true(requester_request_next(r));
        tell_held(s);
        requester_tick(r, clock_now_us());
        s->peer.moved_us = clock_now_us() + 800 * 1000; /* its peer has waited so long */
        requester_note_moved(r, 0);
        assert_false(r->share.aside);
        assert_int_equal(s->peer.requested.in_flight, 4 * CHUNK);
        assert_int_equal(s->peer.requested.aside, 0);
        tell_held(s); /* again, and nobody has looked before it moves */
        s->peer.moved_us += 800 * 1000;
        requester_note_moved(r, 0);
        assert_int_equal(s->peer.requested.pause_us, 0);
        s->peer.moved_us += 800 * 1000;
        requester_note_moved(r, 0);
        assert_int_equal(s->peer.requested.pause_us, 800 * 1000); /* nobody held it */
}

TEST(a_request_whose_next_part_finds_no_room_fails)
{
        struct scene *s = scene_new(ENGINE_WRITE);

        assert_true(requester_request_next(&s->requester));
        assert_int_equal(s->n_sent, 4); /* one chunk, in parts */
        s->n_fit = s->n_sent + 1;
        s->requester.next = 4 * CHUNK;
        assert_true(requester_request_next(&s->requester));
        assert_int_equal(s->n_sent, 5);
        assert_int_equal(s->requester.error, FERRY_E_TRANSFER_FAILED);
}

TEST(a_chunk_of_a_local_link_is_one_part)
{
        struct scene *s = scene_new(ENGINE_WRITE);

        s->engine.local = &s->transport;
        s->n_fit = 1;
        assert_true(requester_request_next(&s->requester));
        assert_int_equal(s->sent, CHUNK);
        assert_false(requester_request_next(&s->requester)); /* until there is room */
        assert_int_equal(s->requester.error, 0);
}
