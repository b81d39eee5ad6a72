/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ferry/error.h>

#include "base/util.h"
#include "local_fixture.h"

/* Messages, payloads and the end of links, between transports in one process. */

enum { MIB = 1 << 20, TRANSFER = 77 };

static struct worker a, b;
static struct link *a_to_b;

static int descriptors;

static uint64_t sum_of(const struct stream *stream, uint64_t offset, uint64_t length)
{
        uint64_t sum;

        assert_int_equal(stream_checksum(stream, offset, length, &sum), 0);
        return sum;
}

static int setup_with(void **state, unsigned copy_threads)
{
        int r = fixture_setup(state);

        if (r < 0)
                return r;
        descriptors = count_descriptors();
        worker_open(&a, copy_threads);
        worker_open(&b, copy_threads);
        a_to_b = worker_connect(&a, b.epoch);
        RUN_UNTIL(&a, &b, b.link && b.link->state == LINK_UP && a_to_b->state == LINK_UP);
        assert_true(a.room == 1 && b.room == 1); /* the link is up */
        a.room = b.room = 0;
        return 0;
}

static int setup(void **state)
{
        return setup_with(state, 0);
}

static int setup_threads(void **state)
{
        return setup_with(state, 3);
}

static struct block from_block, to_block; /* of the message that is sent */

static int teardown(void **state)
{
        block_free(&from_block);
        block_free(&to_block);
        if (a.transport)
                worker_close(&a);
        if (b.transport)
                worker_close(&b);
        assert_int_equal(count_descriptors(), descriptors);
        assert_int_equal(count_mappings("ferry-ring") + count_mappings("ferry-leases"), 0);
        return fixture_teardown(state);
}

static void stream_of(struct stream *stream, struct segment *segments, size_t n)
{
        assert_int_equal(stream_init(stream, segments, n), 0);
}

static void stream_of_block(struct stream *stream, struct segment *segment, struct block *block)
{
        *segment = (struct segment){ block->memory.address, block->memory.size, &block->memory };
        stream_of(stream, segment, 1);
}

TEST_WITH(links_tell_epoch_and_carrier, setup, teardown)
{
        assert_int_equal(a_to_b->peer_epoch, b.epoch);
        assert_int_equal(b.link->peer_epoch, a.epoch);
        assert_true(b.link->accepted);
        assert_false(a_to_b->accepted);
        assert_string_equal(a.transport->ops->carrier(a_to_b), "shm");
        assert_string_equal(local_transport_directory(a.transport), fixture_directory);
        assert_int_not_equal(a_to_b->connect_us, 0);
        assert_int_equal(a.transport->ops->deadline(a.transport), UINT64_MAX);
        assert_true(a.transport->ops->arm(a.transport));
}

TEST_WITH(a_header_arrives_as_it_was_sent, setup, teardown)
{
        struct outcome outcome = { 0 };
        struct message *message = message_make(&a, NULL, 0, 0, TRANSFER, &outcome);

        message->header.status = 5;
        memset(message->header.key, 0xab, sizeof(message->header.key));
        worker_send(a_to_b, message);
        assert_int_equal(outcome.done, 1);
        assert_int_equal(outcome.begun, 0);
        RUN_UNTIL(&b, NULL, b.n == 1);
        assert_int_equal(b.headers[0].status, 5);
        assert_int_equal(b.headers[0].transfer, TRANSFER);
        assert_int_equal(b.headers[0].key[31], 0xab);
        assert_int_equal(b.bytes, 0);
}

