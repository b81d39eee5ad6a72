/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/status.h>

#include "unit.h"

static void kinds_have_their_names(void **state)
{
        assert_string_equal(ferry_kind_name(FERRY_READABLE), "readable");
        assert_string_equal(ferry_kind_name(FERRY_READ), "read");
        assert_string_equal(ferry_kind_name(FERRY_WRITABLE), "writable");
        assert_string_equal(ferry_kind_name(FERRY_WRITE), "write");
}

static void statuses_have_upstream_s_names(void **state)
{
        assert_string_equal(ferry_status_name(FERRY_UNINITIALIZED), "UNINITIALIZED");
        assert_string_equal(ferry_status_name(FERRY_INITIALIZED), "INITIALIZED");
        assert_string_equal(ferry_status_name(FERRY_IN_PROGRESS), "IN_PROGRESS");
        assert_string_equal(ferry_status_name(FERRY_COMPLETE), "COMPLETE");
        assert_string_equal(ferry_status_name(FERRY_CANCELLED), "CANCELLED");
        assert_string_equal(ferry_status_name(FERRY_ERRORED), "ERRORED");
}

static void layouts_have_their_names(void **state)
{
        assert_string_equal(ferry_layout_name(FERRY_LAYOUT_PAIRWISE), "pairwise");
        assert_string_equal(ferry_layout_name(FERRY_LAYOUT_STREAM), "stream");
}

static void every_name_leads_back_to_its_value(void **state)
{
        for (int i = 0; i < FERRY_KIND_COUNT; i++)
                assert_int_equal(ferry_kind_from_name(ferry_kind_name(i)), i);
        for (int i = 0; i < FERRY_STATUS_COUNT; i++)
                assert_int_equal(ferry_status_from_name(ferry_status_name(i)), i);
        for (int i = 0; i < FERRY_LAYOUT_COUNT; i++)
                assert_int_equal(ferry_layout_from_name(ferry_layout_name(i)), i);
}

static void values_outside_have_no_name(void **state)
{
        static const int outside[] = { -1, 6, 1000000, -2147483647 - 1 };

        for (size_t i = 0; i < UNIT_COUNT(outside); i++) {
                assert_null(ferry_kind_name(outside[i]));
                assert_null(ferry_status_name(outside[i]));
                assert_null(ferry_layout_name(outside[i]));
        }
        assert_null(ferry_kind_name(FERRY_KIND_COUNT));
        assert_null(ferry_layout_name(FERRY_LAYOUT_COUNT));
}

static void other_names_have_no_value(void **state)
{
        static const char *const other[] = {
                "", "Readable", "READ", "reads", "rea", "complete", "COMPLETED", "Stream"
        };

        for (size_t i = 0; i < UNIT_COUNT(other); i++) {
                assert_int_equal(ferry_kind_from_name(other[i]), -1);
                assert_int_equal(ferry_status_from_name(other[i]), -1);
                assert_int_equal(ferry_layout_from_name(other[i]), -1);
        }
        assert_int_equal(ferry_kind_from_name(NULL), -1);
        assert_int_equal(ferry_status_from_name(NULL), -1);
        assert_int_equal(ferry_layout_from_name(NULL), -1);
}

static void only_readable_and_writable_are_passive(void **state)
{
        assert_true(ferry_kind_is_passive(FERRY_READABLE));
        assert_true(ferry_kind_is_passive(FERRY_WRITABLE));
        assert_false(ferry_kind_is_passive(FERRY_READ));
        assert_false(ferry_kind_is_passive(FERRY_WRITE));
        assert_false(ferry_kind_is_passive(-1));
        assert_false(ferry_kind_is_passive(FERRY_KIND_COUNT));
}

static void only_the_last_three_are_terminal(void **state)
{
        assert_false(ferry_status_is_terminal(FERRY_UNINITIALIZED));
        assert_false(ferry_status_is_terminal(FERRY_INITIALIZED));
        assert_false(ferry_status_is_terminal(FERRY_IN_PROGRESS));
        assert_true(ferry_status_is_terminal(FERRY_COMPLETE));
        assert_true(ferry_status_is_terminal(FERRY_CANCELLED));
        assert_true(ferry_status_is_terminal(FERRY_ERRORED));
        assert_false(ferry_status_is_terminal(-1));
        assert_false(ferry_status_is_terminal(FERRY_STATUS_COUNT));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(kinds_have_their_names),
                cmocka_unit_test(statuses_have_upstream_s_names),
                cmocka_unit_test(layouts_have_their_names),
                cmocka_unit_test(every_name_leads_back_to_its_value),
                cmocka_unit_test(values_outside_have_no_name),
                cmocka_unit_test(other_names_have_no_value),
                cmocka_unit_test(only_readable_and_writable_are_passive),
                cmocka_unit_test(only_the_last_three_are_terminal),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
