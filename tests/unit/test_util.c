/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/util.h"

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
        char *old = memory_regrow(NULL, 0, SIZE), *grown;

        assert_non_null(old);
        memset(old, 'k', SIZE);
        watched = old;
        grown = memory_regrow(old, SIZE, 2 * (size_t)SIZE);
        assert_non_null(grown);
        assert_true(watched_freed);
        assert_true(watched_wiped);
        for (size_t i = 0; i < SIZE; i++)
                assert_int_equal(grown[i], 'k');
        watched = NULL;
        __real_free(grown);
}