/* Sends [offset, offset + length) of one stream into the same place of another, in as many messages as fit() says. */
static void carry(struct worker *from, struct link *link, struct worker *to, const struct stream *source,
                  const struct stream *place, uint64_t offset, uint64_t length)
{
        to->place = place;
        for (uint64_t end = offset + length; offset < end;) {
                struct outcome outcome = { 0 };
                bool inside;
                uint64_t n = from->transport->ops->fit(link, source, offset, end - offset, &inside);
                size_t seen = to->n;
                struct message *message;

                if (n == 0) {
                        worker_step(from, to);
                        continue;
                }
                message = message_make(from, source, offset, n, TRANSFER, &outcome);
                message->inside = inside;
                worker_send(link, message);
                RUN_UNTIL(from, to, outcome.done && to->n > seen);
                assert_int_equal(outcome.done, 1);
                assert_int_equal(outcome.begun, 1);
                assert_int_equal(outcome.result, MESSAGE_OK);
                if (n <= WIRE_INLINE_MAX || inside)
                        stream_store(place, offset, to->inside, n);
                offset += n;
        }
}

TEST_WITH(bytes_of_every_size_arrive, setup, teardown)
{
        static const size_t sizes[] = { 1,       4096,         WIRE_INLINE_MAX, WIRE_INLINE_MAX + 1, 65536, MIB,
                                        MIB + 1, 3 * MIB + 17, 9 * MIB };

        for (size_t i = 0; i < UNIT_COUNT(sizes); i++)
                for (int files = 0; files < 4; files++) {
                        struct segment from, to;
                        struct stream source, place;
                        struct block x, y;

                        block_new(&x, &a, sizes[i], files & 1);
                        block_new(&y, &b, sizes[i], files & 2);
                        stream_of_block(&source, &from, &x);
                        stream_of_block(&place, &to, &y);
                        carry(&a, a_to_b, &b, &source, &place, 0, sizes[i]);
                        assert_memory_equal(x.memory.address, y.memory.address, sizes[i]);
                        block_free(&x);
                        block_free(&y);
                }
}
TEST_AGAIN(bytes_of_every_size_arrive, threads, setup_threads, teardown)

/* ---- scattered memory ---- */

/* Slices of two blocks, one of them a file, in an order of their own. */
static void scatter(struct stream *stream, struct segment *segments, size_t n, struct block *x, struct block *y,
                    size_t size)
{
        for (size_t i = 0; i < n; i++) {
                struct block *block = i % 3 == 0 ? y : x;

                segments[i] = (struct segment){ block->memory.address + (n - 1 - i) * size, size, &block->memory };
        }
        stream_of(stream, segments, n);
}

TEST_WITH(scattered_bytes_arrive_at_scattered_places, setup, teardown)
{
        enum { PIECES = 600 };
        static const size_t sizes[] = { 13, 500, 4096, 20000 };

        for (size_t i = 0; i < UNIT_COUNT(sizes); i++)
                for (int mixed = 0; mixed < 2; mixed++) {
                        size_t size = sizes[i], total = PIECES * size;
                        struct segment from[PIECES], to[PIECES / 4];
                        struct stream source, place;
                        struct block x, y, u, v;
                        uint64_t sum;

                        block_new(&x, &a, total, true);
                        block_new(&y, &a, total, !mixed);
                        block_new(&u, &b, total, true);
                        block_new(&v, &b, total, false);
                        scatter(&source, from, PIECES, &x, &y, size);
                        scatter(&place, to, PIECES / 4, &u, &v, 4 * size);
                        carry(&a, a_to_b, &b, &source, &place, 0, total);
                        sum = sum_of(&source, 0, total);
                        assert_true(sum == sum_of(&place, 0, total));
                        carry(&a, a_to_b, &b, &source, &place, size / 2, total - size);
                        assert_true(sum == sum_of(&place, 0, total));
                        stream_clear(&source);
                        stream_clear(&place);
                        block_free(&x);
                        block_free(&y);
                        block_free(&u);
                        block_free(&v);
                }
}
TEST_AGAIN(scattered_bytes_arrive_at_scattered_places, threads, setup_threads, teardown)

