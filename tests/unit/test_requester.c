/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include <ferry/error.h>

#include "base/clock.h"
#include "connect.h"
#include "contact.h"
#include "engine_internal.h"
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
        struct peer peer;
        struct requester requester;
        struct segment segment;
        unsigned n_fit;  /* so many more messages fit */
        unsigned n_sent; /* messages */
        unsigned n_received;
        bool resolving; /* names and addresses, without end */
        uint64_t sent;  /* bytes of payloads */
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

static struct link *open_second(struct transport *transport, const struct transport_peer *peer, int *ret_error)
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
        payload->taken = true;
        scene->n_received++;
        message_free(link->transport, message);
}

static void ignore_progress(void *context, uint64_t bytes)
{
}

static void scene_free(void *context)
{
        struct scene *s = context;

        later_us = 0;
        HASH_CLEAR(hh, s->engine.requesters_by_id);
        contacts_clear(&s->engine);
        free(s->second.owner);
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

/* ---- an idle link that turns out to be cut ---- */

/* The requester begins over the link, which is idle. */
static struct scene *scene_begun(void)
{
        static const char address[] = "127.0.0.1:1";
        struct scene *s = scene_new(ENGINE_READ);
        struct requester *r = &s->requester;

        HASH_DEL(s->engine.requesters_by_id, r);
        memset(&r->hh, 0, sizeof(r->hh));
        r->state = REQUESTER_ROUTING;
        r->peer = NULL;
        r->spec.peer.data = address;
        route_init(&r->route, &r->spec.peer);
        s->transport.handlers = arrival_handlers(&s->engine);
        s->engine.ucx = &s->transport;
        s->engine.connect_us = CONNECT_US;
        s->link.owner = &s->peer;
        s->peer.greeted = true;
        peer_index_address(&s->peer, address);
        requester_begin(r);
        assert_ptr_equal(r->peer, &s->peer);
        return s;
}

/* What moves over the link learns that it has failed. */
static void end_link(struct scene *s, struct link *link, int error)
{
        if (link->state != LINK_FAILED)
                fail_link(link, error, "the link was cut");
        link_set_state(link, LINK_ENDED);
        s->transport.handlers.ended(&s->engine, link);
}

/* The second link gets no message for so long, and fails then. */
static void assert_second_lasts(struct scene *s, uint64_t us)
{
        uint64_t start_us = clock_now_us();

        assert_ptr_equal(s->second.owner, s->requester.peer);
        requester_tick(&s->requester, start_us + us - 1);
        assert_int_equal(s->second.state, LINK_CONNECTING);
        requester_tick(&s->requester, start_us + us);
        assert_int_equal(s->second.state, LINK_FAILED);
        assert_int_equal(s->second.error, FERRY_E_PEER_UNREACHABLE); /* others that wait for it may try HTTP */
        end_link(s, &s->second, 0);
        assert_int_equal(s->requester.error, FERRY_E_PEER_LOST);
}

TEST(a_transfer_may_have_less_time_to_connect)
{
        FOR_EACH (uint32_t, ms, 0, CONNECT_US / 1000 - 1, CONNECT_US / 1000 + 1) {
                struct scene *s = scene_new(ENGINE_READ);

                s->engine.stopping = true; /* it does not get far */
                s->engine.connect_us = CONNECT_US;
                HASH_CLEAR(hh, s->engine.requesters_by_id);
                s->requester.spec.connect_ms_max = ms;
                requester_begin(&s->requester);
                assert_int_equal(s->requester.connect_deadline_us - clock_now_us(),
                                 ms == CONNECT_US / 1000 - 1 ? ms * 1000 : CONNECT_US);
        }
}

TEST(an_idle_link_that_fails_at_once_leaves_the_second_all_its_time)
{
        struct scene *s = scene_begun();

        end_link(s, &s->link, FERRY_E_PEER_LOST);
        assert_second_lasts(s, CONNECT_US);
}

TEST(an_idle_link_that_was_silent_leaves_the_second_what_is_left)
{
        struct scene *s = scene_begun();

        later_us = 3000 * 1000;
        end_link(s, &s->link, FERRY_E_PEER_LOST);
        assert_second_lasts(s, CONNECT_US - 3000 * 1000);
}

/* They have all of their time to connect, and then HTTP. */
TEST(an_end_on_a_silent_second_link_leaves_it_to_others_that_wait_for_it)
{
        struct scene *s = scene_begun();
        struct peer *peer;

        later_us = 3000 * 1000;
        end_link(s, &s->link, FERRY_E_PEER_LOST);
        peer = s->requester.peer;
        peer->n_transfers++; /* a fresh one */
        requester_tick(&s->requester, clock_now_us() + CONNECT_US - 3000 * 1000);
        assert_int_equal(s->second.state, LINK_CONNECTING);
        assert_int_equal(s->requester.state, REQUESTER_FAILING);
        assert_int_equal(s->requester.error, FERRY_E_PEER_LOST);
        assert_false(peer->silent);
        end_link(s, &s->second, FERRY_E_PEER_UNREACHABLE);
}

static void note_connected(void *context, const struct engine_connection *connection)
{
        *(int *)context = connection->error;
}

/* Its name has taken most of its time, and the transfers on the link have theirs. */
TEST(a_connect_that_is_late_closes_a_silent_link_that_it_has_for_itself)
{
        FOR_EACH (int, shared, 0, 1) {
                struct scene *s = scene_begun();
                int error = -1;
                const struct engine_connect spec = { .peer = s->requester.spec.peer,
                                                     .context = &error,
                                                     .connected = note_connected };
                struct connect_request *c;

                assert_int_equal(connect_request_new(&s->engine, &spec, &c), 0);
                later_us = 3000 * 1000;
                end_link(s, &s->link, FERRY_E_PEER_LOST);
                connect_request_begin(&s->engine, c);
                assert_int_equal(error, -1);
                if (!shared)
                        ((struct peer *)s->second.owner)->n_transfers--; /* it has left */
                connect_requests_tick(&s->engine, clock_now_us() + CONNECT_US);
                assert_int_equal(error, FERRY_E_PEER_UNREACHABLE);
                assert_int_equal(s->second.state, shared ? LINK_CONNECTING : LINK_FAILED);
                end_link(s, &s->second, FERRY_E_PEER_UNREACHABLE);
        }
}

TEST(what_is_left_suffices_for_a_long_round_trip)
{
        struct scene *s = scene_begun();

        later_us = CONNECT_US;
        end_link(s, &s->link, FERRY_E_PEER_LOST);
        assert_second_lasts(s, ENGINE_RECONNECT_MS * 1000);
}

/* The link was up, so that its name had not been resolved for it. */
TEST(what_is_left_suffices_to_resolve_a_name)
{
        struct scene *s = scene_begun();
        uint64_t start_us;

        s->resolving = true;
        later_us = CONNECT_US + 100 * 1000;
        end_link(s, &s->link, FERRY_E_PEER_LOST);
        assert_null(s->requester.peer);
        start_us = clock_now_us();
        requester_tick(&s->requester, start_us + ENGINE_RECONNECT_MS * 1000 - 1);
        assert_int_equal(s->requester.error, 0);
        requester_tick(&s->requester, start_us + ENGINE_RECONNECT_MS * 1000);
        assert_int_equal(s->requester.error, FERRY_E_PEER_UNREACHABLE);
}

/* Of a READ that is answered in parts: what follows the read may have passed them on. */
TEST(a_link_that_ends_behind_a_part_of_the_first_chunk_is_not_tried_again)
{
        const struct wire_header data = {
                .type = WIRE_DATA, .from_epoch = EPOCH, .transfer = TRANSFER_ID, .length = 100, .total = TOTAL
        };
        const uint8_t bytes[100] = { 0 };
        struct scene *s = scene_begun();

        assert_true(requester_request_next(&s->requester));
        requester_on_data(&s->engine, &s->peer, &data, &(struct payload){ .length = 100, .bytes = bytes });
        assert_int_equal(s->requester.error, 0);
        end_link(s, &s->link, FERRY_E_PEER_LOST);
        assert_false(s->requester.retried);
        assert_int_equal(s->requester.error, FERRY_E_PEER_LOST);
}

/* A message for each byte would take far more memory than the bytes. */
TEST(bytes_that_have_to_be_fetched_are_more_than_fit_inline)
{
        FOR_EACH (uint64_t, length, WIRE_INLINE_MAX, WIRE_INLINE_MAX + 1) {
                const struct wire_header data = { .type = WIRE_DATA,
                                                  .from_epoch = EPOCH,
                                                  .transfer = TRANSFER_ID,
                                                  .length = length,
                                                  .total = TOTAL };
                struct scene *s = scene_new(ENGINE_READ);

                assert_true(requester_request_next(&s->requester));
                requester_on_data(&s->engine, &s->peer, &data, &(struct payload){ .length = length });
                assert_int_equal(s->n_received, length > WIRE_INLINE_MAX);
                assert_int_equal(s->requester.error, length > WIRE_INLINE_MAX ? 0 : FERRY_E_TRANSFER_FAILED);
        }
}
