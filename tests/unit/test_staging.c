/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/staging.h"

#include "base/space.h"
#include "unit.h"

/* The buffers that payloads of GPUs are staged in, and how GPUs share them. There is no driver here. */

enum { LENGTH = 4 << 20, GPUS = 8, BUFFERS = STAGING_BYTES / LENGTH };

struct bench {
        struct staging *staging;
        struct message messages[BUFFERS + GPUS];
        struct space spaces[GPUS];
        struct segment segments[GPUS], mixed[2];
        struct stream streams[GPUS], behind; /* behind: bytes of GPU 1, then of the host */
        size_t n;
        int rooms; /* how often there may be room */
};

static void ignore(void *context)
{
}

static void count_room(void *context)
{
        ((struct bench *)context)->rooms++;
}

static void bench_free(void *context)
{
        struct bench *b = context;

        while (b->n > 0)
                stage_free(&b->messages[--b->n]);
        staging_free(b->staging);
        for (unsigned i = 0; i < GPUS; i++)
                stream_clear(&b->streams[i]);
        stream_clear(&b->behind);
        free(b);
}

static struct bench *bench_new(void)
{
        struct bench *b = test_keep(calloc(1, sizeof(*b)), bench_free);

        assert_int_equal(staging_new(ignore, count_room, b, &b->staging), 0);
        for (unsigned i = 0; i < GPUS; i++) {
                b->spaces[i].device = i;
                b->segments[i] = (struct segment){ (uint8_t *)b, LENGTH, NULL, &b->spaces[i] };
                assert_int_equal(stream_init(&b->streams[i], &b->segments[i], 1), 0);
        }
        b->mixed[0] = b->segments[1];
        b->mixed[1] = (struct segment){ (uint8_t *)b, LENGTH, NULL, NULL };
        assert_int_equal(stream_init(&b->behind, b->mixed, 2), 0);
        return b;
}

static bool has_room(struct bench *b, unsigned gpu)
{
        return staging_has_room(b->staging, &b->streams[gpu], 0, LENGTH);
}

/* Takes a buffer, which is made if need be. */
static void take_of(struct bench *b, const struct stream *stream, uint64_t offset, uint64_t length)
{
        struct message *message = &b->messages[b->n];

        while (!staging_has_room(b->staging, stream, offset, length)) {
                copier_wait(staging_copier(b->staging));
                (void)copier_collect(staging_copier(b->staging));
        }
        *message = (struct message){ .stream = stream, .offset = offset, .length = length };
        assert_true(stage_new_buffer(b->staging, message));
        b->n++;
}

static void take(struct bench *b, unsigned gpu)
{
        take_of(b, &b->streams[gpu], 0, LENGTH);
}

static void give_back(struct bench *b)
{
        stage_free(&b->messages[--b->n]);
}

TEST(a_gpu_that_stands_still_leaves_buffers_to_the_others)
{
        struct bench *b = bench_new();
        size_t share = BUFFERS / 2;

        for (unsigned gpu = 0; gpu < 4; gpu++, share /= 2) {
                for (size_t i = 0; i < share; i++)
                        take(b, gpu);
                assert_false(has_room(b, gpu));
        }
}

TEST(each_gpu_may_have_one_buffer)
{
        struct bench *b = bench_new();

        for (unsigned gpu = 0; gpu < GPUS; gpu++)
                for (size_t i = BUFFERS >> (gpu + 1); i > 0; i--)
                        take(b, gpu);
        for (unsigned gpu = 6; gpu < GPUS; gpu++) {
                take(b, gpu);
                assert_false(has_room(b, gpu));
        }
}

TEST(a_buffer_that_is_given_back_makes_room)
{
        struct bench *b = bench_new();
        int before;

        for (size_t i = 0; i < BUFFERS / 2; i++)
                take(b, 0);
        assert_false(has_room(b, 0));
        before = b->rooms;
        give_back(b);
        assert_int_equal(b->rooms, before + 1);
        take(b, 0);
        assert_false(has_room(b, 0));
        take(b, 1);
}

TEST(host_bytes_behind_a_gpu_are_charged_to_no_gpu)
{
        struct bench *b = bench_new();

        take_of(b, &b->behind, LENGTH, LENGTH);
        give_back(b);
        for (unsigned gpu = 0; gpu < 2; gpu++)
                for (size_t i = BUFFERS >> (gpu + 1); i > 0; i--)
                        take(b, gpu);
        assert_false(has_room(b, 0));
        assert_false(has_room(b, 1));
        assert_true(staging_has_room(b->staging, &b->behind, LENGTH, LENGTH));
}

TEST(idle_buffers_stay_where_the_one_that_is_wanted_cannot_be_made)
{
        const uint64_t small = 256 << 10, large = STAGING_BYTES / 2, medium = large / 2;
        struct bench *b = bench_new();

        take_of(b, &b->streams[0], 0, small);
        take_of(b, &b->streams[0], 0, small);
        give_back(b);
        /* Their buffers are being made until they are collected. */
        assert_false(staging_has_room(b->staging, &b->streams[1], 0, large));
        assert_false(staging_has_room(b->staging, &b->streams[2], 0, medium));
        assert_false(staging_has_room(b->staging, &b->streams[0], 0, medium));
        assert_true(staging_has_room(b->staging, &b->streams[0], 0, small));
}