TEST_WITH(fit_never_mixes_what_is_lent_with_what_is_copied, setup, teardown)
{
        struct segment segments[3];
        struct stream source;
        struct block file, private;
        bool inside;

        block_new(&file, &a, MIB, true);
        block_new(&private, &a, 2 * MIB, false);
        segments[0] = (struct segment){ file.memory.address, MIB / 2, &file.memory };
        segments[1] = (struct segment){ private.memory.address, 2 * MIB, &private.memory };
        segments[2] = (struct segment){ file.memory.address + MIB / 2, MIB / 2, &file.memory };
        stream_of(&source, segments, 3);
        assert_int_equal(a.transport->ops->fit(a_to_b, &source, 0, 3 * MIB, &inside), MIB / 2);
        assert_int_equal(a.transport->ops->fit(a_to_b, &source, MIB / 2, 3 * MIB - MIB / 2, &inside), MIB);
        assert_int_equal(a.transport->ops->fit(a_to_b, &source, 2 * MIB, MIB, &inside), MIB / 2);
        assert_int_equal(a.transport->ops->fit(a_to_b, &source, 5 * MIB / 2, MIB / 2, &inside), MIB / 2);
        assert_int_equal(a.transport->ops->fit(a_to_b, &source, 0, 1, &inside), 1);
        assert_false(inside);
        stream_clear(&source);
        block_free(&file);
        block_free(&private);
}

/* ---- one lent message ---- */

static struct segment from_segment, to_segment;
static struct stream from, to;
static struct outcome sent;

/* Until the end of the test, or until the next ones. */
static void lend_blocks(size_t size, bool is_file)
{
        block_free(&from_block);
        block_free(&to_block);
        block_new(&from_block, &a, size, is_file);
        block_new(&to_block, &b, size, true);
        stream_of_block(&from, &from_segment, &from_block);
        stream_of_block(&to, &to_segment, &to_block);
        b.place = &to;
        sent = (struct outcome){ 0 };
}

static void send_it(uint64_t length)
{
        worker_send(a_to_b, message_make(&a, &from, 0, length, TRANSFER, &sent));
}

static bool place_is_untouched(void)
{
        static const uint8_t zero[4096];

        return memcmp(to_block.memory.address, zero, sizeof(zero)) == 0;
}

static void clear_place(void)
{
        memset(to_block.memory.address, 0, to_block.memory.size);
}

TEST_WITH(progress_of_a_long_receive_is_told, setup, teardown)
{
        lend_blocks(8 * MIB, true);
        send_it(8 * MIB);
        RUN_UNTIL(&a, &b, sent.done && b.received.done);
        assert_int_equal(b.received.result, MESSAGE_OK);
        assert_true(b.copied > 0);
        assert_memory_equal(from_block.memory.address, to_block.memory.address, 8 * MIB);
}

static uint64_t first_part;

static void note_first_part(struct worker *worker, struct message *message)
{
        (void)worker;
        if (first_part == 0)
                first_part = message->copied;
}

static uint64_t part_copied_at_once(bool shared)
{
        b.received.done = 0;
        first_part = 0;
        b.transport->shared = shared;
        send_it(8 * MIB);
        RUN_UNTIL(&a, &b, sent.done && b.received.done);
        assert_int_equal(b.received.result, MESSAGE_OK);
        return first_part;
}

TEST_WITH(a_copy_lets_messages_pass_sooner_where_transfers_share_the_thread, setup, teardown)
{
        uint64_t alone;

        lend_blocks(8 * MIB, true);
        b.on_copied = note_first_part;
        alone = part_copied_at_once(false);
        assert_in_range(part_copied_at_once(true), 1, alone / 4);
}

static void take_back(struct worker *worker, struct message *message)
{
        (void)worker;
        (void)message;
        a.transport->ops->cancel(a_to_b, TRANSFER);
        assert_int_equal(sent.result, MESSAGE_CANCELLED);
        memset(from_block.memory.address, 0xee, from_block.memory.size); /* the memory is the program's again */
}

TEST_WITH(what_is_taken_back_in_mid_copy_never_ends_well, setup, teardown)
{
        lend_blocks(16 * MIB, true);
        b.on_copied = take_back;
        send_it(16 * MIB);
        RUN_UNTIL(&a, &b, b.received.done && sent.done);
        /* Threads may have been through before anybody could take it back. */
        assert_int_equal(b.received.result, b.copied ? MESSAGE_REVOKED : MESSAGE_OK);
        assert_int_equal(sent.done, 1);
        /* The slot is of use again. */
        b.on_copied = NULL;
        b.received.done = 0;
        send_it(16 * MIB);
        RUN_UNTIL(&a, &b, sent.done && b.received.done);
        assert_int_equal(b.received.result, MESSAGE_OK);
}
TEST_AGAIN(what_is_taken_back_in_mid_copy_never_ends_well, threads, setup_threads, teardown)

