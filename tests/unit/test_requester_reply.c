/* SPDX-License-Identifier: Apache-2.0 */
#include "requester_fixture.h"

/* Replies of a peer that does not keep to the protocol. */

static void answer(struct scene *s, struct session *session, const struct wire_header *h, uint64_t length)
{
        static const uint8_t bytes[4 * CHUNK + 1] = { 0xff };
        struct payload payload = { .length = length, .bytes = bytes };

        switch (h->type) {
        case WIRE_DATA:
                requester_on_data(session, h, &payload);
                break;
        case WIRE_ACK:
                requester_on_ack(session, h, &payload);
                break;
        default:
                requester_on_done_ack(session, h, &payload);
        }
}

/* The requester has requested the first of its chunks. */
TEST(an_answer_of_another_or_to_another_question_changes_nothing)
{
        static const struct {
                enum engine_direction direction;
                enum wire_type type;
                uint64_t epoch;
                bool other_peer;
                uint32_t seq; /* of the chunk that had the same place before */
        } answers[] = {
                { ENGINE_READ, WIRE_DATA, EPOCH, true },
                { ENGINE_READ, WIRE_DATA, EPOCH + 1, false },
                { ENGINE_READ, WIRE_ACK, EPOCH, false },
                { ENGINE_READ, WIRE_DONE_ACK, EPOCH, false },
                { ENGINE_WRITE, WIRE_DATA, EPOCH, false },
                { ENGINE_WRITE, WIRE_ACK, EPOCH, true },
                { ENGINE_WRITE, WIRE_ACK, EPOCH + 1, false },
                { ENGINE_WRITE, WIRE_DONE_ACK, EPOCH, false },
                { ENGINE_READ, WIRE_DATA, EPOCH, false, ENGINE_WINDOW_MAX },
                { ENGINE_WRITE, WIRE_ACK, EPOCH, false, ENGINE_WINDOW_MAX },
        };

        for (size_t i = 0; i < UNIT_COUNT(answers); i++) {
                const struct wire_header h = { .type = answers[i].type,
                                               .flags = WIRE_FINAL,
                                               .from_epoch = answers[i].epoch,
                                               .transfer = TRANSFER_ID,
                                               .seq = answers[i].seq,
                                               .length = 4 * CHUNK };
                struct scene *s = scene_new(answers[i].direction);
                struct requester *r = &s->requester;
                struct session other = s->session;

                assert_true(requester_request_next(r));
                answer(s, answers[i].other_peer ? &other : &s->session, &h, h.length);
                assert_int_equal(s->segment.address[0], 0);
                assert_int_equal(r->done, 0);
                assert_int_equal(r->error, 0);
                assert_int_equal(r->state, REQUESTER_MOVING);
        }
}

TEST(an_answer_of_other_bytes_than_were_requested_fails_the_transfer)
{
        static const struct {
                enum wire_type type;
                uint64_t offset, length, payload;
        } answers[] = {
                { WIRE_DATA, 1, 100, 100 },
                { WIRE_DATA, 0, 100, 99 },
                { WIRE_DATA, 0, 4 * CHUNK + 1, 4 * CHUNK + 1 },
                { WIRE_ACK, 1, 4 * CHUNK, 0 },
                { WIRE_ACK, 0, 4 * CHUNK - 1, 0 },
        };

        for (size_t i = 0; i < UNIT_COUNT(answers); i++) {
                const struct wire_header h =
                        ANSWER(answers[i].type, .offset = answers[i].offset, .length = answers[i].length);
                struct scene *s = scene_new(h.type == WIRE_DATA ? ENGINE_READ : ENGINE_WRITE);

                assert_true(requester_request_next(&s->requester));
                answer(s, &s->session, &h, answers[i].payload);
                assert_int_equal(s->segment.address[0], 0);
                assert_int_equal(s->requester.done, 0);
                assert_int_equal(s->requester.error, FERRY_E_TRANSFER_FAILED);
        }
}

TEST(the_last_of_a_chunk_is_not_the_last_of_the_transfer)
{
        FOR_EACH (enum wire_type, type, WIRE_DATA, WIRE_ACK) {
                const struct wire_header h = ANSWER(type, .flags = WIRE_FINAL, .length = 4 * CHUNK);
                struct scene *s = scene_new(type == WIRE_DATA ? ENGINE_READ : ENGINE_WRITE);

                assert_true(requester_request_next(&s->requester));
                answer(s, &s->session, &h, h.length);
                s->segment.address[0] = 0;
                assert_int_equal(s->requester.done, 4 * CHUNK);
                assert_int_equal(s->requester.state, REQUESTER_MOVING);
        }
}
