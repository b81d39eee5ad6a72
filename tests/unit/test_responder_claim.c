/* SPDX-License-Identifier: Apache-2.0 */
#include "responder_fixture.h"

/* Requests of a peer that does not keep to the protocol, and its links. */

static struct wire_header request_of(enum wire_type type)
{
        return REQUEST(type, TOTAL, .transfer = TRANSFER_ID, .length = 1);
}

/* A READ of a byte, or a WRITE that has it inline. */
static void take_request(struct scene *s, const struct wire_header *h)
{
        static const uint8_t byte = 0xff;

        if (h->type == WIRE_READ)
                responder_on_read(&s->session, h, &(struct payload){ 0 });
        else
                responder_on_write(&s->session, h, &(struct payload){ .length = 1, .bytes = &byte });
}

/* Ends the claim with what it has under way. */
static void end_claim(struct scene *s)
{
        fail_claim(s);
        while (s->loading)
                finish_loading(s, MESSAGE_CANCELLED);
        assert_null(responder_find(&s->engine, TRANSFER_ID));
}

TEST(a_request_that_does_not_fit_its_claim_is_refused)
{
        struct wire_header requests[] = { request_of(WIRE_WRITE), request_of(WIRE_READ), request_of(WIRE_READ),
                                          request_of(WIRE_READ), request_of(WIRE_READ) };
        static const uint32_t refusals[] = { FERRY_E_KIND_MISMATCH, FERRY_E_SIZE_MISMATCH, FERRY_E_PEER_REFUSED,
                                             FERRY_E_PEER_REFUSED, FERRY_E_SIZE_MISMATCH };

        requests[1].total = 2 * TOTAL;
        requests[2].operation = OPERATION_ID + 1;
        requests[3].key[0] = 1;
        requests[4].whole = 2 * TOTAL;
        for (size_t i = 0; i < UNIT_COUNT(requests); i++) {
                struct scene *s = scene_new();

                take_read(s, 0, 1);
                take_request(s, &requests[i]);
                assert_int_equal(s->status, refusals[i]);
                assert_int_equal(s->n_loading, 1);
                assert_int_equal(s->segment.address[0], 0);
                end_claim(s);
        }
}

TEST(what_was_served_by_one_message_is_served_once)
{
        struct scene *s = scene_new();

        (void)read_all(s);
        take_read(s, 0, 1);
        assert_int_equal(s->status, FERRY_E_ALREADY_CLAIMED);
        assert_int_equal(s->n_loading, 1);
        end_claim(s);
}

TEST(a_claim_begins_with_the_first_byte)
{
        struct scene *s = scene_new();
        struct wire_header read = request_of(WIRE_READ);

        read.offset = 1;
        take_request(s, &read);
        assert_int_equal(s->status, FERRY_E_STALE_METADATA);
        assert_null(responder_find(&s->engine, TRANSFER_ID));
}

TEST(a_worker_that_stops_takes_no_claim)
{
        struct scene *s = scene_new();

        s->engine.stopping = true;
        take_read(s, 0, 1);
        assert_int_equal(s->status, FERRY_E_CANCELLED_BY_PEER);
        assert_null(responder_find(&s->engine, TRANSFER_ID));
}

/* Its DONE has overtaken its first request. */
TEST(a_transfer_that_its_requester_has_given_up_claims_nothing)
{
        struct scene *s = scene_new();
        struct wire_header done = request_of(WIRE_DONE);

        done.status = FERRY_E_CANCELLED;
        responder_on_done(&s->session, &done, &(struct payload){ 0 });
        take_read(s, 0, 1);
        assert_int_equal(s->status, FERRY_E_CANCELLED_BY_PEER);
        assert_null(responder_find(&s->engine, TRANSFER_ID));
}

TEST(a_done_of_another_peer_ends_nothing)
{
        struct scene *s = scene_new();
        struct wire_header done = request_of(WIRE_DONE);
        struct session other = s->session;

        take_read(s, 0, 1);
        done.status = FERRY_E_CANCELLED;
        responder_on_done(&other, &done, &(struct payload){ 0 });
        assert_int_equal(s->status, FERRY_E_PEER_REFUSED);
        assert_int_equal(responder_find(&s->engine, TRANSFER_ID)->error, 0);
        end_claim(s);
}

