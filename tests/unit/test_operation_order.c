/* SPDX-License-Identifier: Apache-2.0 */
#include "operations_internal.h"
#include "unit.h"

enum { MANY = 1000 };

static size_t seek_by_walking(const struct creation_order *order, uint64_t serial)
{
        size_t i = 0;

        while (i < order->n && order->entries[i].serial <= serial)
                i++;
        return i;
}

static void assert_every_seek(const struct creation_order *order, uint64_t end)
{
        for (uint64_t serial = 0; serial <= end; serial++)
                assert_int_equal(order_seek(order, serial), seek_by_walking(order, serial));
        assert_int_equal(order_seek(order, UINT64_MAX), order->n);
}

TEST(an_empty_order_has_one_place)
{
        struct creation_order order = { 0 };

        assert_every_seek(&order, 3);
}

/* Serials that are dense, far apart, and both: the guess is right, or as wrong as can be. */
TEST(a_serials_place_is_found_wherever_the_holes_are)
{
        static const struct {
                uint64_t first, step, then;
                size_t n, n_then;
        } rows[] = { { 1, 1, 1, MANY, 0 },   { 7, 3, 1, MANY, 0 }, { 1, 1, 50, MANY, 20 },
                     { 5, 50, 1, 20, MANY }, { 9, 1, 1, 1, 0 },    { 9, 2, 2, 2, 0 } };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct operation *operation = calloc(1, sizeof(*operation));
                struct creation_order order = { 0 };

                operation->serial = rows[i].first;
                for (size_t j = 0; j < rows[i].n + rows[i].n_then; j++) {
                        assert_int_equal(order_append(&order, operation), 0);
                        operation->serial += j < rows[i].n ? rows[i].step : rows[i].then;
                }
                assert_every_seek(&order, operation->serial + 2);
                free(order.entries);
                free(operation);
        }
}

TEST(what_is_left_is_found_while_others_go)
{
        struct operation *operations = calloc(MANY, sizeof(*operations));
        struct creation_order order = { 0 };

        for (size_t i = 0; i < MANY; i++) {
                operations[i].serial = i + 1;
                assert_int_equal(order_append(&order, &operations[i]), 0);
        }
        for (size_t i = 0; i < MANY; i++) {
                struct operation *going = &operations[i * 7 % MANY];

                order_remove(&order, going);
                assert_true(order.n_removed <= order.n);
                for (size_t j = i + 1; j < MANY; j += 97) {
                        struct operation *left = &operations[j * 7 % MANY];

                        assert_ptr_equal(order.entries[order_seek(&order, left->serial - 1)].operation, left);
                }
        }
        assert_true(order.n < MANY);
        free(order.entries);
        free(operations);
}
