/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/util.h"

#include "unit.h"

enum { MS = 1000, SECOND = 1000000, PATIENCE_SECONDS = 20 };

/* A timer or watch of the test: counts how often it fired, and posts. */
struct probe {
        struct loop_timer timer;
        struct loop_watch watch;
        struct loop *loop;
        sem_t done;
        atomic_int fired;
        uint64_t fired_us;
        uint32_t events;
        int waits; /* how often the loops had gone to sleep when it fired */
        bool takes_signals;
        pthread_t thread;
};

static struct loop *loop;
static atomic_int waits;

/* The linker puts this before epoll_wait. */
int __real_epoll_wait(int fd, struct epoll_event *events, int n, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int n, int timeout);

int __wrap_epoll_wait(int fd, struct epoll_event *events, int n, int timeout)
{
        atomic_fetch_add(&waits, 1);
        return __real_epoll_wait(fd, events, n, timeout);
}

static int make_loop(void **state)
{
        return loop_new("test", &loop);
}

static int drop_loop(void **state)
{
        loop = loop_free(loop);
        return 0;
}

static void wait_for(sem_t *done)
{
        struct timespec limit;
        clock_gettime(CLOCK_REALTIME, &limit);
        limit.tv_sec += PATIENCE_SECONDS;
        int r;
        do {
                r = sem_timedwait(done, &limit);
        } while (r < 0 && errno == EINTR);
        assert_int_equal(r, 0);
}

static void probe_hit(struct probe *probe)
{
        probe->fired_us = clock_now_us();
        probe->thread = pthread_self();
        probe->waits = atomic_load(&waits);
        sigset_t mask;
        pthread_sigmask(SIG_SETMASK, NULL, &mask);
        probe->takes_signals = !sigismember(&mask, SIGTERM) || !sigismember(&mask, SIGINT);
        atomic_fetch_add(&probe->fired, 1);
        sem_post(&probe->done);
}

static void timer_fired(struct loop_timer *timer)
{
        probe_hit(FERRY_CONTAINER_OF(timer, struct probe, timer));
}

static void watch_fired(struct loop_watch *watch, uint32_t events)
{
        struct probe *probe = FERRY_CONTAINER_OF(watch, struct probe, watch);
        probe->events = events;
        probe_hit(probe);
}

static void probe_setup(struct probe *probe)
{
        memset(probe, 0, sizeof(*probe));
        probe->timer.fired = timer_fired;
        probe->watch.fired = watch_fired;
        probe->loop = loop;
        sem_init(&probe->done, 0, 0);
}

/* Until the end of the test. */
static struct probe *probe_new(void)
{
        struct probe *probe = test_keep(unit_alloc(sizeof(*probe)), free);

        probe_setup(probe);
        return probe;
}

/* Returns when the loop's thread has gone through all that was due before. */
static void loop_settle(void)
{
        struct probe *probe = probe_new();
        for (int i = 0; i < 2; i++) {
                assert_int_equal(loop_timer_start(loop, &probe->timer, 0), 0);
                wait_for(&probe->done);
        }
}

TEST_WITH(timer_fires_at_its_deadline_not_before, make_loop, drop_loop)
{
        struct probe *probe = probe_new();
        uint64_t deadline = clock_now_us() + 30 * MS + 300;
        assert_int_equal(loop_timer_start(loop, &probe->timer, deadline), 0);
        wait_for(&probe->done);
        assert_true(probe->fired_us >= deadline);
        assert_int_equal(probe->timer.slot, 0);
        assert_false(loop_timer_stop(loop, &probe->timer));
}

TEST_WITH(waiting_for_a_deadline_is_one_wait, make_loop, drop_loop)
{
        for (uint64_t i = 0; i < 20; i++) {
                struct probe *probe = probe_new();
                loop_settle();
                loop_timer_start(loop, &probe->timer, clock_now_us() + 3 * MS + 37 * i);
                /* The loop sleeps already, or is about to: one wait to be woken from, one for the deadline. */
                int before = atomic_load(&waits);
                wait_for(&probe->done);
                assert_in_range(probe->waits - before, 0, 2);
        }
}