TEST(a_part_that_calls_itself_final_completes_nothing)
{
        struct scene *s = scene_new();
        struct wire_header write = request_of(WIRE_WRITE);

        write.flags = WIRE_FINAL;
        take_request(s, &write);
        s->segment.address[0] = 0;
        assert_int_equal(responder_find(&s->engine, TRANSFER_ID)->state, RESPONDER_SERVING);
        end_claim(s);
        assert_int_equal(s->error, FERRY_E_CANCELLED);
}

TEST(a_write_that_differs_from_its_checksum_or_length_is_not_confirmed)
{
        FOR_EACH (int, longer, false, true) {
                struct scene *s = scene_new();
                struct wire_header write = request_of(WIRE_WRITE);

                write.flags = WIRE_VERIFY;
                write.length += longer ? 1 : 0;
                take_request(s, &write);
                s->segment.address[0] = 0;
                assert_int_equal(s->status, longer ? FERRY_E_TRANSFER_FAILED : FERRY_E_CHECKSUM_MISMATCH);
                end_claim(s);
                assert_int_equal(s->error, longer ? 0 : FERRY_E_CHECKSUM_MISMATCH);
        }
}

/* Its ACK was lost with the link. */
TEST(a_whole_write_that_comes_again_is_told_how_it_ended)
{
        FOR_EACH (int, error, 0, FERRY_E_EXPIRED) {
                struct scene *s = scene_new();
                struct wire_header write = request_of(WIRE_WRITE);

                tombstone_add(&s->engine, TRANSFER_ID, error);
                write.total = 1;
                take_request(s, &write); /* it may be one of several */
                assert_int_equal(s->status, error ? (uint32_t)error : FERRY_E_ALREADY_CLAIMED);
                write.flags = WIRE_FINAL;
                take_request(s, &write);
                assert_int_equal(s->status, error);
        }
}

TEST(a_write_that_begins_after_its_claim_has_failed_stores_nothing)
{
        FOR_EACH (int, reused, false, true) {
                struct scene *s = scene_new();
                struct message *late;

                take_write(s, 0, TOTAL / 2);
                late = s->loading;
                DL_DELETE(s->loading, late);
                if (!reused) { /* the claim waits for another one */
                        take_write(s, TOTAL / 2, TOTAL / 2);
                        assert_true(s->loading->begin(s->loading));
                        fail_claim(s);
                        assert_int_equal(s->ended, 0);
                } else { /* the peer gives its name to another transfer */
                        end_claim(s);
                        memset(s->engine.tombstones, 0, sizeof(s->engine.tombstones));
                        take_read(s, 0, 1);
                        assert_non_null(responder_find(&s->engine, TRANSFER_ID));
                }
                assert_false(late->begin(late));
                message_free(late);
                end_claim(s);
        }
}

/* ---- links ---- */

TEST(a_link_that_has_ended_gives_its_place_to_another)
{
        struct scene *s = scene_new();
        const struct transport_handlers handlers = message_handlers(&s->engine);
        struct link *links[2];

        s->engine.max_links = 1;
        for (size_t i = 0; i < UNIT_COUNT(links); i++)
                link_init(links[i] = calloc(1, sizeof(*links[i])), &s->transport, true);
        assert_true(handlers.accepted(&s->engine, links[0]));
        assert_false(handlers.accepted(&s->engine, links[1]));
        link_set_state(links[0], LINK_FAILED);
        link_set_state(links[0], LINK_ENDED);
        handlers.ended(&s->engine, links[0]);
        sessions_sweep(&s->engine);
        s->engine.stopping = true;
        assert_false(handlers.accepted(&s->engine, links[1]));
        s->engine.stopping = false;
        assert_true(handlers.accepted(&s->engine, links[1]));
        free(links[1]->owner);
        link_free(links[1]);
}

TEST(a_name_that_is_too_long_is_none)
{
        enum { LONG = 8192 };
        struct scene *s = scene_new();
        const struct transport_handlers handlers = message_handlers(&s->engine);
        struct wire_header hello = request_of(WIRE_HELLO);
        uint8_t *name = unit_alloc(LONG);

        memset(name, 'n', LONG);
        handlers.message(&s->engine, &s->link, &hello, &(struct payload){ .length = LONG, .bytes = name });
        assert_true(s->session.up);
        assert_string_equal(s->session.peer->view.name, "");
        free(name);
}
