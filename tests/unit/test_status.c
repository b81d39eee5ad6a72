/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/status.h>

#include "unit.h"

TEST(every_name_leads_back_to_its_value)
{
        for (int i = 0; i < FERRY_KIND_COUNT; i++)
                assert_int_equal(ferry_kind_from_name(ferry_kind_name(i)), i);
        for (int i = 0; i < FERRY_STATUS_COUNT; i++)
                assert_int_equal(ferry_status_from_name(ferry_status_name(i)), i);
        for (int i = 0; i < FERRY_LAYOUT_COUNT; i++)
                assert_int_equal(ferry_layout_from_name(ferry_layout_name(i)), i);
}

TEST(values_outside_have_no_name)
{
        FOR_EACH (int, number, -1, 6, 1000000, -2147483647 - 1) {
                assert_null(ferry_kind_name(number));
                assert_null(ferry_status_name(number));
                assert_null(ferry_layout_name(number));
        }
        assert_null(ferry_kind_name(FERRY_KIND_COUNT));
        assert_null(ferry_layout_name(FERRY_LAYOUT_COUNT));
}

TEST(other_names_have_no_value)
{
        FOR_EACH_TEXT (other, "", "Readable", "READ", "reads", "rea", "complete", "COMPLETED", "Stream") {
                assert_int_equal(ferry_kind_from_name(other), -1);
                assert_int_equal(ferry_status_from_name(other), -1);
                assert_int_equal(ferry_layout_from_name(other), -1);
        }
        assert_int_equal(ferry_kind_from_name(NULL), -1);
        assert_int_equal(ferry_status_from_name(NULL), -1);
        assert_int_equal(ferry_layout_from_name(NULL), -1);
}

TEST(only_readable_and_writable_are_passive)
{
        assert_true(ferry_kind_is_passive(FERRY_READABLE));
        assert_true(ferry_kind_is_passive(FERRY_WRITABLE));
        assert_false(ferry_kind_is_passive(FERRY_READ));
        assert_false(ferry_kind_is_passive(FERRY_WRITE));
        assert_false(ferry_kind_is_passive(-1));
        assert_false(ferry_kind_is_passive(FERRY_KIND_COUNT));
}

TEST(only_the_last_three_are_terminal)
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
