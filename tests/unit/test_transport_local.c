/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <sys/epoll.h>

#include "base/space.h"
#include "local_internal.h"
#include "local_pair.h"

/* Messages and payloads. */

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

/* ---- by memory, and by the socket ---- */

/* Of so many bytes of the block; their number says which one it is. */
static void send_numbered(uint64_t number, uint64_t length, struct outcome *outcome)
{
        struct message *message = message_make(&a, &from, 0, length, TRANSFER, outcome);

        message->header.status = (uint32_t)number;
        worker_send(a_to_b, message);
        assert_int_equal(outcome->done, 1);
}

TEST_WITH(a_message_is_a_datagram_only_for_who_does_not_look, setup, teardown)
{
        const struct mail *mail = &channel_of(a_to_b)->mail;
        struct outcome outcome = { 0 };
        uint64_t n_posted = mail->n_posted;
        struct epoll_event event;

        export_blocks(4096, true);
        send_numbered(1, 4096, &outcome);
        assert_int_equal(mail->n_put, 1);
        assert_int_equal(mail->n_posted, n_posted);
        assert_false(b.transport->ops->arm(b.transport)); /* it has come */
        RUN_UNTIL(&b, NULL, b.n == 1);
        assert_memory_equal(b.last_inline, from_block.memory.address, 4096);

        assert_true(b.transport->ops->arm(b.transport));
        send_numbered(2, 4096, &outcome);
        assert_int_equal(mail->n_put, 1);
        assert_int_equal(epoll_wait(b.transport->fd, &event, 1, 10000), 1);
        RUN_UNTIL(&b, NULL, b.n == 2);
        send_numbered(3, 4096, &outcome); /* b looks again */
        assert_int_equal(mail->n_put, 2);
        assert_int_equal(mail->n_posted, n_posted + 1);
        RUN_UNTIL(&b, NULL, b.n == 3);

        assert_true(a.transport->ops->arm(a.transport));
        send_numbered(4, 4096, &outcome); /* a looks for the answer */
        RUN_UNTIL(&b, NULL, b.n == 4);
        worker_send(b.link, message_make(&b, NULL, 0, 0, TRANSFER, &outcome));
        assert_int_equal(channel_of(b.link)->mail.n_put, 1);
        RUN_UNTIL(&a, NULL, a.n == 1);
}

/* More than the mailbox holds; in between memory is announced, which takes a descriptor. */
TEST_WITH(messages_keep_their_order_by_whichever_way_they_go, setup, teardown)
{
        enum { MESSAGES = HEADERS_MAX, EACH = 8, SHORT = 6000 };
        const struct mail *mail = &channel_of(a_to_b)->mail;
        struct outcome outcomes[MESSAGES] = { 0 };
        struct block blocks[MESSAGES / EACH];
        struct segment segments[MESSAGES / EACH];
        struct stream streams[MESSAGES / EACH];

        export_blocks(SHORT, true);
        b.place = NULL; /* what is mapped is refused */
        for (unsigned i = 0; i < MESSAGES; i++) {
                struct message *message;
                unsigned block = i / EACH;
                bool force_inline;

                if (i % EACH != 0) {
                        send_numbered(i, i % 2 ? SHORT : 1, &outcomes[i]);
                        continue;
                }
                block_new(&blocks[block], &a, MIB, true);
                stream_of_block(&streams[block], &segments[block], &blocks[block]);
                assert_int_equal(a.transport->ops->fit(a_to_b, &streams[block], 0, MIB, &force_inline), MIB);
                message = message_make(&a, &streams[block], 0, MIB, TRANSFER, &outcomes[i]);
                message->header.status = i;
                worker_send(a_to_b, message);
                if (i % (2 * EACH) == 0)
                        worker_step(NULL, &b);
        }
        RUN_UNTIL(&a, &b, b.n == MESSAGES);
        for (unsigned i = 0; i < MESSAGES; i++)
                assert_int_equal(b.headers[i].status, i);
        assert_in_range(mail->n_put, 1, MESSAGES - 1);
        RUN_UNTIL(&a, &b, outgoing_is_idle(channel_of(a_to_b)));
        for (unsigned i = 0; i < MESSAGES; i += EACH)
                assert_int_equal(outcomes[i].done, 1);
        for (unsigned i = 0; i < MESSAGES / EACH; i++) {
                stream_clear(&streams[i]);
                block_free(&blocks[i]);
        }
}