TEST_WITH(past_deadline_fires_at_once, make_loop, drop_loop)
{
        struct probe *probe = probe_new();
        assert_int_equal(loop_timer_start(loop, &probe->timer, 1), 0);
        wait_for(&probe->done);
        assert_int_equal(probe->fired, 1);
}

TEST_WITH(stopped_timer_does_not_fire, make_loop, drop_loop)
{
        struct probe *stopped = probe_new(), *later = probe_new();
        uint64_t now = clock_now_us();
        loop_timer_start(loop, &stopped->timer, now + 50 * MS);
        loop_timer_start(loop, &later->timer, now + 60 * MS);
        assert_true(loop_timer_stop(loop, &stopped->timer));
        assert_false(loop_timer_stop(loop, &stopped->timer));
        wait_for(&later->done);
        assert_int_equal(stopped->fired, 0);
}

TEST_WITH(timer_moved_earlier_fires_earlier, make_loop, drop_loop)
{
        struct probe *probe = probe_new();
        loop_timer_start(loop, &probe->timer, clock_now_us() + 3600 * (uint64_t)SECOND);
        loop_settle();
        loop_timer_start(loop, &probe->timer, clock_now_us() + 5 * MS);
        wait_for(&probe->done);
        assert_int_equal(probe->fired, 1);
}

TEST_WITH(timer_moved_later_fires_once_and_later, make_loop, drop_loop)
{
        struct probe *probe = probe_new();
        uint64_t later = clock_now_us() + 60 * MS;
        loop_timer_start(loop, &probe->timer, clock_now_us() + 20 * MS);
        loop_timer_start(loop, &probe->timer, later);
        wait_for(&probe->done);
        assert_true(probe->fired_us >= later);
        loop_settle();
        assert_int_equal(probe->fired, 1);
}

