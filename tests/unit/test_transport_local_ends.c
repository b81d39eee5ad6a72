/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "failing_memory.h"
#include "local_pair.h"

/* ---- bounds ---- */

TEST_WITH(full_bounce_buffers_ask_to_wait_and_tell_when_there_is_room, setup, teardown)
{
        struct outcome outcomes[8];
        bool force_inline;

        memset(outcomes, 0, sizeof(outcomes));
        export_blocks(9 * MIB, false);
        for (size_t i = 0; i < UNIT_COUNT(outcomes); i++) {
                assert_int_equal(a.transport->ops->fit(a_to_b, &from, 0, 9 * MIB, &force_inline), MIB);
                worker_send(a_to_b, message_make(&a, &from, i * MIB, MIB, TRANSFER, &outcomes[i]));
        }
        assert_int_equal(a.transport->ops->fit(a_to_b, &from, 0, 9 * MIB, &force_inline), 0);
        assert_int_equal(a.room, 0);
        RUN_UNTIL(&a, &b, b.received.done == 8 && outcomes[7].done);
        assert_int_equal(a.room, 1);
        assert_int_equal(a.transport->ops->fit(a_to_b, &from, 0, 9 * MIB, &force_inline), MIB);
}

TEST_WITH(memory_too_short_for_bounce_buffers_costs_no_link, setup, teardown)
{
        bool force_inline;

        export_blocks(MIB, false);
        for (long left = 0;; left++) {
                struct message *message;
                uint64_t length;

                memory_left = left;
                length = a.transport->ops->fit(a_to_b, &from, 0, MIB, &force_inline);
                memory_left = -1;
                assert_true(length > 0);
                if (!force_inline)
                        break;
                message = message_make(&a, &from, 0, length, TRANSFER, &sent);
                message->force_inline = true;
                memory_left = 0;
                worker_send(a_to_b, message);
                memory_left = -1;
                assert_int_equal(sent.result, MESSAGE_OK);
        }
        send_it(MIB);
        RUN_UNTIL(&a, &b, sent.done);
        assert_int_equal(sent.result, MESSAGE_OK);
        assert_int_equal(b.received.result, MESSAGE_OK);
        assert_int_equal(sum_of(&to, 0, MIB), sum_of(&from, 0, MIB));
        assert_int_equal(a_to_b->state, LINK_UP);
}

TEST_WITH(memory_too_short_for_a_payload_blames_no_peer, setup, teardown)
{
        export_blocks(MIB, true);
        send_it(MIB);
        RUN_UNTIL(&a, &b, sent.done);
        send_it(MIB); /* over a mapping that is there */
        memory_left = 0;
        RUN_UNTIL(&a, &b, b.detail[0]);
        memory_left = -1;
        assert_non_null(strstr(b.detail, "this worker cannot map memory of the peer"));
}

/* fit() allows less. */
TEST_WITH(a_payload_that_no_bounce_buffer_holds_is_not_sent, setup, teardown)
{
        export_blocks(2 * MIB, false);
        send_it(2 * MIB);
        assert_int_equal(sent.done, 1);
        assert_int_equal(sent.result, MESSAGE_NO_MEMORY);
}

TEST_WITH(leases_are_bounded, setup, teardown)
{
        struct outcome outcomes[256];
        const size_t half = UNIT_COUNT(outcomes) / 2; /* the most that is left to one transfer */
        bool force_inline;

        memset(outcomes, 0, sizeof(outcomes));
        export_blocks(MIB, true);
        b.place = NULL;
        for (size_t i = 0; i < UNIT_COUNT(outcomes); i++) {
                assert_int_equal(a.transport->ops->fit(a_to_b, &from, 0, MIB, &force_inline), i < half ? MIB : 0);
                worker_send(a_to_b, message_make(&a, &from, 0, MIB, TRANSFER, &outcomes[i]));
        }
        assert_int_equal(a.transport->ops->fit(a_to_b, &from, 0, MIB, &force_inline), 0);
        /* Taken back or not: a slot is free when the peer says so. */
        a.transport->ops->cancel(a_to_b, TRANSFER);
        assert_int_equal(outcomes[255].result, MESSAGE_CANCELLED);
        assert_int_equal(a.transport->ops->fit(a_to_b, &from, 0, MIB, &force_inline), 0);
        send_it(MIB);
        assert_int_equal(sent.result, MESSAGE_NO_MEMORY);
        RUN_UNTIL(&a, &b, a.transport->ops->fit(a_to_b, &from, 0, MIB, &force_inline) == MIB);
        assert_true(a.room > 0);
}