/* More links than mailboxes that a worker looks at: none is left out. */
TEST_WITH(many_links_take_turns_with_their_mailboxes, setup, teardown)
{
        enum { LINKS = CHANNELS_WATCHED_MAX + 5, ROUNDS = 3 };
        static struct worker peers[LINKS];
        struct link *links[LINKS];
        struct outcome outcome = { 0 };

        for (unsigned i = 0; i < LINKS; i++) {
                worker_open(&peers[i], 0);
                links[i] = worker_connect(&peers[i], b.epoch);
                RUN_UNTIL(&peers[i], &b, links[i]->state == LINK_UP);
        }
        for (unsigned round = 1; round <= ROUNDS; round++) {
                for (unsigned i = 0; i < LINKS; i++)
                        worker_send(links[i], message_make(&peers[i], NULL, 0, 0, TRANSFER, &outcome));
                RUN_UNTIL(&b, NULL, b.n == round * LINKS);
                assert_in_range(local_of(b.transport)->n_watched, 0, CHANNELS_WATCHED_MAX);
        }
        for (unsigned i = 1; i <= 2; i++) { /* one that had no place */
                worker_send(links[LINKS - 1], message_make(&peers[LINKS - 1], NULL, 0, 0, TRANSFER, &outcome));
                RUN_UNTIL(&b, NULL, b.n == ROUNDS * LINKS + i);
        }
        assert_true(channel_of(links[LINKS - 1])->mail.n_put > 0);
        for (unsigned i = 0; i < LINKS; i++)
                worker_close(&peers[i]);
        RUN_UNTIL(&b, NULL, b.ended == LINKS);
        assert_in_range(local_of(b.transport)->n_watched, 0, 1);
}

/* What it sent before its end is not lost. */
TEST_WITH(the_messages_of_who_has_ended_are_read, setup, teardown)
{
        enum { MESSAGES = 2 * POLL_EVERY };
        struct outcome outcome = { 0 };

        export_blocks(100, true);
        for (unsigned i = 0; i < MESSAGES; i++)
                send_numbered(i, 100, &outcome);
        assert_int_equal(channel_of(a_to_b)->mail.n_put, MESSAGES);
        block_free(&from_block);
        a.transport->ops->shut_down(a.transport, 0);
        RUN_UNTIL(&b, NULL, b.ended);
        assert_int_equal(b.n, MESSAGES);
}

/* The peer has gone so far that nothing can be sent to it, and has not closed its socket yet. */
TEST_WITH(the_messages_of_who_is_ending_are_read, setup, teardown)
{
        struct outcome outcome = { 0 };

        export_blocks(100, true);
        assert_true(a.transport->ops->arm(a.transport));
        send_numbered(1, 100, &outcome);
        assert_int_equal(channel_of(a_to_b)->mail.n_put, 1);
        assert_int_equal(shutdown(channel_of(a_to_b)->fd, SHUT_RD), 0);
        channel_of(b.link)->mail.peer = NULL; /* by the socket */
        worker_send(b.link, message_make(&b, NULL, 0, 0, TRANSFER, &outcome));
        assert_true(channel_of(b.link)->is_closing);
        channel_of(b.link)->mail.peer = &channel_of(b.link)->peer_page->mailbox;
        RUN_UNTIL(&b, NULL, b.ended);
        assert_int_equal(b.n, 1);
}

/* It was put while b looked, behind a datagram; when that is read, b looks at as many others as it may. */
TEST_WITH(a_message_behind_a_datagram_is_read_where_there_is_no_place_to_look, setup, teardown)
{
        static struct worker peers[CHANNELS_WATCHED_MAX];
        struct link *a_link = b.link, *links[CHANNELS_WATCHED_MAX];
        struct outcome outcome = { 0 }, mapped = { 0 };
        struct mail *mail = &channel_of(a_to_b)->mail;

        b.place = NULL; /* what is mapped is refused */
        for (unsigned i = 0; i < CHANNELS_WATCHED_MAX; i++) {
                worker_open(&peers[i], 0);
                (void)worker_connect(&peers[i], b.epoch);
                RUN_UNTIL(&peers[i], &b, peers[i].room > 0);
                links[i] = b.link;
        }
        RUN_UNTIL(&b, NULL, b.transport->ops->arm(b.transport));
        worker_send(a_to_b, message_make(&a, NULL, 0, 0, TRANSFER, &outcome));
        RUN_UNTIL(&b, NULL, b.n == 1);
        assert_true(channel_of(a_link)->is_watched);
        export_blocks(MIB, true);
        assert_int_equal(mail->n_put, 0);
        worker_send(a_to_b, message_make(&a, &from, 0, MIB, TRANSFER, &mapped));
        assert_int_equal(mail->n_put, 1);
        assert_true(b.transport->ops->arm(b.transport)); /* the datagram will wake it */
        for (unsigned i = 0; i < CHANNELS_WATCHED_MAX; i++)
                worker_send(links[i], message_make(&b, NULL, 0, 0, TRANSFER, &outcome));
        assert_int_equal(local_of(b.transport)->n_watched, CHANNELS_WATCHED_MAX);
        RUN_UNTIL(&b, NULL, b.n == 2);
        RUN_UNTIL(&a, &b, mapped.done == 1);
        for (unsigned i = 0; i < CHANNELS_WATCHED_MAX; i++)
                worker_close(&peers[i]);
        RUN_UNTIL(&b, NULL, b.ended == CHANNELS_WATCHED_MAX);
}

