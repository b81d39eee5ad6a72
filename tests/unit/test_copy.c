/* SPDX-License-Identifier: Apache-2.0 */
#include "base/copy.h"
#include "base/util.h"

#include "unit.h"

enum { ROOM = 80 << 10, EDGE = 64 };

/* Every byte of the range arrives, and none beside it is touched. */
static void check(size_t to_shift, size_t from_shift, size_t size)
{
        uint8_t *from = malloc(ROOM), *to = malloc(ROOM), *expected = malloc(ROOM);

        for (size_t i = 0; i < ROOM; i++)
                from[i] = (uint8_t)(i * 31 + i / 253);
        memset(to, 0xee, ROOM);
        memset(expected, 0xee, ROOM);
        memcpy(expected + EDGE + to_shift, from + from_shift, size);
        copy_past_caches(to + EDGE + to_shift, from + from_shift, size);
        copy_past_caches_end();
        assert_memory_equal(to, expected, ROOM);
        free(from);
        free(to);
        free(expected);
}

TEST(every_alignment_and_size_is_copied_exactly)
{
        FOR_EACH (size_t, size, 0, 1, 15, 16, 63, 64, 65, 127, 4095, 4096, 4097, 16383, 16384, 16385, 16500, 70000)
                for (size_t to = 0; to < 20; to += 3)
                        for (size_t from = 0; from < 20; from += 5)
                                check(to, from, size);
}