TEST_WITH(extreme_deadlines_neither_fire_nor_spin, make_loop, drop_loop)
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
TEST_WITH(moving_a_timer_later_costs_no_wakeups, make_loop, drop_loop)
{
        struct probe *first = probe_new(), *moved = probe_new(), *end = probe_new();
        uint64_t now = clock_now_us();
        loop_timer_start(loop, &moved->timer, now + 3600 * (uint64_t)SECOND);
        loop_timer_start(loop, &end->timer, now + 100 * MS);
        loop_timer_start(loop, &first->timer, 0);
        wait_for(&first->done);
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

TEST_WITH(many_timers_fire_in_order_though_some_are_stopped_and_moved, make_loop, drop_loop)
{
        enum { COUNT = 2000 };
        static struct creation_order orders[COUNT];
        sem_t done;
        uint64_t last = 0, start = clock_now_us() + 100 * MS;
        atomic_int wrong = 0;
        size_t expected = 0;
        sem_init(&done, 0, 0);
        unsigned seed = 7;
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
        for (size_t i = 0; i < expected; i++)
                wait_for(&done);
        loop_settle();
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

TEST_WITH(callback_may_arm_its_timer_again, make_loop, drop_loop)
{
        struct probe *probe = probe_new();
        probe->timer.fired = rearm_fired;
        loop_timer_start(loop, &probe->timer, 0);
        wait_for(&probe->done);
        assert_int_equal(probe->fired, 100);
}

static void endless_fired(struct loop_timer *timer)
{
        struct probe *probe = FERRY_CONTAINER_OF(timer, struct probe, timer);
        if (!atomic_load(&probe->fired))
                loop_timer_start(probe->loop, timer, 0);
        else
                sem_post(&probe->done);
}

TEST_WITH(timer_that_is_always_due_does_not_starve_watches, make_loop, drop_loop)
{
        struct probe *busy = probe_new(), *probe = probe_new();
        int pair[2];
        busy->timer.fired = endless_fired;
        loop_timer_start(loop, &busy->timer, 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        loop_watch_start(loop, &probe->watch, pair[0], EPOLLIN);
        assert_int_equal(write(pair[1], "x", 1), 1);
        wait_for(&probe->done);
        atomic_store(&busy->fired, 1);
        wait_for(&busy->done);
        close(pair[0]);
        close(pair[1]);
}

TEST_WITH(watch_fires_once_with_its_events, make_loop, drop_loop)
{
        struct probe *probe = probe_new();
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        assert_int_equal(loop_watch_start(loop, &probe->watch, pair[0], EPOLLIN | EPOLLRDHUP), 0);
        assert_int_equal(write(pair[1], "x", 1), 1);
        wait_for(&probe->done);
        assert_true(probe->events & EPOLLIN);
        assert_int_equal(probe->watch.id, 0);
        assert_int_equal(write(pair[1], "y", 1), 1);
        loop_settle();
        assert_int_equal(probe->fired, 1);
        assert_false(loop_watch_stop(loop, &probe->watch));

        /* Watching the same descriptor again works, and tells that the other end left. */
        close(pair[1]);
        assert_int_equal(loop_watch_start(loop, &probe->watch, pair[0], EPOLLRDHUP), 0);
        wait_for(&probe->done);
        assert_true(probe->events & EPOLLRDHUP);
        close(pair[0]);
}

TEST_WITH(stopped_watch_does_not_fire, make_loop, drop_loop)
{
        struct probe *probe = probe_new();
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        assert_int_equal(loop_watch_start(loop, &probe->watch, pair[0], EPOLLIN), 0);
        assert_int_equal(loop_watch_start(loop, &probe->watch, pair[0], EPOLLIN), -EBUSY);
        assert_true(loop_watch_stop(loop, &probe->watch));
        assert_int_equal(write(pair[1], "x", 1), 1);
        loop_settle();
        assert_int_equal(probe->fired, 0);
        close(pair[0]);
        close(pair[1]);
}

TEST_WITH(watching_a_bad_descriptor_fails, make_loop, drop_loop)
{
        struct probe *probe = probe_new();
        assert_int_equal(loop_watch_start(loop, &probe->watch, -1, EPOLLIN), -EBADF);
        assert_false(loop_watch_stop(loop, &probe->watch));
        int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
        assert_int_equal(loop_watch_start(loop, &probe->watch, fd, EPOLLIN), -EPERM);
        assert_int_equal(probe->watch.id, 0);
        close(fd);
}

/* One at a time. */
static struct stale {
        struct probe first, second, fresh;
        int pairs[3][2];
        atomic_int stopped; /* how many stops of the other watch succeeded */
} stale;

/* Whichever fires first stops the other, closes its descriptor and watches a new one, which gets the same number. */
static void stale_fired(struct loop_watch *watch, uint32_t events)
{
        struct probe *probe = FERRY_CONTAINER_OF(watch, struct probe, watch);
        bool is_first = probe == &stale.first;
        struct probe *other = is_first ? &stale.second : &stale.first;
        atomic_fetch_add(&probe->fired, 1);
        if (loop_watch_stop(loop, &other->watch)) {
                atomic_fetch_add(&stale.stopped, 1);
                int number = stale.pairs[is_first ? 1 : 0][0];
                assert_int_equal(dup2(stale.pairs[2][0], number), number);
                loop_watch_start(loop, &stale.fresh.watch, number, EPOLLIN);
        }
        sem_post(&probe->done);
}

TEST_WITH(stale_event_reaches_neither_the_stopped_watch_nor_the_next_of_that_number, make_loop, drop_loop)
{
        for (int round = 0; round < 200; round++) {
                stale = (struct stale){ .stopped = 0 };
                probe_setup(&stale.first);
                probe_setup(&stale.second);
                probe_setup(&stale.fresh);
                stale.first.watch.fired = stale.second.watch.fired = stale_fired;
                for (size_t i = 0; i < 3; i++)
                        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, stale.pairs[i]), 0);
                /* Both are ready before they are watched, so that mostly one epoll_wait fetches both. */
                assert_int_equal(write(stale.pairs[0][1], "x", 1) + write(stale.pairs[1][1], "x", 1), 2);
                loop_watch_start(loop, &stale.first.watch, stale.pairs[0][0], EPOLLIN);
                loop_watch_start(loop, &stale.second.watch, stale.pairs[1][0], EPOLLIN);
                loop_settle();
                assert_int_equal(stale.first.fired + stale.second.fired, 2 - stale.stopped);
                assert_int_equal(stale.fresh.fired, 0);
                if (stale.stopped)
                        assert_true(loop_watch_stop(loop, &stale.fresh.watch));
                for (size_t i = 0; i < 6; i++)
                        close(stale.pairs[i / 2][i % 2]);
        }
}

TEST_WITH(callbacks_run_on_one_other_thread_that_takes_no_signals, make_loop, drop_loop)
{
        struct probe *first = probe_new(), *second = probe_new();
        loop_timer_start(loop, &first->timer, 0);
        loop_timer_start(loop, &second->timer, 0);
        wait_for(&first->done);
        wait_for(&second->done);
        assert_true(pthread_equal(first->thread, second->thread));
        assert_false(pthread_equal(first->thread, pthread_self()));
        char name[32];
        assert_int_equal(pthread_getname_np(first->thread, name, sizeof(name)), 0);
        assert_string_equal(name, "test");
        assert_false(first->takes_signals);
        sigset_t mask;
        pthread_sigmask(SIG_SETMASK, NULL, &mask);
        assert_false(sigismember(&mask, SIGTERM));
}

TEST_WITH(free_forgets_what_is_armed, make_loop, drop_loop)
{
        struct loop *own;
        struct probe *timer = probe_new(), *watch = probe_new();
        int pair[2];
        assert_int_equal(loop_new("a name longer than fits", &own), 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        loop_timer_start(own, &timer->timer, clock_now_us() + 3600 * (uint64_t)SECOND);
        loop_watch_start(own, &watch->watch, pair[0], EPOLLIN);
        assert_null(loop_free(own));
        assert_int_equal(timer->timer.slot, 0);
        assert_int_equal(watch->watch.id, 0);
        assert_int_equal(timer->fired + watch->fired, 0);
        assert_null(loop_free(NULL));
        close(pair[0]);
        close(pair[1]);
}

/* Arms, moves and stops timers of its own; each arming must end in exactly one of fired and stopped. */
static void *torment(void *argument)
{
        enum { TIMERS = 16, ROUNDS = 3000 };
        static _Thread_local struct probe probes[TIMERS];
        unsigned seed = (unsigned)(uintptr_t)argument;
        intptr_t stopped = 0, armed = 0, fired = 0;
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 || write(pair[1], "x", 1) != 1)
                return (void *)1;
        for (size_t i = 0; i < TIMERS; i++)
                probe_setup(&probes[i]);
        for (int i = 0; i < ROUNDS; i++) {
                struct probe *probe = &probes[rand_r(&seed) % TIMERS];
                bool as_watch = probe == &probes[0];
                bool was = as_watch ? loop_watch_stop(loop, &probe->watch) : loop_timer_stop(loop, &probe->timer);
                stopped += was;
                if (as_watch ? loop_watch_start(loop, &probe->watch, pair[0], EPOLLIN) == 0
                             : loop_timer_start(loop, &probe->timer,
                                                clock_now_us() + (uint64_t)(rand_r(&seed) % 200)) == 0)
                        armed++;
        }
        for (size_t i = 0; i < TIMERS; i++)
                stopped += i == 0 ? loop_watch_stop(loop, &probes[i].watch) : loop_timer_stop(loop, &probes[i].timer);
        loop_settle();
        for (size_t i = 0; i < TIMERS; i++)
                fired += probes[i].fired;
        close(pair[0]);
        close(pair[1]);
        return (void *)(armed - stopped - fired);
}

TEST_WITH(threads_may_arm_and_stop_at_once, make_loop, drop_loop)
{
        pthread_t threads[4];
        for (uintptr_t i = 0; i < 4; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, torment, (void *)(i + 1)), 0);
        for (size_t i = 0; i < 4; i++) {
                void *lost;
                pthread_join(threads[i], &lost);
                assert_int_equal((intptr_t)lost, 0);
        }
}
