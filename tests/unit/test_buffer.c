/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/buffer.h>

#include "unit.h"

enum { SIZE = 4096 };

static const void *watched;
static bool watched_freed, watched_wiped;

void __real_free(void *block);
void __wrap_free(void *block);

void __wrap_free(void *block)
{
        static const char zeros[SIZE];

        if (block && block == watched) {
                watched_freed = true;
                watched_wiped = !memcmp(block, zeros, SIZE);
        }
        __real_free(block);
}

/* Bodies have keys in them: what a body has outgrown keeps none of it. */
TEST(memory_that_was_outgrown_is_wiped)
{
        struct ferry_buffer buffer = { 0 };

        for (size_t i = 0; i < SIZE; i++)
                assert_int_equal(ferry_buffer_append(&buffer, "k", 1, 2 * SIZE), 0);
        watched = buffer.data;
        while (buffer.data == watched)
                assert_int_equal(ferry_buffer_append(&buffer, "k", 1, 4 * SIZE), 0);
        assert_true(watched_freed);
        assert_true(watched_wiped);
        for (size_t i = 0; i < buffer.size; i++)
                assert_int_equal(buffer.data[i], 'k');
        watched = NULL;
        ferry_buffer_clear(&buffer, true);
}