TEST_WITH(what_is_taken_back_before_it_is_copied_is_revoked, setup, teardown)
{
        for (int is_file = 0; is_file < 2; is_file++) {
                lend_blocks(MIB, is_file);
                clear_place();
                b.received.done = 0;
                send_it(MIB);
                assert_int_equal(sent.done, 0);
                a.transport->ops->cancel(a_to_b, TRANSFER + 1);
                assert_int_equal(sent.done, 0);
                a.transport->ops->cancel(a_to_b, TRANSFER);
                assert_int_equal(sent.done, 1);
                assert_int_equal(sent.result, MESSAGE_CANCELLED);
                RUN_UNTIL(&a, &b, b.received.done);
                assert_int_equal(b.received.result, MESSAGE_REVOKED);
                assert_true(place_is_untouched());
                RUN_UNTIL(&a, &b, !a.transport->ops->progress(a.transport));
        }
        assert_int_equal(a.ended + b.ended, 0);
}

TEST_WITH(a_refused_payload_sets_the_sender_free, setup, teardown)
{
        lend_blocks(MIB, true);
        clear_place();
        b.place = NULL;
        send_it(MIB);
        RUN_UNTIL(&a, &b, sent.done);
        assert_int_equal(sent.result, MESSAGE_OK);
        assert_true(place_is_untouched());
}

TEST_WITH(a_receive_that_is_not_wanted_any_more_is_refused, setup, teardown)
{
        lend_blocks(MIB, true);
        clear_place();
        b.received.refuses = true;
        send_it(MIB);
        RUN_UNTIL(&a, &b, sent.done);
        assert_int_equal(b.received.begun, 1);
        assert_int_equal(b.received.done, 0);
        assert_true(place_is_untouched());
}

TEST_WITH(a_send_that_is_not_wanted_any_more_is_not_sent, setup, teardown)
{
        lend_blocks(MIB, true);
        sent.refuses = true;
        send_it(MIB);
        assert_int_equal(sent.done, 1);
        assert_int_equal(sent.result, MESSAGE_CANCELLED);
        worker_step(&a, &b);
        assert_int_equal(b.n, 0);
}

static void stop_receiving(struct worker *worker, struct message *message)
{
        worker->transport->ops->cancel(message->link, TRANSFER);
}

TEST_WITH(a_receive_ends_with_its_piece_when_it_is_cancelled, setup, teardown)
{
        lend_blocks(16 * MIB, true);
        b.on_copied = stop_receiving;
        send_it(16 * MIB);
        RUN_UNTIL(&a, &b, sent.done);
        assert_int_equal(b.received.done, 1);
        assert_int_equal(b.received.result, b.copied ? MESSAGE_CANCELLED : MESSAGE_OK);
        assert_int_equal(sent.result, MESSAGE_OK);
}
TEST_AGAIN(a_receive_ends_with_its_piece_when_it_is_cancelled, threads, setup_threads, teardown)

static void fail_receiving(struct worker *worker, struct message *message)
{
        (worker->transport->ops->fail)(message->link, FERRY_E_STALLED, "in mid copy");
}

TEST_WITH(a_receive_ends_with_its_link, setup, teardown)
{
        lend_blocks(16 * MIB, true);
        b.on_copied = fail_receiving;
        send_it(16 * MIB);
        RUN_UNTIL(&a, &b, sent.done && b.received.done);
        assert_int_equal(b.received.result, b.copied ? MESSAGE_LOST : MESSAGE_OK);
        assert_int_equal(sent.result, b.copied ? MESSAGE_LOST : MESSAGE_OK);
}
TEST_AGAIN(a_receive_ends_with_its_link, threads, setup_threads, teardown)

