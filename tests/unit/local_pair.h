/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_PAIR_H
#define LOCAL_PAIR_H

#include <unistd.h>

#include <ferry/error.h>

#include "base/util.h"
#include "local_fixture.h"

/* Two local transports in one process with a link between them, and a message whose payload is mapped. */

enum { MIB = 1 << 20, TRANSFER = 77 };

static struct worker a, b;
static struct link *a_to_b;

static int descriptors;

static inline uint64_t sum_of(const struct stream *stream, uint64_t offset, uint64_t length)
{
        uint64_t sum;

        assert_int_equal(stream_checksum(stream, offset, length, &sum), 0);
        return sum;
}

static inline int setup_with(void **state, unsigned copy_threads)
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

static inline int setup(void **state)
{
        return setup_with(state, 0);
}

static inline int setup_threads(void **state)
{
        return setup_with(state, 3);
}

static struct block from_block, to_block; /* of the message that is sent */

static inline int teardown(void **state)
{
        block_free(&from_block);
        block_free(&to_block);
        if (a.transport)
                worker_close(&a);
        if (b.transport)
                worker_close(&b);
        assert_int_equal(count_descriptors(), descriptors);
        assert_int_equal(count_mappings("ferry-bounce") + count_mappings("ferry-link"), 0);
        return fixture_teardown(state);
}

static inline void stream_of(struct stream *stream, struct segment *segments, size_t n)
{
        assert_int_equal(stream_init(stream, segments, n), 0);
}

static inline void stream_of_block(struct stream *stream, struct segment *segment, struct block *block)
{
        *segment = (struct segment){ block->memory.address, block->memory.size, &block->memory };
        stream_of(stream, segment, 1);
}

/* Sends [offset, offset + length) of one stream into the same place of another, in as many messages as fit() says. */
static inline void carry(struct worker *from, struct link *link, struct worker *to, const struct stream *source,
                         const struct stream *place, uint64_t offset, uint64_t length)
{
        to->place = place;
        for (uint64_t end = offset + length; offset < end;) {
                struct outcome outcome = { 0 };
                bool force_inline;
                uint64_t n = from->transport->ops->fit(link, source, offset, end - offset, &force_inline);
                size_t seen = to->n;
                struct message *message;

                if (n == 0) {
                        worker_step(from, to);
                        continue;
                }
                message = message_make(from, source, offset, n, TRANSFER, &outcome);
                message->force_inline = force_inline;
                worker_send(link, message);
                RUN_UNTIL(from, to, outcome.done && to->n > seen);
                assert_int_equal(outcome.done, 1);
                assert_int_equal(outcome.begun, 1);
                assert_int_equal(outcome.result, MESSAGE_OK);
                if (n <= WIRE_INLINE_MAX || force_inline)
                        stream_store(place, offset, to->last_inline, n);
                offset += n;
        }
}

static struct segment from_segment, to_segment;
static struct stream from, to;
static struct outcome sent;

/* Until the end of the test, or until the next ones. */
static inline void export_blocks(size_t size, bool is_file)
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

static inline void send_it(uint64_t length)
{
        worker_send(a_to_b, message_make(&a, &from, 0, length, TRANSFER, &sent));
}

static inline bool place_is_untouched(void)
{
        static const uint8_t zero[4096];

        return memcmp(to_block.memory.address, zero, sizeof(zero)) == 0;
}

static inline void clear_place(void)
{
        memset(to_block.memory.address, 0, to_block.memory.size);
}

#endif
