/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/stream.h"

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
