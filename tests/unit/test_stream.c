/* SPDX-License-Identifier: Apache-2.0 */
#include "message/stream.h"

#include "base/space.h"
#include "base/util.h"
#include "unit.h"

static uint8_t memory[4096];

static uint64_t sum_of(const struct stream *stream, uint64_t offset, uint64_t length)
{
        uint64_t sum;

        assert_int_equal(stream_checksum(stream, offset, length, &sum), 0);
        return sum;
}

TEST(a_run_ends_where_its_segment_ends)
{
        const struct segment segments[] = { { memory + 100, 10, NULL }, { memory, 7, NULL }, { memory + 50, 1, NULL } };
        struct stream stream;
        uint8_t *address;

        assert_int_equal(stream_init(&stream, segments, 3), 0);
        assert_int_equal(stream.total, 18);
        assert_int_equal(stream_run(&stream, 0, 100, &address), 10);
        assert_ptr_equal(address, memory + 100);
        assert_int_equal(stream_run(&stream, 9, 100, &address), 1);
        assert_ptr_equal(address, memory + 109);
        assert_int_equal(stream_run(&stream, 10, 100, &address), 7);
        assert_ptr_equal(address, memory);
        assert_int_equal(stream_run(&stream, 12, 3, &address), 3);
        assert_ptr_equal(address, memory + 2);
        assert_int_equal(stream_run(&stream, 17, 100, &address), 1);
        assert_ptr_equal(address, memory + 50);
        stream_clear(&stream);
}

TEST(neighbours_in_memory_make_one_run)
{
        const struct segment segments[] = { { memory, 10, NULL }, { memory + 10, 20, NULL }, { memory + 31, 5, NULL } };
        struct stream stream;
        uint8_t *address;

        assert_int_equal(stream_init(&stream, segments, 3), 0);
        assert_int_equal(stream_run(&stream, 0, 100, &address), 30);
        assert_int_equal(stream_run(&stream, 5, 12, &address), 12);
        assert_int_equal(stream_run(&stream, 12, 100, &address), 18);
        assert_ptr_equal(address, memory + 12);
        stream_clear(&stream);
}

TEST(sizes_that_overflow_are_refused)
{
        const struct segment segments[] = { { memory, SIZE_MAX, NULL }, { memory, 2, NULL } };
        struct stream stream;

        assert_int_equal(stream_init(&stream, segments, 2), -EOVERFLOW);
}

TEST(pieces_store_and_checksum_agree_with_a_flat_copy)
{
        enum { N = 50 };
        struct segment segments[N];
        struct stream scattered, flat;
        uint8_t copy[1024], back[1024] = { 0 };
        uint64_t total = 0;

        for (size_t i = 0; i < N; i++) {
                segments[i] = (struct segment){ memory + (i * 17 % N) * 40, 1 + i % 23, NULL };
                total += segments[i].size;
        }
        for (size_t i = 0; i < sizeof(copy); i++)
                copy[i] = (uint8_t)(i * 31 + 7);
        assert_int_equal(stream_init(&scattered, segments, N), 0);
        assert_int_equal(scattered.total, total);
        const struct segment whole = { copy, total, NULL };
        assert_int_equal(stream_init(&flat, &whole, 1), 0);

        stream_store(&scattered, 0, copy, total);
        for (uint64_t offset = 0; offset < total; offset += 13) {
                uint64_t length = total - offset < 97 ? total - offset : 97, at = 0;
                struct iovec *pieces = NULL;
                size_t n = stream_pieces(&scattered, offset, length, &pieces);

                assert_true(n > 0);
                for (size_t i = 0; i < n; i++) {
                        memcpy(back + at, pieces[i].iov_base, pieces[i].iov_len);
                        at += pieces[i].iov_len;
                }
                assert_int_equal(at, length);
                assert_memory_equal(back, copy + offset, length);
                assert_true(sum_of(&scattered, offset, length) == sum_of(&flat, offset, length));
                free(pieces);
        }
        memory[(17 % N) * 40] ^= 1;
        assert_false(sum_of(&scattered, 0, total) == sum_of(&flat, 0, total));
        stream_clear(&scattered);
        stream_clear(&flat);
}

/* ---- memory off the host ---- */

enum { QUEUE = 8, DEVICES = 2, PART = 1500000 /* more than one piece of a checksum */ };

struct device {
        struct space space;
        int copy_result;
};