static void cancel_at_once(struct worker *worker, struct link *link, const struct wire_header *header)
{
        worker->transport->ops->cancel(link, header->transfer);
}

TEST_WITH(a_receive_that_waits_is_refused_when_it_is_cancelled, setup, teardown)
{
        lend_blocks(MIB, true);
        b.on_message = cancel_at_once;
        send_it(MIB);
        RUN_UNTIL(&a, &b, sent.done);
        assert_int_equal(b.received.begun, 0);
        assert_int_equal(b.received.done, 0);
}

TEST_WITH(several_copies_go_on_in_turn, setup, teardown)
{
        enum { COPIES = 4 };
        struct outcome outcomes[COPIES];

        memset(outcomes, 0, sizeof(outcomes));
        lend_blocks(COPIES * 4 * MIB, true);
        for (size_t i = 0; i < COPIES; i++)
                worker_send(a_to_b, message_make(&a, &from, i * 4 * MIB, 4 * MIB, TRANSFER + i, &outcomes[i]));
        for (size_t i = 0; i < COPIES; i++)
                RUN_UNTIL(&a, &b, outcomes[i].done);
        assert_int_equal(b.received.done, COPIES);
        assert_memory_equal(from_block.memory.address, to_block.memory.address, COPIES * 4 * MIB);
}
TEST_AGAIN(several_copies_go_on_in_turn, threads, setup_threads, teardown)

/* ---- bounds ---- */

TEST_WITH(a_full_ring_asks_to_wait_and_tells_when_there_is_room, setup, teardown)
{
        struct outcome outcomes[8];
        bool inside;

        memset(outcomes, 0, sizeof(outcomes));
        lend_blocks(9 * MIB, false);
        for (size_t i = 0; i < UNIT_COUNT(outcomes); i++) {
                assert_int_equal(a.transport->ops->fit(a_to_b, &from, 0, 9 * MIB, &inside), MIB);
                worker_send(a_to_b, message_make(&a, &from, i * MIB, MIB, TRANSFER, &outcomes[i]));
        }
        assert_int_equal(a.transport->ops->fit(a_to_b, &from, 0, 9 * MIB, &inside), 0);
        assert_int_equal(a.room, 0);
        RUN_UNTIL(&a, &b, b.received.done == 8 && outcomes[7].done);
        assert_int_equal(a.room, 1);
        assert_int_equal(a.transport->ops->fit(a_to_b, &from, 0, 9 * MIB, &inside), MIB);
}

TEST_WITH(leases_are_bounded, setup, teardown)
{
        struct outcome outcomes[256];
        bool inside;

        memset(outcomes, 0, sizeof(outcomes));
        lend_blocks(MIB, true);
        b.place = NULL;
        for (size_t i = 0; i < UNIT_COUNT(outcomes); i++) {
                assert_int_equal(a.transport->ops->fit(a_to_b, &from, 0, MIB, &inside), MIB);
                worker_send(a_to_b, message_make(&a, &from, 0, MIB, TRANSFER, &outcomes[i]));
        }
        assert_int_equal(a.transport->ops->fit(a_to_b, &from, 0, MIB, &inside), 0);
        /* Taken back or not: a slot is free when the peer says so. */
        a.transport->ops->cancel(a_to_b, TRANSFER);
        assert_int_equal(outcomes[255].result, MESSAGE_CANCELLED);
        assert_int_equal(a.transport->ops->fit(a_to_b, &from, 0, MIB, &inside), 0);
        send_it(MIB);
        assert_int_equal(sent.result, MESSAGE_NO_MEMORY);
        RUN_UNTIL(&a, &b, a.room > 0);
        assert_int_equal(a.transport->ops->fit(a_to_b, &from, 0, MIB, &inside), MIB);
}

