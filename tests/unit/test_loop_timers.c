/* SPDX-License-Identifier: Apache-2.0 */
#include "loop_probe.h"

WITH_LOOP(timer_fires_at_its_deadline_not_before)
{
        struct probe *probe = probe_new();
        uint64_t deadline = clock_now_us() + 30 * MS + 300;
        assert_int_equal(loop_timer_start(loop, &probe->timer, deadline), 0);
        wait_for(&probe->done);
        assert_true(probe->fired_us >= deadline);
        assert_int_equal(probe->timer.slot, 0);
        assert_false(loop_timer_stop(loop, &probe->timer));
}

WITH_LOOP(waiting_for_a_deadline_is_one_wait)
{
        for (uint64_t i = 0; i < 20; i++) {
                struct probe *probe = probe_new();
                loop_drain();
                /* The loop sleeps already, or is about to: one wait to be woken from, one for the deadline. */
                int before = atomic_load(&loop_waits);
                loop_timer_start(loop, &probe->timer, clock_now_us() + 3 * MS + 37 * i);
                wait_for(&probe->done);
                assert_in_range(probe->waits - before, 0, 2);
        }
}

WITH_LOOP(past_deadline_fires_at_once)
{
        struct probe *probe = probe_new();
        assert_int_equal(loop_timer_start(loop, &probe->timer, 1), 0);
        wait_for(&probe->done);
        assert_int_equal(probe->fired, 1);
}

WITH_LOOP(stopped_timer_does_not_fire)
{
        struct probe *stopped = probe_new(), *later = probe_new();
        uint64_t now = clock_now_us();
        loop_hold();
        loop_timer_start(loop, &stopped->timer, now + 50 * MS);
        loop_timer_start(loop, &later->timer, now + 60 * MS);
        assert_true(loop_timer_stop(loop, &stopped->timer));
        assert_false(loop_timer_stop(loop, &stopped->timer));
        loop_release();
        wait_for(&later->done);
        assert_int_equal(stopped->fired, 0);
}

WITH_LOOP(timer_moved_earlier_fires_earlier)
{
        struct probe *probe = probe_new();
        loop_timer_start(loop, &probe->timer, clock_now_us() + 3600 * (uint64_t)SECOND);
        loop_drain();
        loop_timer_start(loop, &probe->timer, clock_now_us() + 5 * MS);
        wait_for(&probe->done);
        assert_int_equal(probe->fired, 1);
}

WITH_LOOP(timer_moved_later_fires_once_and_later)
{
        struct probe *probe = probe_new();
        uint64_t later = clock_now_us() + 60 * MS;
        loop_hold();
        loop_timer_start(loop, &probe->timer, clock_now_us() + 20 * MS);
        loop_timer_start(loop, &probe->timer, later);
        loop_release();
        wait_for(&probe->done);
        assert_true(probe->fired_us >= later);
        loop_drain();
        assert_int_equal(probe->fired, 1);
}

WITH_LOOP(extreme_deadlines_neither_fire_nor_spin)
{
        struct probe *last = probe_new(), *first = probe_new(), *end = probe_new();
        loop_timer_start(loop, &last->timer, UINT64_MAX);
        loop_timer_start(loop, &first->timer, 0);
        wait_for(&first->done);
        loop_timer_start(loop, &end->timer, clock_now_us() + 50 * MS);
        wait_for(&end->done);
        assert_int_equal(last->fired, 0);
        assert_in_range(end->waits - first->waits, 1, 3);
        assert_true(loop_timer_stop(loop, &last->timer));
}

/* A stall limit moved on with each chunk must not wake the thread each time. */
WITH_LOOP(moving_a_timer_later_costs_no_wakeups)
{
        struct probe *first = probe_new(), *moved = probe_new(), *end = probe_new();
        uint64_t now = clock_now_us();
        loop_timer_start(loop, &moved->timer, now + 3600 * (uint64_t)SECOND);
        loop_timer_start(loop, &first->timer, 0);
        wait_for(&first->done);
        loop_timer_start(loop, &end->timer, clock_now_us() + 100 * MS); /* never in the same round as first */
        for (uint64_t i = 0; i < 10000; i++)
                loop_timer_start(loop, &moved->timer, now + 3600 * (uint64_t)SECOND + i);
        wait_for(&end->done);
        assert_in_range(end->waits - first->waits, 1, 3);
        assert_true(loop_timer_stop(loop, &moved->timer));
}

struct creation_order {
        struct loop_timer timer;
        uint64_t deadline_us;
        sem_t *done;
        uint64_t *last;
        atomic_int *wrong;
};

static void order_fired(struct loop_timer *timer)
{
        struct creation_order *order = FERRY_CONTAINER_OF(timer, struct creation_order, timer);
        if (order->deadline_us < *order->last)
                atomic_fetch_add(order->wrong, 1);
        *order->last = order->deadline_us;
        sem_post(order->done);
}

/* At some time within a millisecond of start. */
static void order_start(struct creation_order *order, uint64_t start, unsigned *seed)
{
        order->deadline_us = start + (uint64_t)(rand_r(seed) % 1000);
        loop_timer_start(loop, &order->timer, order->deadline_us);
}

WITH_LOOP(many_timers_fire_in_order_though_some_are_stopped_and_moved)
{
        enum { COUNT = 2000 };
        static struct creation_order orders[COUNT];
        sem_t done;
        uint64_t last = 0, start = clock_now_us() + 100 * MS;
        atomic_int wrong = 0;
        size_t expected = 0;
        sem_init(&done, 0, 0);
        unsigned seed = 7;
        loop_hold();
        for (size_t i = 0; i < COUNT; i++) {
                orders[i] = (struct creation_order){
                        .timer.fired = order_fired, .done = &done, .last = &last, .wrong = &wrong
                };
                order_start(&orders[i], start, &seed);
        }
        for (size_t i = 0; i < COUNT; i += 3)
                order_start(&orders[i], start, &seed);
        for (size_t i = 0; i < COUNT; i++)
                if (i % 5 != 0 || !loop_timer_stop(loop, &orders[i].timer))
                        expected++;
        loop_release();
        for (size_t i = 0; i < expected; i++)
                wait_for(&done);
        loop_drain();
        assert_int_equal(sem_trywait(&done), -1);
        assert_int_equal(wrong, 0);
}

static void rearm_fired(struct loop_timer *timer)
{
        struct probe *probe = FERRY_CONTAINER_OF(timer, struct probe, timer);
        if (atomic_fetch_add(&probe->fired, 1) < 99)
                loop_timer_start(probe->loop, timer, 0);
        else
                sem_post(&probe->done);
}

WITH_LOOP(callback_may_arm_its_timer_again)
{
        struct probe *probe = probe_new();
        probe->timer.fired = rearm_fired;
        loop_timer_start(loop, &probe->timer, 0);
        wait_for(&probe->done);
        assert_int_equal(probe->fired, 100);
}
