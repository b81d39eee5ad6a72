/* SPDX-License-Identifier: Apache-2.0 */
#include <malloc.h>

#include "operation_fixture.h"
#include "operations_internal.h"

enum { SIZE = 1000, MANY = 3000000 };

static uint64_t draw(uint64_t *state)
{
        uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        return (z ^ z >> 31) | 1;
}

TEST(the_last_ids_are_there_and_no_others)
{
        FOR_EACH (size_t, size, 1, 2, 7, 64, 1000) {
                uint64_t seed = 1, ids[3000];
                struct gone_ids gone;

                assert_int_equal(gone_ids_init(&gone, size), 0);
                assert_false(gone_ids_has(&gone, 0));
                for (size_t n = 1; n <= FERRY_ARRAY_SIZE(ids); n++) {
                        gone_ids_add(&gone, ids[n - 1] = draw(&seed));
                        if (n % 97 == 0)
                                for (size_t k = 0; k < n; k++)
                                        assert_int_equal(gone_ids_has(&gone, ids[k]), k + size >= n);
                }
                gone_ids_clear(&gone);
        }
}

TEST(ids_that_share_a_chain_are_told_apart)
{
        struct gone_ids gone;

        assert_int_equal(gone_ids_init(&gone, 16), 0);
        for (uint64_t n = 1; n <= 100; n++) {
                gone_ids_add(&gone, n << 32 | 5);
                for (uint64_t k = 1; k <= 100; k++)
                        assert_int_equal(gone_ids_has(&gone, k << 32 | 5), k <= n && k + 16 > n);
        }
        gone_ids_clear(&gone);
}

static size_t allocated(void)
{
        const struct mallinfo2 info = mallinfo2();

        return info.uordblks + info.hblkhd;
}

TEST(however_many_went_the_memory_is_the_same)
{
        struct gone_ids gone;
        uint64_t seed = 1;
        size_t before;

        assert_int_equal(gone_ids_init(&gone, SIZE), 0);
        for (int i = 0; i < SIZE; i++)
                gone_ids_add(&gone, draw(&seed));
        before = allocated();
        for (int i = 0; i < MANY; i++)
                gone_ids_add(&gone, draw(&seed));
        assert_int_equal(allocated(), before);
        gone_ids_clear(&gone);
}