TEST_WITH(a_peer_that_does_not_read_harms_its_own_link_alone, setup, teardown)
{
        struct worker c;
        struct link *a_to_c;

        worker_open(&c, 0);
        a_to_c = worker_connect(&a, c.epoch);
        RUN_UNTIL(&a, &c, a_to_c->state == LINK_UP);
        lend_blocks(MIB, true);
        /* Until the queue is full. */
        for (int i = 0; i < 100000 && a_to_b->state == LINK_UP; i++) {
                struct outcome outcome = { 0 };

                worker_send(a_to_b, message_make(&a, NULL, 0, 0, TRANSFER, &outcome));
                assert_int_equal(outcome.done, 1);
                if (i == 10000) { /* what waits is enough to send no payload */
                        bool inside;

                        assert_int_equal(a.transport->ops->fit(a_to_b, &from, 0, 1, &inside), 0);
                }
        }
        assert_int_equal(a_to_b->state, LINK_FAILED);
        assert_int_equal(a_to_b->error, FERRY_E_PEER_LOST);
        RUN_UNTIL(&a, &c, a.ended == 1);
        worker_send(a_to_c, message_make(&a, NULL, 0, 0, TRANSFER, &sent));
        RUN_UNTIL(&a, &c, c.n == 1);
        RUN_UNTIL(&a, &b, b.ended == 1);
        worker_close(&c);
}

TEST_WITH(what_waits_in_the_queue_arrives_in_order, setup, teardown)
{
        enum { MESSAGES = 20000 };

        lend_blocks(MIB, true);
        for (uint32_t i = 0; i < MESSAGES; i++) {
                struct message *message = message_make(&a, &from, i % 1000, i % 5 == 0 ? 100 : 0, i + 1, &sent);

                worker_send(a_to_b, message);
        }
        assert_true(a.transport->ops->arm(a.transport));
        RUN_UNTIL(&a, &b, b.n == MESSAGES);
        for (size_t i = 0; i < HEADERS_MAX; i++)
                assert_int_equal(b.headers[i].transfer, i + 1);
        assert_int_equal(b.bytes, MESSAGES / 5 * 100);
        assert_int_equal(a.ended, 0);
}

/* ---- the end of links ---- */

TEST_WITH(a_peer_that_closes_ends_all_sends, setup, teardown)
{
        lend_blocks(16 * MIB, true);
        send_it(16 * MIB);
        worker_step(&b, NULL);
        assert_int_equal(b.received.begun, 1);
        block_free(&to_block);
        b.transport->ops->shut_down(b.transport, 0);
        assert_int_equal(b.received.done, 1);
        assert_int_equal(b.received.result, MESSAGE_LOST);
        assert_int_equal(b.ended, 1);
        RUN_UNTIL(&a, NULL, a.ended);
        assert_int_equal(sent.result, MESSAGE_LOST);
        assert_int_equal(a.error, FERRY_E_PEER_LOST);
        assert_string_equal(a.detail, "its process ended");
}

TEST_WITH(a_sender_that_dies_in_mid_copy_ends_the_receive, setup, teardown)
{
        lend_blocks(16 * MIB, true);
        send_it(16 * MIB);
        worker_step(&b, NULL);
        a.transport->ops->shut_down(a.transport, 0);
        assert_int_equal(sent.result, MESSAGE_LOST);
        RUN_UNTIL(&b, NULL, b.ended);
        assert_int_equal(b.received.done, 1);
        assert_in_range(b.received.result, MESSAGE_REVOKED, MESSAGE_LOST);
}

TEST_WITH(a_link_that_the_engine_fails_ends_later_and_for_its_reason, setup, teardown)
{
        struct outcome late = { 0 };

        lend_blocks(MIB, true);
        send_it(MIB);
        (a.transport->ops->fail)(a_to_b, FERRY_E_STALLED, "nothing moves");
        (a.transport->ops->fail)(a_to_b, FERRY_E_TIMEOUT, "again");
        assert_int_equal(a_to_b->state, LINK_FAILED);
        assert_int_equal(a.ended + sent.done, 0);
        assert_false(a.transport->ops->arm(a.transport));
        worker_send(a_to_b, message_make(&a, &from, 0, MIB, TRANSFER, &late));
        assert_int_equal(late.result, MESSAGE_LOST);
        worker_step(&a, NULL);
        assert_int_equal(a.ended, 1);
        assert_int_equal(sent.result, MESSAGE_LOST);
        assert_int_equal(a.error, FERRY_E_STALLED);
        assert_string_equal(a.detail, "nothing moves");
        RUN_UNTIL(&b, NULL, b.ended);
        assert_int_equal(b.error, FERRY_E_PEER_LOST);
}

