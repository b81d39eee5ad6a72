/* SPDX-License-Identifier: Apache-2.0 */
#include "local_internal.h"
#include "local_pair.h"

/* Payloads with checksums: the sender's threads make one of each MiB, and the receiver compares what it has copied. */

enum { PIECES = 8, SIZE = PIECES * MIB - 3 };

/* length bytes from the first one on, of the transfer of the test. */
static struct message *verified(uint64_t length)
{
        struct message *message = message_make(&a, &from, 0, length, TRANSFER, &sent);

        message->verify = true;
        message->header.flags = WIRE_VERIFY;
        return message;
}

static bool is_granted(void)
{
        return channel_of(a_to_b)->leases.n_used > 0;
}

TEST_WITH(one_message_carries_all_and_its_checksums, setup, teardown)
{
        FOR_EACH (size_t, size, WIRE_INLINE_MAX + 1, MIB, MIB + 1, SIZE) {
                export_blocks(size, true);
                b.n = 0;
                b.received = (struct outcome){ 0 };
                worker_send(a_to_b, verified(size));
                RUN_UNTIL(&a, &b, sent.done && b.received.done);
                assert_int_equal(b.n, 1);
                assert_int_equal(sent.result, MESSAGE_OK);
                assert_int_equal(b.received.result, MESSAGE_OK);
                assert_memory_equal(from_block.memory.address, to_block.memory.address, size);
        }
}
TEST_AGAIN(one_message_carries_all_and_its_checksums, threads, setup_threads, teardown)

/* What no peer can map is copied together first. */
TEST_WITH(memory_that_is_no_file_has_its_checksum, setup, teardown)
{
        export_blocks(MIB, false);
        worker_send(a_to_b, verified(MIB));
        RUN_UNTIL(&a, NULL, is_granted());
        assert_int_equal(sent.done, 0);
        memset(from_block.memory.address, 0, MIB); /* its copy is on the way */
        RUN_UNTIL(&a, &b, sent.done && b.received.done);
        assert_int_equal(b.received.result, MESSAGE_OK);
        assert_memory_not_equal(to_block.memory.address, from_block.memory.address, MIB);
}

static uint64_t furthest;

static void note_copied(struct worker *worker, struct message *message)
{
        furthest = message->copied;
}

/* It is said where, and nothing behind it counts, whichever thread has found it. */
TEST_WITH(a_byte_that_changes_before_it_is_copied_is_noticed, setup, teardown)
{
        b.on_copied = note_copied;
        for (uint64_t piece = 0; piece < PIECES; piece++) {
                export_blocks(SIZE, true);
                b.received = (struct outcome){ 0 };
                furthest = 0;
                worker_send(a_to_b, verified(SIZE));
                RUN_UNTIL(&a, NULL, is_granted());
                from_block.memory.address[piece * MIB + 77] ^= 1;
                RUN_UNTIL(&a, &b, sent.done && b.received.done);
                assert_int_equal(b.received.result, MESSAGE_DIFFERS);
                assert_int_equal(b.received.copied, piece * MIB);
                assert_true(furthest <= piece * MIB);
                assert_int_equal(sent.result, MESSAGE_OK); /* the receiver's engine says why it ends */
        }
}
TEST_AGAIN(a_byte_that_changes_before_it_is_copied_is_noticed, threads, setup_threads, teardown)

static uint64_t first_piece; /* of a message without checksums */

static void note_first_piece(struct worker *worker, struct message *message)
{
        if (!message->verify && first_piece == 0)
                first_piece = message->copied;
}

/* Even beside one with checksums, whose pieces are longer than what is copied between two looks for messages. */
TEST_WITH(a_message_is_copied_in_pieces_beside_one_with_checksums, setup, teardown)
{
        static struct outcome other;

        export_blocks(2 * SIZE, true);
        b.on_copied = note_first_piece;
        b.transport->shared = true;
        first_piece = 0;
        worker_send(a_to_b, verified(SIZE));
        RUN_UNTIL(&a, NULL, is_granted());
        worker_send(a_to_b, message_make(&a, &from, 0, 2 * SIZE, TRANSFER + 1, &other));
        RUN_UNTIL(&a, &b, sent.done && other.done && b.received.done == 2);
        assert_int_equal(b.received.result, MESSAGE_OK);
        assert_int_equal(first_piece, PULL_PIECE_SHARED);
}

static void take_back(struct worker *worker, struct message *message)
{
        if (sent.done)
                return;
        a.transport->ops->cancel(a_to_b, TRANSFER);
        from_block.memory.address[SIZE - 1] ^= 1;
}

/* What the owner stores into it afterwards is no fault of its. */
TEST_WITH(what_is_taken_back_between_two_pieces_does_not_differ, setup, teardown)
{
        export_blocks(SIZE, true);
        b.on_copied = take_back;
        worker_send(a_to_b, verified(SIZE));
        RUN_UNTIL(&a, &b, b.received.done);
        assert_int_equal(sent.result, MESSAGE_CANCELLED);
        assert_int_equal(b.received.result, MESSAGE_LEASE_ENDED);
}

TEST_WITH(a_cancel_does_not_wait_for_all_checksums, setup, teardown)
{
        FOR_EACH (int, fails, false, true) {
                export_blocks(64 * MIB, true);
                worker_send(a_to_b, verified(64 * MIB));
                if (fails)
                        (a.transport->ops->fail)(a_to_b, FERRY_E_PEER_LOST, "the test");
                else
                        a.transport->ops->cancel(a_to_b, TRANSFER);
                RUN_UNTIL(&a, &b, sent.done);
                assert_int_equal(sent.result, fails ? MESSAGE_LOST : MESSAGE_CANCELLED);
                assert_int_equal(b.n, 0);
        }
        RUN_UNTIL(&a, &b, a.ended && b.ended);
}

/* The first one is longer, and its checksums take longer to make. */
TEST_WITH(messages_of_a_transfer_keep_their_order, setup, teardown)
{
        static const uint64_t lengths[] = { SIZE, 100, MIB, 10000 };
        static struct outcome outcomes[UNIT_COUNT(lengths)];

        export_blocks(SIZE, true);
        for (size_t i = 0; i < UNIT_COUNT(lengths); i++) {
                struct message *message = message_make(&a, &from, 0, lengths[i], TRANSFER, &outcomes[i]);

                message->verify = true;
                message->header.flags = WIRE_VERIFY;
                worker_send(a_to_b, message);
        }
        RUN_UNTIL(&a, &b, b.n == UNIT_COUNT(lengths));
        for (size_t i = 0; i < UNIT_COUNT(lengths); i++)
                assert_int_equal(b.headers[i].length, lengths[i]);
        RUN_UNTIL(&a, &b, b.received.done == UNIT_COUNT(lengths) - 1);
        assert_int_equal(b.received.result, MESSAGE_OK);
        for (size_t i = 0; i < UNIT_COUNT(lengths); i++) {
                RUN_UNTIL(&a, &b, outcomes[i].done);
                assert_int_equal(outcomes[i].result, MESSAGE_OK);
        }
}