/* ---- two threads ---- */

enum { ROUNDS = 5000, WAKE_MS = 10000 };

static void send_back(struct worker *worker, struct link *link, const struct wire_header *header)
{
        static struct outcome outcomes[2];

        worker_send(link, message_make(worker, NULL, 0, 0, TRANSFER, &outcomes[worker == &b]));
}

/* Sleeps whenever nothing has come. Returns whether it was woken for all. */
static void *answer_all(void *context)
{
        struct worker *worker = context;
        struct epoll_event event;

        while (worker->n < ROUNDS)
                if (!worker->transport->ops->progress(worker->transport) &&
                    worker->transport->ops->arm(worker->transport) && worker->n < ROUNDS &&
                    epoll_wait(worker->transport->fd, &event, 1, WAKE_MS) == 0)
                        return NULL;
        return worker;
}

/* Each message comes while the other end is falling asleep, or has done so. */
TEST_WITH(who_falls_asleep_is_woken, setup, teardown)
{
        struct outcome outcome = { 0 };
        pthread_t thread;
        void *woken;

        a.on_message = b.on_message = send_back;
        worker_send(a_to_b, message_make(&a, NULL, 0, 0, TRANSFER, &outcome));
        assert_int_equal(pthread_create(&thread, NULL, answer_all, &b), 0);
        assert_ptr_equal(answer_all(&a), &a);
        assert_int_equal(pthread_join(thread, &woken), 0);
        assert_ptr_equal(woken, &b);
        a.on_message = b.on_message = NULL;
}

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

        FOR_EACH (size_t, each, 13, 500, 4096, 20000)
                for (int mixed = 0; mixed < 2; mixed++) {
                        size_t size = each, total = PIECES * size;
                        struct segment first[PIECES], second[PIECES / 4];
                        struct stream source, place;
                        struct block x, y, u, v;
                        uint64_t sum;

                        block_new(&x, &a, total, true);
                        block_new(&y, &a, total, !mixed);
                        block_new(&u, &b, total, true);
                        block_new(&v, &b, total, false);
                        scatter(&source, first, PIECES, &x, &y, size);
                        scatter(&place, second, PIECES / 4, &u, &v, 4 * size);
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

/* The second segment begins in its memory where the first one ends in its own. */
TEST_WITH(memories_are_told_apart_where_their_offsets_meet, setup, teardown)
{
        struct segment segments[2], place_segment;
        struct stream source, place;
        struct block x, y, taken;

        block_new(&x, &a, 2 * MIB, true);
        block_new(&y, &a, 2 * MIB, true);
        block_new(&taken, &b, 2 * MIB, true);
        segments[0] = (struct segment){ x.memory.address, MIB, &x.memory };
        segments[1] = (struct segment){ y.memory.address + MIB, MIB, &y.memory };
        stream_of(&source, segments, 2);
        stream_of_block(&place, &place_segment, &taken);
        carry(&a, a_to_b, &b, &source, &place, 0, 2 * MIB);
        assert_memory_equal(taken.memory.address, x.memory.address, MIB);
        assert_memory_equal(taken.memory.address + MIB, y.memory.address + MIB, MIB);
        stream_clear(&source);
        block_free(&x);
        block_free(&y);
        block_free(&taken);
}

TEST_WITH(fit_never_mixes_what_is_mapped_with_what_is_copied, setup, teardown)
{
        struct segment segments[3];
        struct stream source;
        struct block file, private;
        bool force_inline;

        block_new(&file, &a, MIB, true);
        block_new(&private, &a, 2 * MIB, false);
        segments[0] = (struct segment){ file.memory.address, MIB / 2, &file.memory };
        segments[1] = (struct segment){ private.memory.address, 2 * MIB, &private.memory };
        segments[2] = (struct segment){ file.memory.address + MIB / 2, MIB / 2, &file.memory };
        stream_of(&source, segments, 3);
        assert_int_equal(a.transport->ops->fit(a_to_b, &source, 0, 3 * MIB, &force_inline), MIB / 2);
        assert_int_equal(a.transport->ops->fit(a_to_b, &source, MIB / 2, 3 * MIB - MIB / 2, &force_inline), MIB);
        assert_int_equal(a.transport->ops->fit(a_to_b, &source, 2 * MIB, MIB, &force_inline), MIB / 2);
        assert_int_equal(a.transport->ops->fit(a_to_b, &source, 5 * MIB / 2, MIB / 2, &force_inline), MIB / 2);
        assert_int_equal(a.transport->ops->fit(a_to_b, &source, 0, 1, &force_inline), 1);
        assert_false(force_inline);
        stream_clear(&source);
        block_free(&file);
        block_free(&private);
}

TEST_WITH(progress_of_a_long_receive_is_told, setup, teardown)
{
        export_blocks(8 * MIB, true);
        send_it(8 * MIB);
        RUN_UNTIL(&a, &b, sent.done && b.received.done);
        assert_int_equal(b.received.result, MESSAGE_OK);
        assert_true(b.copied > 0);
        assert_memory_equal(from_block.memory.address, to_block.memory.address, 8 * MIB);
}

static uint64_t told; /* of a send */

static void note_told(struct message *message)
{
        assert_true(message->copied > told);
        told = message->copied;
}

/* Until then the sender looks for it. */
TEST_WITH(progress_of_a_long_send_is_told, setup, teardown)
{
        struct message *message;

        export_blocks(16 * MIB, true);
        told = 0;
        message = message_make(&a, &from, 0, 16 * MIB, TRANSFER, &sent);
        message->piece_done = note_told;
        worker_send(a_to_b, message);
        RUN_UNTIL(NULL, &b, b.copied > 0);
        RUN_UNTIL(&a, NULL, told > 0);
        assert_in_range(told, 1, 16 * MIB - 1);
        assert_int_not_equal(a.transport->ops->deadline(a.transport), UINT64_MAX);
        RUN_UNTIL(&a, &b, sent.done && b.received.done);
        assert_int_equal(sent.result, MESSAGE_OK);
        RUN_UNTIL(&a, NULL, a.transport->ops->deadline(a.transport) == UINT64_MAX);
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

        export_blocks(8 * MIB, true);
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
        uint64_t sum;

        export_blocks(16 * MIB, true);
        sum = sum_of(&from, 0, 16 * MIB);
        b.on_copied = take_back;
        send_it(16 * MIB);
        RUN_UNTIL(&a, &b, b.received.done && sent.done);
        /* Threads may have been through before it was taken back; then each byte is from before. */
        if (b.received.result == MESSAGE_OK)
                assert_true(sum_of(&to, 0, 16 * MIB) == sum);
        else
                assert_int_equal(b.received.result, MESSAGE_LEASE_ENDED);
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
                export_blocks(MIB, is_file);
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
                assert_int_equal(b.received.result, MESSAGE_LEASE_ENDED);
                assert_true(place_is_untouched());
                RUN_UNTIL(&a, &b, !a.transport->ops->progress(a.transport));
        }
        assert_int_equal(a.ended + b.ended, 0);
}

