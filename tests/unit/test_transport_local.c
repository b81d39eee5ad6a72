/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
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

static int setup_with(void **state, unsigned copy_threads)
{
        int r = fixture_setup(state);

        if (r < 0)
                return r;
        worker_open(&a, copy_threads);
        worker_open(&b, copy_threads);
        a_to_b = worker_connect(&a, b.epoch);
        RUN_UNTIL(&a, &b, b.link && b.link->state == LINK_UP && a_to_b->state == LINK_UP);
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

static int teardown(void **state)
{
        if (a.transport)
                worker_close(&a);
        if (b.transport)
                worker_close(&b);
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

static void links_tell_epoch_and_carrier(void **state)
{
        (void)state;
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

static void a_header_arrives_as_it_was_sent(void **state)
{
        struct outcome outcome = { 0 };
        struct message *message = message_make(&a, NULL, 0, 0, TRANSFER, &outcome);

        (void)state;
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

static void bytes_of_every_size_arrive(void **state)
{
        static const size_t sizes[] = { 1,       4096,         WIRE_INLINE_MAX, WIRE_INLINE_MAX + 1, 65536, MIB,
                                        MIB + 1, 3 * MIB + 17, 9 * MIB };

        (void)state;
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

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(links_tell_epoch_and_carrier, setup, teardown),
                cmocka_unit_test_setup_teardown(a_header_arrives_as_it_was_sent, setup, teardown),
                cmocka_unit_test_setup_teardown(bytes_of_every_size_arrive, setup, teardown),
                cmocka_unit_test_setup_teardown(bytes_of_every_size_arrive, setup_threads, teardown),
        };

        return cmocka_run_group_tests_name("transport_local", tests, NULL, NULL);
}