static void fail_at_once(struct worker *worker, struct link *link, const struct wire_header *header)
{
        (void)header;
        (worker->transport->ops->fail)(link, FERRY_E_PEER_REFUSED, "not liked");
        assert_int_equal(worker->ended, 0);
}

TEST_WITH(a_link_can_be_failed_inside_a_handler, setup, teardown)
{
        lend_blocks(MIB, true);
        b.on_message = fail_at_once;
        send_it(MIB);
        send_it(MIB);
        RUN_UNTIL(&b, NULL, b.ended);
        assert_int_equal(b.n, 1);
        assert_int_equal(b.received.done, 0); /* it had not begun */
        RUN_UNTIL(&a, NULL, a.ended);
}

TEST_WITH(what_was_said_before_the_end_is_heard, setup, teardown)
{
        struct outcome outcome = { 0 };

        /* b has closed with our message unread: that is a reset, and comes before its last words. */
        worker_send(a_to_b, message_make(&a, NULL, 0, 0, TRANSFER, &outcome));
        worker_send(b.link, message_make(&b, NULL, 0, 0, TRANSFER, &outcome));
        b.transport->ops->shut_down(b.transport, 0);
        worker_send(a_to_b, message_make(&a, NULL, 0, 0, TRANSFER, &outcome));
        RUN_UNTIL(&a, NULL, a.ended);
        assert_int_equal(a.n, 1);
}

TEST_WITH(a_refused_link_was_never_heard, setup, teardown)
{
        struct link *second;

        b.refuses_links = true;
        second = worker_connect(&a, b.epoch);
        RUN_UNTIL(&a, &b, a.ended == 1);
        assert_int_equal(a.error, FERRY_E_PEER_UNREACHABLE);
        assert_int_equal(b.ended, 0);
        assert_ptr_not_equal(second, a_to_b);
        assert_int_equal(a_to_b->state, LINK_UP);
}

/* A worker in a process of its own that takes what it is sent. */
static pid_t spawn_receiver(uint64_t *ret_epoch)
{
        int channel[2];
        uint64_t epoch;
        pid_t child;

        assert_int_equal(pipe(channel), 0);
        child = fork();
        if (child == 0) {
                static struct worker worker;

                worker_open(&worker, 0);
                if (write(channel[1], &worker.epoch, sizeof(worker.epoch)) != sizeof(worker.epoch))
                        _exit(1);
                for (;;)
                        worker_step(&worker, NULL);
        }
        assert_int_equal(read(channel[0], &epoch, sizeof(epoch)), sizeof(epoch));
        (void)close(channel[0]);
        (void)close(channel[1]);
        *ret_epoch = epoch;
        return child;
}

TEST_WITH(a_killed_peer_is_noticed_at_once_and_leaves_nothing, setup, teardown)
{
        struct transport_peer peer = { .text = "" };
        uint64_t epoch;
        pid_t child = spawn_receiver(&epoch);
        struct link *link = worker_connect(&a, epoch);
        int error;

        RUN_UNTIL(&a, NULL, link->state == LINK_UP);
        lend_blocks(MIB, true);
        assert_int_equal(kill(child, SIGSTOP), 0);
        assert_int_equal(waitpid(child, NULL, WUNTRACED), child);
        worker_send(link, message_make(&a, &from, 0, MIB, TRANSFER, &sent));
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        RUN_UNTIL(&a, NULL, a.ended);
        assert_int_equal(sent.result, MESSAGE_LOST);
        assert_string_equal(a.detail, "its process ended");
        /* Its socket goes with the first who asks for it. */
        peer.epoch = epoch;
        assert_null(a.transport->ops->connect(a.transport, &peer, &error));
        assert_int_equal(error, -ENOENT);
        assert_null(a.transport->ops->connect(a.transport, &peer, &error));
        assert_int_equal(error, -ENOENT);
}

