/* SPDX-License-Identifier: Apache-2.0 */
#include "flow.h"
#include "unit.h"

enum { CHUNK = 1 << 20, WINDOW = 4 * CHUNK, SECOND_US = 1000 * 1000 };

/* Whether a transfer that has moved when the flow last did stands still at that time. */
static bool stands_still(const struct flow *flow, uint64_t now_us)
{
        struct flow copy = *flow;
        struct flow_share share = { .bytes = CHUNK, .moved = flow->moved };

        return flow_set_aside(&copy, &share, false, WINDOW, now_us);
}

TEST(a_link_as_slow_as_it_was_does_not_stand_still)
{
        struct flow flow = { 0 };
        struct flow_share share = { 0 };
        uint64_t now_us, pause_us = 340 * 1000; /* of 4 MiB at 100 Mbit/s */

        flow_add(&flow, &share, 2 * CHUNK);
        now_us = flow.moved_us;
        assert_false(stands_still(&flow, now_us + pause_us)); /* it may be slow */
        for (int i = 0; i < 20; i++) {
                now_us += pause_us;
                assert_false(stands_still(&flow, now_us));
                (void)flow_note_moved(&flow, &share, CHUNK, now_us);
        }
        assert_false(stands_still(&flow, now_us + 2 * pause_us - 1));
        assert_true(stands_still(&flow, now_us + 2 * pause_us));
}

TEST(a_link_that_was_fast_stands_still_sooner)
{
        struct flow flow = { 0 };
        struct flow_share share = { 0 };
        uint64_t now_us;

        flow_add(&flow, &share, WINDOW);
        now_us = flow.moved_us;
        assert_true(stands_still(&flow, now_us + SECOND_US));
        for (int i = 0; i < 100; i++)
                (void)flow_note_moved(&flow, &share, CHUNK, now_us += 1000);
        assert_false(stands_still(&flow, now_us + SECOND_US / 10 - 1));
        assert_true(stands_still(&flow, now_us + SECOND_US / 10));
}

TEST(a_move_at_once_teaches_nothing)
{
        struct flow flow = { 0 };
        struct flow_share share = { 0 };

        flow_add(&flow, &share, WINDOW);
        for (int i = 0; i < 5; i++)
                (void)flow_note_moved(&flow, &share, CHUNK, flow.moved_us);
        assert_int_equal(flow.pause_us, 0);
}

TEST(a_transfer_stands_still_when_the_others_have_moved_two_windows)
{
        struct flow flow = { 0 };
        struct flow_share still = { 0 }, other = { 0 };

        flow_add(&flow, &still, CHUNK);
        flow_add(&flow, &other, WINDOW);
        for (int i = 0; i < 8; i++) {
                assert_false(flow_set_aside(&flow, &still, false, WINDOW, flow.moved_us));
                assert_false(flow_note_moved(&flow, &other, CHUNK, flow.moved_us + 1));
        }
        assert_false(flow_set_aside(&flow, &other, false, WINDOW, flow.moved_us));
        assert_true(flow_set_aside(&flow, &still, false, WINDOW, flow.moved_us));
        assert_false(flow_set_aside(&flow, &still, false, WINDOW, flow.moved_us)); /* it is */
}

TEST(what_is_set_aside_leaves_the_window_and_comes_back)
{
        struct flow flow = { 0 };
        struct flow_share still = { 0 }, other = { 0 };

        flow_add(&flow, &still, 2 * CHUNK);
        flow_add(&flow, &other, CHUNK);
        assert_true(flow_set_aside(&flow, &still, true, WINDOW, flow.moved_us));
        assert_int_equal(flow.in_flight, CHUNK);
        assert_int_equal(flow.aside, 2 * CHUNK);
        flow_remove(&flow, &still, CHUNK);
        assert_int_equal(flow.aside, CHUNK);
        assert_true(flow_note_moved(&flow, &still, 0, flow.moved_us));
        assert_int_equal(flow.in_flight, 2 * CHUNK);
        assert_int_equal(flow.aside, 0);
        flow_remove(&flow, &other, CHUNK);
        flow_remove(&flow, &still, CHUNK);
        assert_int_equal(flow.in_flight, 0);
}

TEST(what_ends_aside_begins_in_the_window)
{
        struct flow flow = { 0 };
        struct flow_share share = { 0 };

        flow_add(&flow, &share, CHUNK);
        assert_true(flow_set_aside(&flow, &share, true, WINDOW, flow.moved_us));
        flow_remove(&flow, &share, CHUNK);
        flow_add(&flow, &share, CHUNK);
        assert_int_equal(flow.in_flight, CHUNK);
        assert_int_equal(flow.aside, 0);
}

TEST(no_more_than_so_many_windows_are_set_aside)
{
        struct flow flow = { 0 };
        struct flow_share shares[FLOW_ASIDE_MAX] = { { 0 } }, last = { 0 };

        for (int i = 0; i < FLOW_ASIDE_MAX; i++) {
                flow_add(&flow, &shares[i], WINDOW);
                assert_true(flow_set_aside(&flow, &shares[i], true, WINDOW, flow.moved_us));
        }
        flow_add(&flow, &last, 1);
        assert_false(flow_set_aside(&flow, &last, true, WINDOW, flow.moved_us));
}