TEST_WITH(a_peer_that_does_not_read_harms_its_own_link_alone, setup, teardown)
{
        struct worker c;
        struct link *a_to_c;

        worker_open(&c, 0);
        a_to_c = worker_connect(&a, c.epoch);
        RUN_UNTIL(&a, &c, a_to_c->state == LINK_UP);
        export_blocks(MIB, true);
        /* Until the queue is full. */
        for (int i = 0; i < 100000 && a_to_b->state == LINK_UP; i++) {
                struct outcome outcome = { 0 };

                worker_send(a_to_b, message_make(&a, NULL, 0, 0, TRANSFER, &outcome));
                assert_int_equal(outcome.done, 1);
                if (i == 10000) { /* what waits is enough to send no payload */
                        bool force_inline;

                        assert_int_equal(a.transport->ops->fit(a_to_b, &from, 0, 1, &force_inline), 0);
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

static int sends_that_fail; /* before the next one that does not */

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
        if (sends_that_fail > 0) {
                sends_that_fail--;
                errno = ENOBUFS;
                return -1;
        }
        return __real_sendmsg(fd, message, flags);
}

/* Because the peer does not read, or because the kernel has no memory, twice. The peer says nothing. */
TEST_WITH(room_is_told_when_what_waits_has_been_sent, setup, teardown)
{
        FOR_EACH (int, failing, 0, 2) {
                bool force_inline;
                size_t n = b.n;

                export_blocks(MIB, true);
                a.room = 0;
                for (sends_that_fail = failing; a.transport->ops->fit(a_to_b, &from, 0, 1, &force_inline) > 0; n++) {
                        assert_int_equal(a_to_b->state, LINK_UP);
                        send_it(WIRE_INLINE_MAX);
                }
                assert_int_equal(a.transport->ops->deadline(a.transport) != UINT64_MAX, failing > 0);
                RUN_UNTIL(&a, &b, b.n == n && a.room > 0);
                assert_int_equal(a.transport->ops->deadline(a.transport), UINT64_MAX);
        }
}

static uint64_t n_heard;
static bool is_in_order;

static void hear(struct worker *worker, struct link *link, const struct wire_header *header)
{
        is_in_order &= header->transfer == ++n_heard;
}

/* More in all than may wait at once; the socket has room again before what waits is sent. */
TEST_WITH(what_waits_in_the_queue_arrives_in_order, setup, teardown)
{
        enum { MESSAGES = 20000, ROUNDS = 4 };

        export_blocks(MIB, true);
        n_heard = 0;
        is_in_order = true;
        b.on_message = hear;
        for (uint32_t i = 0; i < ROUNDS * MESSAGES; i++) {
                if (i % MESSAGES == MESSAGES / 2)
                        worker_step(NULL, &b);
                worker_send(a_to_b, message_make(&a, &from, i % 1000, i % 5 == 0 ? 100 : 0, i + 1, &sent));
                if ((i + 1) % MESSAGES == 0) {
                        assert_true(a.transport->ops->arm(a.transport));
                        RUN_UNTIL(&a, &b, b.n == i + 1);
                }
        }
        assert_true(is_in_order);
        assert_int_equal(b.bytes, ROUNDS * MESSAGES / 5 * 100);
        assert_int_equal(a.ended, 0);
}

/* ---- the end of links ---- */

TEST_WITH(a_peer_that_closes_ends_all_sends, setup, teardown)
{
        export_blocks(16 * MIB, true);
        send_it(16 * MIB);
        RUN_UNTIL(&b, NULL, b.received.begun);
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
        export_blocks(16 * MIB, true);
        send_it(16 * MIB);
        RUN_UNTIL(&b, NULL, b.received.begun);
        a.transport->ops->shut_down(a.transport, 0);
        assert_int_equal(sent.result, MESSAGE_LOST);
        RUN_UNTIL(&b, NULL, b.ended);
        assert_int_equal(b.received.done, 1);
        assert_in_range(b.received.result, MESSAGE_LEASE_ENDED, MESSAGE_LOST);
}

TEST_WITH(a_link_that_the_engine_fails_ends_later_and_for_its_reason, setup, teardown)
{
        struct outcome late = { 0 };

        export_blocks(MIB, true);
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
        export_blocks(MIB, true);
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
        struct transport_peer peer = { 0 };
        uint64_t epoch;
        pid_t child = spawn_receiver(&epoch);
        struct link *link = worker_connect(&a, epoch);
        int error;

        RUN_UNTIL(&a, NULL, link->state == LINK_UP);
        export_blocks(MIB, true);
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

static void shut_down_after(uint64_t bulk)
{
        enum { MESSAGES = 5000 };
        pthread_t thread;

        export_blocks(16 * MIB, true);
        for (uint32_t i = 0; i < MESSAGES; i++) {
                struct outcome outcome = { 0 };

                worker_send(a_to_b, message_make(&a, NULL, 0, 0, i + 1, &outcome));
        }
        send_it(bulk);
        assert_int_equal(pthread_create(&thread, NULL, drive_b, NULL), 0);
        a.transport->ops->shut_down(a.transport, clock_now_us() + 10000000);
        assert_int_equal(a.ended, 1);
        assert_int_equal(sent.result, MESSAGE_OK);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(b.n, MESSAGES + 1);
}

TEST_WITH(a_shutdown_flushes_what_was_sent, setup, teardown)
{
        shut_down_after(16 * MIB);
}

TEST_WITH(a_shutdown_flushes_messages_without_a_lease, setup, teardown)
{
        shut_down_after(1);
}