static void *drive_b(void *context)
{
        (void)context;
        while (!b.ended)
                worker_step(&b, NULL);
        return NULL;
}

TEST_WITH(a_shutdown_flushes_what_was_sent, setup, teardown)
{
        enum { MESSAGES = 5000 };
        pthread_t thread;

        lend_blocks(16 * MIB, true);
        for (uint32_t i = 0; i < MESSAGES; i++) {
                struct outcome outcome = { 0 };

                worker_send(a_to_b, message_make(&a, NULL, 0, 0, i + 1, &outcome));
        }
        send_it(16 * MIB);
        assert_int_equal(pthread_create(&thread, NULL, drive_b, NULL), 0);
        a.transport->ops->shut_down(a.transport, clock_now_us() + 10000000);
        assert_int_equal(a.ended, 1);
        assert_int_equal(sent.result, MESSAGE_OK);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(b.n, MESSAGES + 1);
}

/* ---- itself, and memory that goes ---- */

TEST_WITH(a_worker_may_be_its_own_peer, setup, teardown)
{
        struct segment x, y;
        struct stream source, place;
        struct block out, in;
        struct link *link = worker_connect(&a, a.epoch);

        RUN_UNTIL(&a, NULL, link->state == LINK_UP && a.link && a.link->state == LINK_UP);
        block_new(&out, &a, 3 * MIB, true);
        block_new(&in, &a, 3 * MIB, true);
        stream_of_block(&source, &x, &out);
        stream_of_block(&place, &y, &in);
        carry(&a, link, &a, &source, &place, 0, 3 * MIB);
        assert_memory_equal(out.memory.address, in.memory.address, 3 * MIB);
        block_free(&out);
        block_free(&in);
        (a.transport->ops->fail)(link, FERRY_E_CANCELLED, "");
        RUN_UNTIL(&a, NULL, a.ended == 2);
}
TEST_AGAIN(a_worker_may_be_its_own_peer, threads, setup_threads, teardown)

TEST_WITH(memory_that_goes_is_unmapped_by_its_peers, setup, teardown)
{
        int before, open;

        lend_blocks(MIB, true);
        before = count_mappings("ferry-test-block");
        open = count_descriptors();
        send_it(MIB);
        RUN_UNTIL(&a, &b, sent.done);
        assert_int_equal(count_mappings("ferry-test-block"), before + 1);
        assert_int_equal(count_descriptors(), open);
        a.transport->ops->deregister_memory(a.transport, &from_block.memory);
        assert_int_equal(count_descriptors(), open - 1);
        RUN_UNTIL(&a, &b, count_mappings("ferry-test-block") == before);
        assert_int_equal(a.ended + b.ended, 0);
}

TEST_WITH(memory_that_goes_may_still_be_named_by_what_was_taken_back, setup, teardown)
{
        lend_blocks(MIB, true);
        send_it(MIB);
        a.transport->ops->cancel(a_to_b, TRANSFER);
        a.transport->ops->deregister_memory(a.transport, &from_block.memory);
        RUN_UNTIL(&a, &b, b.received.done);
        assert_int_equal(b.received.result, MESSAGE_REVOKED);
        RUN_UNTIL(&a, &b, !a.transport->ops->progress(a.transport));
        assert_int_equal(a.ended + b.ended, 0);
}

TEST_WITH(requests_are_bounded_by_the_chunk_size, setup, teardown)
{
        const struct stream own = { 0 };
        const struct transport_ops *ops = a.transport->ops;

        assert_int_equal(ops->request_size(a_to_b, &own, 0, 5), 5);
        assert_true(ops->request_size(a_to_b, &own, 0, UINT64_MAX) <= WIRE_CHUNK_MAX);
        assert_true(ops->window(a_to_b) >= ops->request_size(a_to_b, &own, 0, UINT64_MAX));
}
