/* SPDX-License-Identifier: Apache-2.0 */
#include <semaphore.h>

#include "base/space.h"
#include "local_internal.h"
#include "local_pair.h"

/* Payloads whose memory is a GPU's, on either side. */

/* A device that fails, or stands still before it copies. */
static int copy_result, finish_result;
static atomic_bool stands_still;
static atomic_int n_copies;
static sem_t moves;

static int copy_now(const struct space *to_space, void *into, const struct space *from_space, const void *bytes,
                    size_t size)
{
        atomic_fetch_add(&n_copies, 1);
        if (stands_still)
                (void)sem_wait(&moves);
        if (copy_result == 0)
                memcpy(into, bytes, size);
        return copy_result;
}

static int finish_copies(const struct space *space)
{
        return finish_result;
}

static const struct space_ops ops = { .copy = copy_now, .finish = finish_copies };
static const struct space device = { .ops = &ops };

static void let_go(void)
{
        stands_still = false;
        (void)sem_post(&moves);
}

static int gpu_setup(void **state)
{
        copy_result = finish_result = 0;
        stands_still = false;
        atomic_store(&n_copies, 0);
        return sem_init(&moves, 0, 0) == 0 ? setup(state) : -1;
}

/* Also of a test that has failed while the device stood still. */
static int gpu_teardown(void **state)
{
        let_go();
        from_block.memory.space = to_block.memory.space = NULL;
        return teardown(state);
}

/* The stream of a block is a device's from now on, in two segments. */
static void place_on_device(struct stream *stream, struct segment segments[2], struct block *block)
{
        const size_t half = block->memory.size / 2;

        for (size_t i = 0; i < 2; i++)
                segments[i] = (struct segment){ block->memory.address + i * half, half, &block->memory, &device };
        stream_clear(stream);
        stream_of(stream, segments, 2);
}

static struct segment from_halves[2], to_halves[2];

static void export_to_device(size_t size)
{
        export_blocks(size, true);
        clear_place();
        place_on_device(&to, to_halves, &to_block);
        b.received.done = 0;
}

static void clear_streams(void)
{
        stream_clear(&from);
        stream_clear(&to);
}

/* ---- into a device ---- */

TEST_WITH(what_a_device_could_not_copy_was_not_received, gpu_setup, gpu_teardown)
{
        static const struct {
                int copy_result, finish_result;
                enum message_result result;
        } rows[] = { { 0, 0, MESSAGE_OK }, { -EIO, 0, MESSAGE_FAULT }, { 0, -EIO, MESSAGE_FAULT } };

        for (size_t i = 0; i < UNIT_COUNT(rows); i++) {
                copy_result = rows[i].copy_result;
                finish_result = rows[i].finish_result;
                export_to_device(MIB);
                send_it(MIB);
                RUN_UNTIL(&a, &b, sent.done && b.received.done);
                assert_int_equal(b.received.result, rows[i].result);
                assert_int_equal(sent.result, MESSAGE_OK); /* its memory is free */
                if (rows[i].result == MESSAGE_OK)
                        assert_memory_equal(to_block.memory.address, from_block.memory.address, MIB);
                clear_streams();
        }
}

/* The sender takes its memory back while the device stands still. */
TEST_WITH(what_is_taken_back_while_a_device_copies_was_not_received, gpu_setup, gpu_teardown)
{
        export_to_device(MIB);
        stands_still = true;
        send_it(MIB);
        RUN_UNTIL(&a, &b, atomic_load(&n_copies) > 0);
        a.transport->ops->cancel(a_to_b, TRANSFER);
        assert_int_equal(sent.result, MESSAGE_CANCELLED);
        let_go();
        RUN_UNTIL(&a, &b, b.received.done);
        assert_int_equal(b.received.result, MESSAGE_LEASE_ENDED);
        clear_streams();
}

/* The receiver's memory is in use until then; what the device has not begun it does not copy any more. */
TEST_WITH(a_cancelled_receive_ends_once_the_device_is_done_with_it, gpu_setup, gpu_teardown)
{
        export_to_device(MIB);
        stands_still = true;
        send_it(MIB);
        RUN_UNTIL(&a, &b, atomic_load(&n_copies) > 0);
        b.transport->ops->cancel(b.link, TRANSFER + 1);
        b.transport->ops->cancel(b.link, TRANSFER);
        worker_step(&a, &b);
        assert_int_equal(b.received.done, 0);
        let_go();
        RUN_UNTIL(&a, &b, b.received.done && sent.done);
        assert_int_equal(b.received.result, MESSAGE_CANCELLED);
        assert_int_equal(atomic_load(&n_copies), 1);
        clear_streams();
}

