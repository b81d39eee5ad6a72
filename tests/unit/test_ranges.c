/* SPDX-License-Identifier: Apache-2.0 */
#include "message/ranges.h"

#include <ferry/error.h>
#include <ferry/json.h>

#include "unit.h"

static struct ranges *make(const struct range *given, size_t n)
{
        struct ranges *ranges;
        const char *why;
        size_t i;

        assert_int_equal(ranges_new(given, n, &ranges, &i, &why), 0);
        return test_keep(ranges, free);
}

/* An offer of so many bytes, cut at random; some of the pieces in a random order. Returns how many. */
enum { OFFER = 4096, PIECES_MAX = 200 };

static size_t draw(struct range pieces[PIECES_MAX])
{
        size_t n = 0, kept = 0;

        for (uint64_t at = 0, size; at < OFFER && n < PIECES_MAX; at += size) {
                size = 1 + (uint64_t)rand() % 60;
                size = size < OFFER - at ? size : OFFER - at;
                pieces[n++] = (struct range){ at, size };
        }
        for (size_t i = 0; i < n; i++)
                if (rand() % 3)
                        pieces[kept++] = pieces[i];
        for (size_t i = kept; rand() % 2 && i > 1; i--) {
                const size_t k = (size_t)rand() % i;
                const struct range other = pieces[k];

                pieces[k] = pieces[i - 1];
                pieces[i - 1] = other;
        }
        return kept;
}

TEST(random_ranges_map_each_byte_to_where_a_list_of_all_bytes_has_it)
{
        srand(1);
        for (int round = 0; round < 300; round++) {
                static uint64_t bytes[OFFER];
                struct range pieces[PIECES_MAX];
                const size_t n = draw(pieces);
                struct ranges *ranges;
                uint64_t total = 0, end = 0, run;

                if (!n)
                        continue;
                for (size_t i = 0; i < n; i++)
                        for (uint64_t k = 0; k < pieces[i].size; k++) {
                                bytes[total++] = pieces[i].offset + k;
                                end = bytes[total - 1] + 1 > end ? bytes[total - 1] + 1 : end;
                        }
                ranges = make(pieces, n);
                assert_int_equal(ranges->total, total);
                assert_int_equal(ranges->end, end);
                for (uint64_t at = 0; at < total; at++) {
                        assert_int_equal(ranges_place(ranges, at, &run), bytes[at]);
                        for (uint64_t k = 1; k < run; k++)
                                assert_int_equal(bytes[at + k], bytes[at] + k);
                        assert_true(at + run == total || bytes[at + run] != bytes[at] + run);
                }
        }
}

TEST(neighbours_are_one_range)
{
        static const struct range given[] = { { 100, 10 }, { 110, 5 }, { 115, 1 }, { 0, 4 }, { 4, 4 }, { 20, 1 } };
        const struct ranges *ranges = make(given, UNIT_COUNT(given));
        uint64_t run;

        assert_int_equal(ranges->n, 3);
        assert_int_equal(ranges_place(ranges, 3, &run), 103);
        assert_int_equal(run, 13);
        assert_int_equal(ranges_place(ranges, 16, &run), 0);
        assert_int_equal(run, 8);
        assert_int_equal(ranges_place(ranges, 24, &run), 20);
        assert_int_equal(run, 1);
}

TEST(no_ranges_are_all_of_the_offer)
{
        uint64_t run;

        assert_int_equal(ranges_place(NULL, 77, &run), 77);
        assert_true(run >= FERRY_JSON_INTEGER_MAX);
}

TEST(a_copy_is_the_same)
{
        static const struct range given[] = { { 100, 10 }, { 0, 4 }, { 50, 1 } };
        const struct ranges *ranges = make(given, UNIT_COUNT(given)), *copy = test_keep(ranges_copy(ranges), free);
        uint64_t run;

        assert_int_equal(copy->total, 15);
        assert_int_equal(copy->end, 110);
        assert_int_equal(ranges_place(copy, 14, &run), 50);
}

TEST(what_is_no_list_of_parts_is_refused)
{
        static const struct {
                struct range given[3];
                size_t n, i;
                int error;
        } rows[] = {
                { { { 0, 1 } }, 0, 0, FERRY_E_INVALID_PARAMETER },
                { { { 0, 1 }, { 5, 0 } }, 2, 1, FERRY_E_INVALID_PARAMETER },
                { { { 0, 1 }, { UINT64_MAX, 2 } }, 2, 1, FERRY_E_OUT_OF_BOUNDS },
                { { { 1, UINT64_MAX } }, 1, 0, FERRY_E_OUT_OF_BOUNDS },
                { { { UINT64_C(1) << 63, UINT64_C(1) << 63 } }, 1, 0, FERRY_E_OUT_OF_BOUNDS },
                { { { UINT64_C(1) << 63, 1 } }, 1, 0, FERRY_E_OUT_OF_BOUNDS },
                { { { FERRY_JSON_INTEGER_MAX, 1 } }, 1, 0, FERRY_E_OUT_OF_BOUNDS },
                { { { 0, 10 }, { 9, 1 } }, 2, 1, FERRY_E_INVALID_PARAMETER },
                { { { 9, 1 }, { 0, 10 } }, 2, 1, FERRY_E_INVALID_PARAMETER },
                { { { 0, 100 }, { 200, 5 }, { 50, 1 } }, 3, 2, FERRY_E_INVALID_PARAMETER },
                { { { 7, 3 }, { 7, 3 } }, 2, 1, FERRY_E_INVALID_PARAMETER },
        };

        for (size_t row = 0; row < UNIT_COUNT(rows); row++) {
                struct ranges *ranges = NULL;
                const char *why = NULL;
                size_t i = 99;

                (void)test_row(text_format("row %zu", row));
                assert_int_equal(ranges_new(rows[row].given, rows[row].n, &ranges, &i, &why), rows[row].error);
                assert_int_equal(i, rows[row].i);
                assert_non_null(why);
                assert_null(ranges);
        }
        (void)make(&(struct range){ FERRY_JSON_INTEGER_MAX - 1, 1 }, 1);
}
