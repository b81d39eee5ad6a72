/* SPDX-License-Identifier: Apache-2.0 */
#include <endian.h>

#include "responder_fixture.h"

/* What a responder sends and receives, and how it ends. */

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
                assert_true(s->session.ready);
                responders_send(&s->session);
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

/* A requester that cancels gives its lease back at once, whatever it has copied. */
TEST(a_lease_that_was_given_back_counts_as_far_as_it_was_copied)
{
        struct scene *s = scene_new();
        const struct wire_header done = REQUEST(WIRE_DONE, TOTAL, .flags = WIRE_QUIET, .transfer = TRANSFER_ID,
                                                .status = FERRY_E_CANCELLED_BY_PEER);

        (void)read_all(s);
        finish_copied(s, MESSAGE_OK, 10);
        responder_on_done(&s->session, &done, &(struct payload){ 0 });
        (void)responders_step(&s->engine);
        assert_int_equal(s->ended, 1);
        assert_int_equal(s->bytes, 10);
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

/* Bytes [PLACE, PLACE + PART) of an offer that a read fills, of which so many have arrived. */
enum { PLACE = TOTAL / 2, PART = 100 };

static uint64_t damage;             /* to a checksum */
static uint64_t named_total = PART; /* bytes of all parts */

static void take_parts(struct scene *s, const struct range *parts, size_t n, uint64_t at, uint16_t flags)
{
        struct wire_header header = REQUEST(WIRE_PARTS, named_total, .flags = WIRE_VERIFY | flags,
                                            .transfer = TRANSFER_ID, .offset = at, .length = n * RANGE_SIZE);
        uint8_t bytes[4 * RANGE_SIZE];
        const struct segment segment = { .address = bytes, .size = n * RANGE_SIZE };
        struct stream stream;

        for (size_t i = 0; i < n; i++)
                memcpy(bytes + i * RANGE_SIZE, (uint64_t[]){ htole64(parts[i].offset), htole64(parts[i].size) },
                       RANGE_SIZE);
        assert_int_equal(stream_init(&stream, &segment, 1), 0);
        assert_int_equal(stream_checksum(&stream, 0, segment.size, &header.checksum), 0);
        header.checksum ^= damage;
        responder_on_parts(&s->session, &header, &(struct payload){ .length = n * RANGE_SIZE, .bytes = bytes });
        (void)responders_step(&s->engine);
}

static void take_part_of_read(struct scene *s, uint64_t at, uint64_t length)
{
        const struct wire_header read = REQUEST(WIRE_READ, PART, .flags = WIRE_PARTED, .seq = (uint32_t)at,
                                                .transfer = TRANSFER_ID, .offset = at, .length = length);

        responder_on_read(&s->session, &read, &(struct payload){ 0 });
}

static void take_done_of_part(struct scene *s)
{
        take_done_of(s, PART, PART);
        (void)responders_step(&s->engine);
}

static uint8_t *address_of_load(const struct scene *s)
{
        uint8_t *address;

        (void)stream_run(s->loading->stream, s->loading->offset, 1, &address);
        return address;
}

/* In several messages, of which one comes twice, and in an order of their own. */
TEST(parts_are_moved_in_the_order_in_which_they_were_named)
{
        const struct range first = { PLACE, PART / 2 }, second = { 10, PART - PART / 2 };
        struct scene *s = scene_new();

        s->available = PLACE + PART / 4; /* of the first part, but all of the second */
        take_parts(s, &first, 1, 0, 0);
        take_parts(s, &first, 1, 0, 0);
        take_parts(s, &second, 1, PART / 2, 0);
        take_part_of_read(s, 0, PART);
        assert_ptr_equal(address_of_load(s), s->segment.address + PLACE);
        assert_int_equal(s->loading->length, PART / 4);
        finish_loading(s, MESSAGE_OK);
        s->available = TOTAL;
        responders_send(&s->session);
        assert_int_equal(s->loading->length, PART - PART / 4);
        finish_loading(s, MESSAGE_OK);
        take_done_of_part(s);
        assert_int_equal(s->error, 0);
        assert_int_equal(s->ended, 1);
}

TEST(parts_that_cannot_be_moved_end_the_transfer)
{
        static const struct range wrong[][2] = {
                { { 0, PART + 1 } },                         /* more than the transfer has */
                { { TOTAL - 1, PART } },                     /* beyond the offer */
                { { UINT64_MAX, PART } },                    /* the sum overflows */
                { { 0, PART / 2 }, { PART / 4, PART / 2 } }, /* twice the same bytes */
                { { 0, UINT64_MAX }, { 0, UINT64_MAX } },
        };

        for (size_t i = 0; i < UNIT_COUNT(wrong); i++) {
                struct scene *s = scene_new();

                take_parts(s, wrong[i], wrong[i][1].size ? 2 : 1, 0, 0);
                assert_int_equal(s->ended, 1);
                assert_int_equal(s->error, FERRY_E_TRANSFER_FAILED);
                assert_int_not_equal(s->status, 0); /* the peer is told */
        }
}

TEST(requests_of_parts_that_were_not_named_are_refused)
{
        struct scene *s = scene_new();

        damage = 1;
        take_parts(s, &(struct range){ 0, PART }, 1, 0, 0);
        damage = 0;
        assert_int_equal(s->status, FERRY_E_CHECKSUM_MISMATCH);
        assert_null(responder_find(&s->engine, TRANSFER_ID));
        take_part_of_read(s, 0, 1); /* it claims nothing */
        assert_int_equal(s->status, FERRY_E_STALE_METADATA);
        assert_null(responder_find(&s->engine, TRANSFER_ID));
        take_parts(s, &(struct range){ 0, PART / 2 }, 1, 0, 0);
        take_part_of_read(s, 0, 1);
        assert_int_equal(s->status, FERRY_E_SIZE_MISMATCH);
        take_parts(s, &(struct range){ PART, PART - PART / 2 }, 1, PART / 2, WIRE_WRITES);
        assert_int_equal(s->status, FERRY_E_KIND_MISMATCH);
        assert_null(s->loading);
        fail_claim(s);
}

/* Its messages have the stream, and threads read it. */
TEST(a_stream_in_use_is_not_cut_into_parts)
{
        static const struct range swapped[] = { { TOTAL / 2, TOTAL / 2 }, { 0, TOTAL / 2 } };

        FOR_EACH (int, named_first, false, true) {
                struct scene *s = scene_new();

                named_total = TOTAL;
                if (named_first)
                        take_parts(s, swapped, 1, 0, 0);
                take_read(s, 0, TOTAL / 2);
                assert_int_equal(s->n_loading, !named_first);
                assert_int_equal(s->status, named_first ? FERRY_E_SIZE_MISMATCH : 0);
                take_parts(s, swapped + named_first, 2 - named_first, named_first ? TOTAL / 2 : 0, 0);
                named_total = PART;
                if (!named_first) {
                        assert_int_equal(s->status, FERRY_E_SIZE_MISMATCH);
                        assert_ptr_equal(address_of_load(s), s->segment.address);
                        finish_loading(s, MESSAGE_OK);
                }
                s->status = 0;
                take_read(s, named_first ? 0 : WIRE_PARTED, TOTAL / 2); /* of the other stream, as it were */
                assert_int_equal(s->status, FERRY_E_SIZE_MISMATCH);
                assert_null(s->loading);
                fail_claim(s);
                assert_int_equal(s->ended, 1);
        }
}

TEST(a_part_is_done_when_it_was_sent_whatever_the_rest_is_waiting_for)
{
        FOR_EACH (int, all, false, true) {
                struct scene *s = scene_new();

                s->available = PLACE + PART;
                take_parts(s, &(struct range){ PLACE, PART }, 1, 0, 0);
                take_part_of_read(s, 0, 1);
                assert_ptr_equal(address_of_load(s), s->segment.address + PLACE);
                finish_loading(s, MESSAGE_OK);
                if (all) {
                        take_part_of_read(s, 1, PART - 1);
                        assert_ptr_equal(address_of_load(s), s->segment.address + PLACE + 1);
                        finish_loading(s, MESSAGE_OK);
                }
                take_done_of_part(s);
                assert_int_equal(s->ended, 1);
                assert_int_equal(s->error, all ? 0 : FERRY_E_TRANSFER_FAILED);
        }
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
        refuse_loading(s);
}

/* A READ of all of an operation of so many bytes, which nobody touches. */
static void take_long_read(struct scene *s, uint16_t flags, uint64_t total)
{
        const struct wire_header read = { .type = WIRE_READ,
                                          .flags = flags,
                                          .from_epoch = EPOCH,
                                          .operation = OPERATION_ID,
                                          .transfer = TRANSFER_ID,
                                          .length = total,
                                          .total = total,
                                          .whole = total };

        s->segment.size = total;
        responder_on_read(&s->session, &read, &(struct payload){ 0 });
}

/* So that the bytes are on their way before all checksums are made. */
TEST(a_message_with_checksums_has_a_bound)
{
        FOR_EACH (uint16_t, flags, 0, WIRE_VERIFY) {
                const uint64_t total = (uint64_t)WIRE_VERIFY_MAX + 1;
                struct scene *s = scene_new();

                take_long_read(s, flags, total);
                assert_int_equal(s->n_loading, 1);
                assert_true(s->loading->length == (flags ? WIRE_VERIFY_MAX : total));
                finish_loading(s, MESSAGE_NO_MEMORY);
                assert_int_equal(s->ended, 1);
        }
}

/* The checksums of the next one are made while one is copied. */
TEST(two_messages_with_checksums_are_under_way)
{
        enum { MESSAGES = 8 };
        struct scene *s = scene_new();
        struct transport_ops ops = *s->transport.ops;

        ops.window = NULL;
        s->transport.ops = &ops;
        take_long_read(s, WIRE_VERIFY, (uint64_t)MESSAGES * WIRE_VERIFY_MAX);
        for (unsigned left = MESSAGES; left > 0; left--) {
                assert_int_equal(s->n_loading, left > 1 ? 2 : 1);
                finish_loading(s, left > 1 ? MESSAGE_OK : MESSAGE_NO_MEMORY);
                responders_send(&s->session);
        }
        assert_int_equal(s->ended, 1);
}

/* To a GPU: the transport copies it from the message. */
TEST(a_write_that_comes_inline_takes_no_place_of_one_that_does_not)
{
        enum { LENGTH = TOTAL / ENGINE_WINDOW_MAX };
        const struct wire_header inline_write = REQUEST(WIRE_WRITE, TOTAL, .transfer = TRANSFER_ID, .length = LENGTH);
        static const uint8_t bytes[LENGTH];
        static const struct space gpu;
        struct scene *s = scene_new();

        s->segment.space = &gpu;
        for (unsigned i = 0; i < 2; i++) { /* received, and waiting */
                responder_on_write(&s->session, &inline_write, &(struct payload){ .bytes = bytes, .length = LENGTH });
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
        refuse_loading(s);
}
