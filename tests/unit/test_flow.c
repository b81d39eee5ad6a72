/* SPDX-License-Identifier: Apache-2.0 */
#include "flow.h"
#include "unit.h"

enum { CHUNK = 1 << 20, WINDOW = 4 * CHUNK, SECOND_US = 1000 * 1000 };

TEST(a_link_as_slow_as_it_was_does_not_stand_still)
{
        struct flow flow = { 0 };
        uint64_t now_us, pause_us = 340 * 1000; /* of 4 MiB at 100 Mbit/s */

        flow_add(&flow, 2 * CHUNK, false);
        now_us = flow.moved_us;
        assert_false(flow_stands_still(&flow, 0, WINDOW, now_us + pause_us)); /* it may be slow */
        for (int i = 0; i < 20; i++) {
                now_us += pause_us;
                assert_false(flow_stands_still(&flow, flow.moved, WINDOW, now_us));
                flow_note_moved(&flow, CHUNK, now_us);
        }
        assert_false(flow_stands_still(&flow, flow.moved, WINDOW, now_us + 2 * pause_us - 1));
        assert_true(flow_stands_still(&flow, flow.moved, WINDOW, now_us + 2 * pause_us));
}

TEST(a_link_that_was_fast_stands_still_sooner)
{
        struct flow flow = { 0 };
        uint64_t now_us;

        flow_add(&flow, WINDOW, false);
        now_us = flow.moved_us;
        assert_true(flow_stands_still(&flow, 0, WINDOW, now_us + SECOND_US));
        for (int i = 0; i < 100; i++)
                flow_note_moved(&flow, CHUNK, now_us += 1000);
        assert_false(flow_stands_still(&flow, flow.moved, WINDOW, now_us + SECOND_US / 10 - 1));
        assert_true(flow_stands_still(&flow, flow.moved, WINDOW, now_us + SECOND_US / 10));
}

TEST(a_move_at_once_teaches_nothing)
{
        struct flow flow = { 0 };

        flow_add(&flow, WINDOW, false);
        for (int i = 0; i < 5; i++)
                flow_note_moved(&flow, CHUNK, flow.moved_us);
        assert_int_equal(flow.pause_us, 0);
}

TEST(a_transfer_stands_still_when_the_others_have_moved_two_windows)
{
        struct flow flow = { 0 };
        uint64_t begun = flow.moved;

        flow_add(&flow, WINDOW, false);
        for (int i = 0; i < 8; i++) {
                assert_false(flow_stands_still(&flow, begun, WINDOW, flow.moved_us));
                flow_note_moved(&flow, CHUNK, flow.moved_us + 1);
        }
        assert_true(flow_stands_still(&flow, begun, WINDOW, flow.moved_us));
        assert_false(flow_stands_still(&flow, flow.moved, WINDOW, flow.moved_us));
}

TEST(what_is_set_aside_leaves_the_window_and_comes_back)
{
        struct flow flow = { 0 };

        flow_add(&flow, 3 * CHUNK, false);
        flow_set_aside(&flow, 2 * CHUNK, true);
        assert_int_equal(flow.in_flight, CHUNK);
        assert_int_equal(flow.aside, 2 * CHUNK);
        flow_remove(&flow, CHUNK, true);
        flow_set_aside(&flow, CHUNK, false);
        assert_int_equal(flow.in_flight, 2 * CHUNK);
        assert_int_equal(flow.aside, 0);
        flow_remove(&flow, 2 * CHUNK, false);
        assert_int_equal(flow.in_flight, 0);
}

TEST(no_more_than_so_many_windows_are_set_aside)
{
        struct flow flow = { 0 };

        for (int i = 0; i < FLOW_ASIDE_MAX; i++) {
                assert_true(flow_may_set_aside(&flow, WINDOW, WINDOW));
                flow_add(&flow, WINDOW, false);
                flow_set_aside(&flow, WINDOW, true);
        }
        assert_false(flow_may_set_aside(&flow, 1, WINDOW));
}