TEST_WITH(a_refused_payload_sets_the_sender_free, setup, teardown)
{
        export_blocks(MIB, true);
        clear_place();
        b.place = NULL;
        send_it(MIB);
        RUN_UNTIL(&a, &b, sent.done);
        assert_int_equal(sent.result, MESSAGE_OK);
        assert_true(place_is_untouched());
}

TEST_WITH(a_receive_that_is_not_wanted_any_more_is_refused, setup, teardown)
{
        export_blocks(MIB, true);
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
        export_blocks(MIB, true);
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

static void stop_another(struct worker *worker, struct message *message)
{
        worker->transport->ops->cancel(message->link, TRANSFER + 1);
}

TEST_WITH(a_receive_goes_on_when_another_one_is_cancelled, setup, teardown)
{
        export_blocks(16 * MIB, true);
        b.received.done = 0;
        b.on_copied = stop_another;
        send_it(16 * MIB);
        RUN_UNTIL(&a, &b, sent.done && b.received.done);
        assert_int_equal(b.received.result, MESSAGE_OK);
}

TEST_WITH(a_receive_ends_with_its_piece_when_it_is_cancelled, setup, teardown)
{
        export_blocks(16 * MIB, true);
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
        export_blocks(16 * MIB, true);
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
        export_blocks(MIB, true);
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
        export_blocks(COPIES * 4 * MIB, true);
        for (size_t i = 0; i < COPIES; i++)
                worker_send(a_to_b, message_make(&a, &from, i * 4 * MIB, 4 * MIB, TRANSFER + i, &outcomes[i]));
        for (size_t i = 0; i < COPIES; i++)
                RUN_UNTIL(&a, &b, outcomes[i].done);
        assert_int_equal(b.received.done, COPIES);
        assert_memory_equal(from_block.memory.address, to_block.memory.address, COPIES * 4 * MIB);
}
TEST_AGAIN(several_copies_go_on_in_turn, threads, setup_threads, teardown)
