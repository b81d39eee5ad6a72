/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
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

static int check_nothing(const struct space *space)
{
        return 0;
}

static const struct space_ops ops = { .copy = copy_now, .finish = finish_copies, .check = check_nothing };
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

static void fail_while_the_device_copies(size_t size)
{
        export_to_device(size);
        stands_still = true;
        send_it(size);
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

TEST_WITH(a_link_that_fails_ends_once_the_device_is_done, gpu_setup, gpu_teardown)
{
        fail_while_the_device_copies(MIB);
}

TEST_WITH(a_link_that_fails_ends_once_a_short_payload_is_stored, gpu_setup, gpu_teardown)
{
        fail_while_the_device_copies(64);
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

static uint64_t n_heard; /* of messages of that transfer … */
static bool is_in_order; /* … each a MiB after the last */

static void hear(struct worker *worker, struct link *link, const struct wire_header *header)
{
        if (header->transfer == TRANSFER)
                is_in_order = header->offset == MIB * n_heard++ && (is_in_order || n_heard == 1);
}

enum { BUFFERS = BOUNCE_BUFFERS / 2 /* that one device may have */ };

static struct outcome outcomes[BUFFERS];

/* Sends that MiB in a message. */
static void send_part(size_t i)
{
        worker_send(a_to_b, message_make(&a, &from, i * MIB, MIB, TRANSFER, &outcomes[i]));
}

static void send_from_device(size_t n)
{
        for (size_t i = 0; i < n; i++)
                send_part(i);
}

static void export_from_device(size_t size)
{
        export_blocks(size, true);
        clear_place();
        from_block.memory.space = &device;
        place_on_device(&from, from_halves, &from_block);
        b.received.done = 0;
        memset(outcomes, 0, sizeof(outcomes));
}

static bool all_are_done(size_t n)
{
        while (n > 0 && outcomes[n - 1].done)
                n--;
        return n == 0;
}

/* All are loaded before the first one is sent. */
TEST_WITH(each_payload_is_loaded_into_a_buffer_of_its_own, gpu_setup, gpu_teardown)
{
        export_from_device(BUFFERS * MIB);
        send_from_device(BUFFERS);
        RUN_UNTIL(NULL, NULL, atomic_load(&n_copies) == BUFFERS);
        RUN_UNTIL(&a, &b, all_are_done(BUFFERS));
        assert_int_equal(b.received.done, BUFFERS);
        assert_memory_equal(to_block.memory.address, from_block.memory.address, BUFFERS * MIB);
        clear_streams();
}

/* It may still be copying when the message is taken back. */
TEST_WITH(a_buffer_is_used_again_once_the_peer_has_released_it, gpu_setup, gpu_teardown)
{
        export_from_device(BUFFERS * MIB);
        send_from_device(BUFFERS);
        RUN_UNTIL(&a, NULL, !a_to_b->loading);
        send_it(MIB); /* fit() would say that there is no room */
        assert_int_equal(sent.result, MESSAGE_NO_MEMORY);
        a.transport->ops->cancel(a_to_b, TRANSFER);
        assert_true(all_are_done(BUFFERS));
        send_it(MIB);
        assert_int_equal(sent.result, MESSAGE_NO_MEMORY);
        RUN_UNTIL(&a, &b, channel_of(a_to_b)->leases.n_used == 0);
        send_from_device(BUFFERS);
        RUN_UNTIL(&a, &b, all_are_done(BUFFERS));
        assert_int_equal(outcomes[BUFFERS - 1].result, MESSAGE_OK);
        clear_streams();
}

/* Other messages have taken the leases while these were loaded, the second one first. */
TEST_WITH(what_is_loaded_goes_out_in_order_when_leases_are_released, gpu_setup, gpu_teardown)
{
        struct outcome others[FRAME_LEASES];
        struct segment segment;
        struct stream stream;
        struct block host;

        memset(others, 0, sizeof(others));
        export_from_device(2 * MIB);
        block_new(&host, &a, MIB, true);
        stream_of_block(&stream, &segment, &host);
        for (size_t i = 0; i < FRAME_LEASES; i++)
                worker_send(a_to_b, message_make(&a, &stream, 0, MIB, TRANSFER + 1, &others[i]));
        stands_still = true;
        send_part(0);
        RUN_UNTIL(&a, NULL, atomic_load(&n_copies) == 1);
        stands_still = false;
        send_part(1);
        RUN_UNTIL(&a, NULL, !a_to_b->loading->next->stage->running);
        let_go();
        RUN_UNTIL(&a, NULL, !a_to_b->loading->stage->running);
        assert_false(outcomes[0].done);
        b.on_message = hear;
        n_heard = 0;
        RUN_UNTIL(&a, &b, all_are_done(2));
        assert_true(n_heard == 2 && is_in_order);
        assert_memory_equal(to_block.memory.address + MIB, from_block.memory.address + MIB, MIB);
        block_free(&host);
        clear_streams();
}

/* The first MiB is a device's, the second is mapped as it is. */
TEST_WITH(host_memory_does_not_overtake_a_devices, gpu_setup, gpu_teardown)
{
        struct segment segments[2];
        struct block gpu;

        export_blocks(2 * MIB, true);
        memset(outcomes, 0, sizeof(outcomes));
        block_new(&gpu, &a, MIB, true);
        gpu.memory.space = &device;
        segments[0] = (struct segment){ gpu.memory.address, MIB, &gpu.memory, &device };
        segments[1] = (struct segment){ from_block.memory.address, MIB, &from_block.memory };
        stream_clear(&from);
        stream_of(&from, segments, 2);
        stands_still = true;
        b.on_message = hear;
        n_heard = 0;
        send_from_device(2);
        RUN_UNTIL(&a, &b, atomic_load(&n_copies) > 0 && !a_to_b->loading->next->stage->running);
        worker_step(&a, &b);
        assert_int_equal(n_heard, 0);
        let_go();
        RUN_UNTIL(&a, &b, all_are_done(2));
        assert_true(n_heard == 2 && is_in_order);
        gpu.memory.space = NULL;
        block_free(&gpu);
        clear_streams();
}

TEST_WITH(a_link_that_fails_while_a_device_loads_ends_after_that, gpu_setup, gpu_teardown)
{
        export_from_device(4 * MIB);
        stands_still = true;
        send_from_device(1);
        RUN_UNTIL(&a, NULL, atomic_load(&n_copies) > 0);
        (a.transport->ops->fail)(a_to_b, FERRY_E_STALLED, "while the device loads");
        worker_step(&a, &b);
        assert_int_equal(a.ended + outcomes[0].done, 0);
        let_go();
        RUN_UNTIL(&a, &b, a.ended && b.ended);
        assert_int_equal(outcomes[0].result, MESSAGE_LOST);
        clear_streams();
}

static void *drive_b(void *context)
{
        (void)context;
        while (!b.ended)
                worker_step(&b, NULL);
        return NULL;
}

TEST_WITH(a_shutdown_sends_what_is_being_loaded, gpu_setup, gpu_teardown)
{
        pthread_t thread;

        export_from_device(4 * MIB);
        send_from_device(4);
        assert_int_equal(pthread_create(&thread, NULL, drive_b, NULL), 0);
        a.transport->ops->shut_down(a.transport, clock_now_us() + 10000000);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(outcomes[3].result, MESSAGE_OK);
        assert_int_equal(b.received.done, 4);
        clear_streams();
}

/* Its events have been taken: the worker sleeps. */
TEST_WITH(nothing_is_left_to_do_after_a_copy, gpu_setup, gpu_teardown)
{
        export_from_device(2 * MIB);
        send_from_device(2);
        RUN_UNTIL(&a, &b, all_are_done(2));
        RUN_UNTIL(NULL, NULL, !a.transport->ops->progress(a.transport));
        clear_streams();
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

/* The first MiB of a message is a GPU's that the peer has open, the second the host's. */
static struct block gpu, host, taken;
static struct segment opened_segments[2], taken_segment;
static struct stream opened, place;

/* Sends it with checksums, for which it waits. */
static void send_opened(struct outcome *outcome)
{
        struct channel *channel = channel_of(a_to_b);
        struct message *message;

        block_new(&gpu, &a, MIB, true);
        block_new(&host, &a, MIB, true);
        block_new(&taken, &b, 2 * MIB, true);
        channel_post_frame(channel, FRAME_OF(FRAME_MAP, .id = gpu.memory.id, .size = MIB),
                           gpu.memory.handles[a.transport->index]);
        note_mapped(channel, gpu.memory.id);
        gpu.memory.space = &device;
        opened_segments[0] = (struct segment){ gpu.memory.address, MIB, &gpu.memory, &device };
        opened_segments[1] = (struct segment){ host.memory.address, MIB, &host.memory };
        stream_of(&opened, opened_segments, 2);
        stream_of_block(&place, &taken_segment, &taken);
        b.place = &place;
        message = message_make(&a, &opened, 0, 2 * MIB, TRANSFER, outcome);
        message->verify = true;
        message->header.flags = WIRE_VERIFY;
        worker_send(a_to_b, message);
}

static void check_opened(const struct outcome *outcome)
{
        RUN_UNTIL(&a, &b, outcome->done);
        assert_int_equal(outcome->result, MESSAGE_OK);
        RUN_UNTIL(&a, &b, b.received.done);
        assert_int_equal(b.received.result, MESSAGE_OK);
        assert_memory_equal(taken.memory.address, gpu.memory.address, MIB);
        assert_memory_equal(taken.memory.address + MIB, host.memory.address, MIB);
}

static void free_opened(void)
{
        gpu.memory.space = NULL;
        stream_clear(&opened);
        block_free(&gpu);
        block_free(&host);
        block_free(&taken);
}

/* The message waits for its checksums. */
TEST_WITH(host_memory_beside_a_gpus_keeps_its_place_while_that_is_loaded, gpu_setup, gpu_teardown)
{
        struct outcome outcome = { 0 };

        send_opened(&outcome);
        for (uint64_t id = 1 << 20; id < (1 << 20) + FRAME_MEMORIES_MAX; id++) /* other transfers take all places */
                note_mapped(channel_of(a_to_b), id);
        check_opened(&outcome);
        free_opened();
}

static const struct export *export_of_gpu(void)
{
        struct export *export;

        HASH_FIND(hh, channel_of(a_to_b)->exports, &gpu.memory.id, sizeof(gpu.memory.id), export);
        return export;
}

/* Begins to send, and has the peer ask the memory back meanwhile. */
static void ask_back_while_loading(struct outcome *outcome)
{
        stands_still = true;
        send_opened(outcome);
        RUN_UNTIL(&a, &b, atomic_load(&n_copies) > 0);
        channel_post_frame(channel_of(b.link), FRAME_OF(FRAME_IDLE, .id = gpu.memory.id), NULL);
        worker_step(&a, &b);
        worker_step(&a, &b);
}

/* The message has no other way: it is too long for a bounce buffer. */
TEST_WITH(gpu_memory_that_is_asked_back_stays_until_what_names_it_has_left, gpu_setup, gpu_teardown)
{
        struct outcome outcome = { 0 };
        bool is_inline;

        ask_back_while_loading(&outcome);
        assert_non_null(export_of_gpu());
        a.room = 0;
        assert_int_equal(a.transport->ops->fit(a_to_b, &opened, 0, MIB, &is_inline), 0); /* no new one names it */
        assert_int_equal(export_of_gpu()->state, EXPORT_ASKED);
        let_go();
        check_opened(&outcome);
        assert_null(export_of_gpu());
        assert_true(a.room > 0);
        assert_int_equal(a.ended + b.ended, 0);
        free_opened();
}

TEST_WITH(gpu_memory_that_is_asked_back_goes_with_the_cancel_of_what_names_it, gpu_setup, gpu_teardown)
{
        struct outcome outcome = { 0 };

        ask_back_while_loading(&outcome);
        assert_int_equal(export_of_gpu()->state, EXPORT_ASKED);
        a.transport->ops->cancel(a_to_b, TRANSFER);
        let_go();
        RUN_UNTIL(&a, &b, outcome.done);
        assert_int_equal(outcome.result, MESSAGE_CANCELLED);
        assert_null(export_of_gpu());
        assert_int_equal(a.ended + b.ended, 0);
        free_opened();
}