TEST_WITH(a_link_that_fails_ends_once_the_device_is_done, gpu_setup, gpu_teardown)
{
        export_to_device(MIB);
        stands_still = true;
        send_it(MIB);
        RUN_UNTIL(&a, &b, atomic_load(&n_copies) > 0);
        (b.transport->ops->fail)(b.link, FERRY_E_STALLED, "while the device copies");
        worker_step(&a, &b);
        assert_int_equal(b.received.done + b.ended, 0);
        let_go();
        RUN_UNTIL(&a, &b, b.ended && a.ended);
        assert_int_equal(b.received.done, 1);
        assert_int_equal(b.received.result, MESSAGE_LOST);
        clear_streams();
}

/* ---- out of a device, which the peer cannot open: through a bounce buffer, or inside the message ---- */

TEST_WITH(what_a_device_could_not_load_is_not_sent, gpu_setup, gpu_teardown)
{
        FOR_EACH (size_t, size, MIB, 100)
                FOR_EACH (int, result, 0, -EIO) {
                        size_t n = b.n;

                        copy_result = result;
                        export_blocks(MIB, true);
                        from_block.memory.space = &device;
                        place_on_device(&from, from_halves, &from_block);
                        b.received.done = 0;
                        send_it(size);
                        RUN_UNTIL(&a, &b, sent.done && (result || (size == MIB ? b.received.done : b.n > n)));
                        worker_step(&a, &b);
                        assert_int_equal(sent.result, result ? MESSAGE_FAULT : MESSAGE_OK);
                        assert_int_equal(b.n - n, !result);
                        if (!result)
                                assert_memory_equal(size == MIB ? to_block.memory.address : b.last_inline,
                                                    from_block.memory.address, size);
                        from_block.memory.space = NULL;
                        clear_streams();
                }
}

/* ---- out of a device, which the peer has open ---- */

/* Notes that the peer has mapped a memory of that id. */
static void note_mapped(struct channel *channel, uint64_t id)
{
        struct export *export = calloc(1, sizeof(*export));

        assert_non_null(export);
        export->id = id;
        export->state = EXPORT_MAPPED;
        HASH_ADD(hh, channel->exports, id, sizeof(id), export);
}

/* The first MiB is a GPU's that the peer has open; the message waits for its checksum. */
TEST_WITH(host_memory_beside_a_gpus_keeps_its_place_while_that_is_loaded, gpu_setup, gpu_teardown)
{
        struct channel *channel = channel_of(a_to_b);
        struct frame map = frame_of(FRAME_MAP);
        struct segment segments[2], place_segment;
        struct stream source, place;
        struct outcome outcome = { 0 };
        struct block gpu, host, taken;
        struct message *message;

        block_new(&gpu, &a, MIB, true);
        block_new(&host, &a, MIB, true);
        block_new(&taken, &b, 2 * MIB, true);
        map.id = gpu.memory.id;
        map.size = MIB;
        channel_post_frame(channel, map, gpu.memory.handles[a.transport->index]);
        note_mapped(channel, gpu.memory.id);
        gpu.memory.space = &device;
        segments[0] = (struct segment){ gpu.memory.address, MIB, &gpu.memory, &device };
        segments[1] = (struct segment){ host.memory.address, MIB, &host.memory };
        stream_of(&source, segments, 2);
        stream_of_block(&place, &place_segment, &taken);
        b.place = &place;
        message = message_make(&a, &source, 0, 2 * MIB, TRANSFER, &outcome);
        message->verify = true;
        worker_send(a_to_b, message);
        for (uint64_t id = 1 << 20; id < (1 << 20) + FRAME_MEMORIES_MAX; id++) /* other transfers take all places */
                note_mapped(channel, id);
        RUN_UNTIL(&a, &b, outcome.done);
        assert_int_equal(outcome.result, MESSAGE_OK);
        assert_memory_equal(taken.memory.address, gpu.memory.address, MIB);
        assert_memory_equal(taken.memory.address + MIB, host.memory.address, MIB);
        gpu.memory.space = NULL;
        stream_clear(&source);
        block_free(&gpu);
        block_free(&host);
        block_free(&taken);
}
