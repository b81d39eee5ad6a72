/* SPDX-License-Identifier: Apache-2.0 */
#include "requester_fixture.h"

/* What a requester sends, and how it ends. */

/* How many bytes the requester asks for while others have so many in flight. */
static uint64_t asked_beside(uint64_t others)
{
        struct scene *s = scene_new(ENGINE_READ);

        s->session.requested = others;
        requester_enqueue(&s->requester);
        requesters_send(&s->session);
        assert_int_equal(s->session.requested, others + s->requester.in_flight);
        assert_int_equal(s->requester.waiting, s->requester.next < TOTAL);
        return s->requester.in_flight;
}

TEST(a_transfer_leaves_to_the_others_as_much_as_it_has)
{
        assert_int_equal(asked_beside(0), TOTAL); /* the window */
        assert_int_equal(asked_beside(TOTAL), TOTAL / 2);
        assert_int_equal(asked_beside(2 * TOTAL), 4 * CHUNK); /* one request, whatever the others have … */
        assert_int_equal(asked_beside(4 * TOTAL), 0);         /* … but for this */
}

TEST(a_transfer_that_stands_still_lets_the_next_one_ask)
{
        struct scene *s = scene_new(ENGINE_READ);
        struct requester still = s->requester;

        still.in_flight = s->session.requested = TOTAL;
        requester_enqueue(&still);
        requester_enqueue(&s->requester);
        requesters_send(&s->session);
        assert_int_equal(still.in_flight, TOTAL);
        assert_int_equal(s->requester.in_flight, TOTAL / 2);
        assert_true(still.waiting);
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

TEST(a_chunk_of_a_transport_that_has_none_is_one_part)
{
        struct scene *s = scene_new(ENGINE_WRITE);
        struct transport_ops ops = *s->transport.ops;

        ops.request_size = NULL;
        ops.window = NULL;
        s->transport.ops = &ops;
        s->n_fit = 1;
        assert_true(requester_request_next(&s->requester));
        assert_int_equal(s->sent, CHUNK);
        assert_false(requester_request_next(&s->requester)); /* until there is room */
        assert_int_equal(s->requester.error, 0);
}

/* All of it at once. */
static uint64_t fit_all(struct link *link, const struct stream *stream, uint64_t offset, uint64_t limit,
                        bool *ret_inline)
{
        return limit;
}

/* A transfer of so many bytes, none of which but the first is looked at, over a transport that takes all at once. */
static struct scene *scene_of_all(uint64_t size, bool verify)
{
        static struct transport_ops ops;
        static struct segment segment;
        static uint8_t first;
        struct scene *s = scene_new(ENGINE_WRITE);

        ops = *s->transport.ops;
        ops.request_size = NULL;
        ops.window = NULL;
        ops.fit = fit_all;
        s->transport.ops = &ops;
        segment = (struct segment){ .address = &first, .size = size };
        stream_clear(&s->requester.stream);
        assert_int_equal(stream_init(&s->requester.stream, &segment, 1), 0);
        s->requester.spec.total = size;
        s->requester.spec.verify = verify;
        return s;
}

TEST(a_write_is_final_as_long_as_a_cancel_may_wait_for_its_end)
{
        FOR_EACH (uint64_t, size, WIRE_FINAL_MAX, WIRE_FINAL_MAX + 1) {
                struct scene *s = scene_of_all(size, false);

                assert_true(requester_request_next(&s->requester));
                assert_int_equal(s->sent, size);
                assert_int_equal(s->flags, size <= WIRE_FINAL_MAX ? WIRE_FINAL : 0);
        }
}

/* The checksums of the next one are made while one is copied. */
TEST(two_chunks_with_checksums_are_under_way)
{
        struct scene *s = scene_of_all(UINT64_C(8) * WIRE_VERIFY_MAX, true);
        struct requester *r = &s->requester;

        requester_enqueue(r);
        requesters_send(&s->session);
        assert_int_equal(s->n_sent, 2);
        assert_true(s->sent == UINT64_C(2) * WIRE_VERIFY_MAX);
        requester_release_chunk(r, &r->window.chunks[0]);
        assert_true(s->session.ready);
        requesters_send(&s->session);
        assert_int_equal(s->n_sent, 3);
        assert_int_equal(r->error, 0);
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
        r->session = NULL;
        r->spec.peer.data = address;
        route_init(&r->route, &r->spec.peer);
        s->transport.handlers = message_handlers(&s->engine);
        s->engine.ucx = &s->transport;
        s->engine.connect_us = CONNECT_US;
        s->link.owner = &s->session;
        s->session.greeted = true;
        session_index(&s->session, address);
        requester_begin(r);
        assert_ptr_equal(r->session, &s->session);
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

        assert_ptr_equal(s->second.owner, s->requester.session);
        requester_tick(&s->requester, start_us + us - 1);
        assert_int_equal(s->second.state, LINK_CONNECTING);
        requester_tick(&s->requester, start_us + us);
        assert_int_equal(s->second.state, LINK_FAILED);
        assert_int_equal(s->second.error, FERRY_E_PEER_UNREACHABLE); /* others that wait for it may try HTTP */
        end_link(s, &s->second, 0);
        assert_int_equal(s->requester.error, FERRY_E_PEER_LOST);
}

TEST(a_transfer_that_may_go_over_http_leaves_it_time_to_connect)
{
        FOR_EACH (bool, http, false, true) {
                struct scene *s = scene_new(ENGINE_READ);

                (void)snprintf(s->requester.route.url, sizeof(s->requester.route.url), "%s", http ? "http://h:1" : "");
                s->engine.connect_us = CONNECT_US;
                HASH_CLEAR(hh, s->engine.requesters_by_id);
                requester_begin(&s->requester);
                assert_int_equal(s->requester.connect_deadline_us - clock_now_us(),
                                 http ? CONNECT_US / 10 * 7 : CONNECT_US);
        }
}

TEST(an_idle_link_that_fails_at_once_leaves_the_second_all_its_time)
{
        struct scene *s = scene_begun();

        assert_true(requester_request_next(&s->requester));
        end_link(s, &s->link, FERRY_E_PEER_LOST);
        assert_int_equal(s->requester.next, 0);      /* it asks for the first bytes again */
        assert_int_equal(s->session.n_transfers, 0); /* the first link can be released */
        assert_int_equal(s->session.requested, 0);
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
        struct session *session;

        later_us = 3000 * 1000;
        end_link(s, &s->link, FERRY_E_PEER_LOST);
        session = s->requester.session;
        session->n_transfers++; /* a fresh one */
        requester_tick(&s->requester, clock_now_us() + CONNECT_US - 3000 * 1000);
        assert_int_equal(s->second.state, LINK_CONNECTING);
        assert_int_equal(s->requester.state, REQUESTER_FAILING);
        assert_int_equal(s->requester.error, FERRY_E_PEER_LOST);
        assert_false(session->silent);
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
                        ((struct session *)s->second.owner)->n_transfers--; /* it has left */
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
        assert_null(s->requester.session);
        start_us = clock_now_us();
        requester_tick(&s->requester, start_us + ENGINE_RECONNECT_MS * 1000 - 1);
        assert_int_equal(s->requester.error, 0);
        requester_tick(&s->requester, start_us + ENGINE_RECONNECT_MS * 1000);
        assert_int_equal(s->requester.error, FERRY_E_PEER_UNREACHABLE);
}

/* Of a READ that is answered in parts: what follows the read may have passed them on. */
TEST(a_link_that_ends_behind_a_part_of_the_first_chunk_is_not_tried_again)
{
        struct scene *s = scene_begun();

        assert_true(requester_request_next(&s->requester));
        take_data(s, 100, true);
        assert_int_equal(s->requester.error, 0);
        end_link(s, &s->link, FERRY_E_PEER_LOST);
        assert_false(s->requester.retried);
        assert_int_equal(s->requester.error, FERRY_E_PEER_LOST);
}

/* A READ of what another read is filling is answered in parts, and may end behind any. */
TEST(bytes_count_as_done_before_the_rest_of_their_chunk_is_here)
{
        struct scene *s = scene_new(ENGINE_READ);

        assert_true(requester_request_next(&s->requester));
        take_data(s, 100, true);
        assert_int_equal(s->requester.error, 0);
        assert_int_equal(s->requester.done, 100);
}

static uint64_t arrived_to;

static void note_arrived(void *context, uint64_t offset, uint64_t length)
{
        assert_int_equal(offset, arrived_to);
        arrived_to += length;
}

/* A new read may go on behind them. */
TEST(what_is_in_place_of_a_message_that_fails_has_arrived)
{
        static const struct {
                enum message_result result;
                int error;
        } ends[] = {
                { MESSAGE_LEASE_ENDED, FERRY_E_CANCELLED_BY_PEER },
                { MESSAGE_DIFFERS, FERRY_E_CHECKSUM_MISMATCH },
        };

        for (size_t i = 0; i < UNIT_COUNT(ends); i++) {
                struct scene *s = scene_new(ENGINE_READ);

                s->keeps = true;
                s->requester.spec.arrived = note_arrived;
                arrived_to = 0;
                assert_true(requester_request_next(&s->requester));
                take_data(s, CHUNK, false);
                assert_true(s->fetched->begin(s->fetched));
                s->fetched->copied = 100;
                s->fetched->done(s->fetched, ends[i].result);
                message_free(s->fetched);
                assert_int_equal(arrived_to, 100);
                assert_int_equal(s->requester.done, 0);
                assert_int_equal(s->requester.error, ends[i].error);
        }
}

/* A message for each byte would take far more memory than the bytes. */
TEST(bytes_that_have_to_be_fetched_are_more_than_fit_inline)
{
        FOR_EACH (uint64_t, length, WIRE_INLINE_MAX, WIRE_INLINE_MAX + 1) {
                struct scene *s = scene_new(ENGINE_READ);

                assert_true(requester_request_next(&s->requester));
                take_data(s, length, false);
                assert_int_equal(s->n_received, length > WIRE_INLINE_MAX);
                assert_int_equal(s->requester.error, length > WIRE_INLINE_MAX ? 0 : FERRY_E_TRANSFER_FAILED);
        }
}

TEST(a_link_with_a_transfer_is_not_idle)
{
        struct scene *s = scene_begun();

        DL_APPEND(s->engine.all_sessions, &s->session);
        FOR_EACH (uint32_t, n_transfers, 1, 0) {
                s->session.n_transfers = n_transfers;
                sessions_close_idle(&s->engine, clock_now_us() + ENGINE_IDLE_US);
                assert_int_equal(s->link.state, n_transfers ? LINK_UP : LINK_FAILED);
        }
}

/* ---- ends ---- */

/* The peer may be complete: nobody knows any more. */
TEST(a_cancel_whose_answer_is_lost_is_none)
{
        struct scene *s = scene_new(ENGINE_WRITE);

        s->requester.state = REQUESTER_FINISHING;
        requester_cancel(&s->requester, FERRY_E_CANCELLED, "");
        requester_link_ended(&s->requester, FERRY_E_PEER_LOST, "the link was cut");
        assert_int_equal(s->requester.error, FERRY_E_PEER_LOST);
}

TEST(a_transfer_that_is_complete_ends_though_its_link_does)
{
        struct scene *s = scene_new(ENGINE_READ);

        s->requester.state = REQUESTER_COMPLETE;
        requester_link_ended(&s->requester, FERRY_E_PEER_LOST, "the link was cut");
        assert_true(s->requester.marked);
        assert_int_equal(s->requester.error, 0);
}

/* A lease that is not released, a rendezvous that does not end. */
TEST(memory_that_does_not_come_to_rest_within_the_grace_ends_the_link)
{
        struct scene *s = scene_new(ENGINE_READ);
        struct requester *r = &s->requester;

        s->engine.grace_us = 1000;
        assert_true(requester_request_next(r));
        r->window.chunks[0].receives++;
        requester_cancel(r, FERRY_E_CANCELLED, "");
        requester_tick(r, clock_now_us() + s->engine.grace_us - 1);
        assert_int_equal(s->link.state, LINK_UP);
        requester_tick(r, clock_now_us() + s->engine.grace_us);
        assert_int_equal(s->link.state, LINK_FAILED);
        assert_int_equal(r->window.n_taken, 1);
}