/* Copies that are made when they are waited for, no sooner. */
static struct {
        void *to;
        const void *from;
        size_t size;
} queue[QUEUE];
static size_t n_queued;
static int finish_result;

static int queue_copy(const struct space *to_space, void *to, const struct space *from_space, const void *from,
                      size_t size)
{
        assert_in_range(n_queued, 0, QUEUE - 1);
        queue[n_queued].to = to;
        queue[n_queued].from = from;
        queue[n_queued++].size = size;
        return FERRY_CONTAINER_OF(to_space ? to_space : from_space, struct device, space)->copy_result;
}

static int finish_copies(const struct space *space)
{
        for (size_t i = 0; i < n_queued; i++)
                memcpy(queue[i].to, queue[i].from, queue[i].size);
        n_queued = 0;
        return finish_result;
}

/* One stream of two devices, whose parts lie beside each other. */
struct bench {
        struct device devices[DEVICES];
        struct segment segments[DEVICES];
        struct stream stream;
        uint8_t bytes[DEVICES * PART], host[DEVICES * PART];
};

static void bench_free(void *context)
{
        struct bench *b = context;

        stream_clear(&b->stream);
        free(b);
}

static struct bench *bench_new(void)
{
        static const struct space_ops ops = { .copy = queue_copy, .finish = finish_copies };
        struct bench *b = test_keep(calloc(1, sizeof(*b)), bench_free);

        for (size_t i = 0; i < DEVICES; i++) {
                b->devices[i].space.ops = &ops;
                b->segments[i] = (struct segment){ b->bytes + i * PART, PART, NULL, &b->devices[i].space };
        }
        for (size_t i = 0; i < sizeof(b->bytes); i++)
                b->bytes[i] = (uint8_t)(i * 31 + i / 251);
        assert_int_equal(stream_init(&b->stream, b->segments, DEVICES), 0);
        return b;
}

TEST(a_run_ends_where_the_next_device_begins)
{
        struct bench *b = bench_new();
        uint8_t *address;

        assert_int_equal(stream_run(&b->stream, 0, 2 * PART, &address), PART);
        assert_ptr_equal(stream_space(&b->stream, PART - 1), &b->devices[0].space);
        assert_ptr_equal(stream_space(&b->stream, PART), &b->devices[1].space);
        assert_ptr_equal(stream_next_space(&b->stream, PART), &b->devices[1].space);
}

TEST(bytes_of_devices_are_moved_and_summed_like_any)
{
        struct bench *b = bench_new();
        const uint64_t at = 7, length = 2 * PART - 11;
        uint8_t back[64];

        assert_int_equal(stream_load(&b->stream, at, b->host, length), 0);
        assert_memory_equal(b->host, b->bytes + at, length);
        const struct segment whole = { b->host, length, NULL };
        struct stream flat;
        assert_int_equal(stream_init(&flat, &whole, 1), 0);
        assert_true(sum_of(&b->stream, at, length) == sum_of(&flat, 0, length));
        memset(back, 0xa5, sizeof(back));
        assert_int_equal(stream_store(&b->stream, PART - 10, back, sizeof(back)), 0);
        assert_memory_equal(b->bytes + PART - 10, back, sizeof(back));
        assert_false(sum_of(&b->stream, at, length) == sum_of(&flat, 0, length));
}

/* Neither when the copy was queued, whichever device it was, nor when all were waited for. */
TEST(no_failure_of_a_device_is_taken_for_success)
{
        for (size_t i = 0; i <= DEVICES; i++) {
                struct bench *b = bench_new();
                uint64_t sum;

                if (i < DEVICES)
                        b->devices[i].copy_result = -EIO;
                finish_result = i < DEVICES ? 0 : -EIO;
                assert_int_equal(stream_load(&b->stream, 0, b->host, 2 * PART), -EIO);
                assert_int_equal(stream_store(&b->stream, 0, b->host, 2 * PART), -EIO);
                assert_int_equal(stream_checksum(&b->stream, 0, 2 * PART, &sum), -EIO);
                assert_int_equal(n_queued, 0);
                finish_result = 0;
        }
}

TEST(the_first_failure_is_the_one_that_is_told)
{
        struct bench *b = bench_new();

        b->devices[0].copy_result = -EFAULT;
        finish_result = -EIO;
        assert_int_equal(stream_load(&b->stream, 0, b->host, 2 * PART), -EFAULT);
        finish_result = 0;
}
