/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loop_probe.h"

static void close_end(void *fd)
{
        (void)close((int)(intptr_t)fd);
}

/* Two sockets joined to each other, which go with the test. */
static void pair_new(int pair[2])
{
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        for (int i = 0; i < 2; i++)
                (void)test_keep((void *)(intptr_t)pair[i], close_end);
}

static void endless_fired(struct loop_timer *timer)
{
        struct probe *probe = FERRY_CONTAINER_OF(timer, struct probe, timer);
        if (!atomic_load(&probe->fired))
                loop_timer_start(probe->loop, timer, 0);
        else
                sem_post(&probe->done);
}

WITH_LOOP(timer_that_is_always_due_does_not_starve_watches)
{
        struct probe *busy = probe_new(), *probe = probe_new();
        int pair[2];
        busy->timer.fired = endless_fired;
        loop_timer_start(loop, &busy->timer, 0);
        pair_new(pair);
        loop_watch_start(loop, &probe->watch, pair[0], EPOLLIN);
        assert_int_equal(write(pair[1], "x", 1), 1);
        wait_for(&probe->done);
        atomic_store(&busy->fired, 1);
        wait_for(&busy->done);
}

WITH_LOOP(watch_fires_once_with_its_events)
{
        struct probe *probe = probe_new();
        int pair[2];
        pair_new(pair);
        assert_int_equal(loop_watch_start(loop, &probe->watch, pair[0], EPOLLIN | EPOLLRDHUP), 0);
        assert_int_equal(write(pair[1], "x", 1), 1);
        wait_for(&probe->done);
        assert_true(probe->events & EPOLLIN);
        assert_int_equal(probe->watch.id, 0);
        assert_int_equal(write(pair[1], "y", 1), 1);
        loop_drain();
        assert_int_equal(probe->fired, 1);
        assert_false(loop_watch_stop(loop, &probe->watch));

        /* Watching the same descriptor again works, and tells that the other end left. */
        shutdown(pair[1], SHUT_WR);
        assert_int_equal(loop_watch_start(loop, &probe->watch, pair[0], EPOLLRDHUP), 0);
        wait_for(&probe->done);
        assert_true(probe->events & EPOLLRDHUP);
}

WITH_LOOP(stopped_watch_does_not_fire)
{
        struct probe *probe = probe_new();
        int pair[2];
        pair_new(pair);
        assert_int_equal(loop_watch_start(loop, &probe->watch, pair[0], EPOLLIN), 0);
        assert_int_equal(loop_watch_start(loop, &probe->watch, pair[0], EPOLLIN), -EBUSY);
        assert_true(loop_watch_stop(loop, &probe->watch));
        assert_int_equal(write(pair[1], "x", 1), 1);
        loop_drain();
        assert_int_equal(probe->fired, 0);
}

WITH_LOOP(watching_a_bad_descriptor_fails)
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

WITH_LOOP(stale_event_reaches_neither_the_stopped_watch_nor_the_next_of_that_number)
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
                loop_drain();
                assert_int_equal(stale.first.fired + stale.second.fired, 2 - stale.stopped);
                assert_int_equal(stale.fresh.fired, 0);
                if (stale.stopped)
                        assert_true(loop_watch_stop(loop, &stale.fresh.watch));
                for (size_t i = 0; i < 6; i++)
                        close(stale.pairs[i / 2][i % 2]);
        }
}

WITH_LOOP(callbacks_run_on_one_other_thread_that_takes_no_signals)
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

WITH_LOOP(free_forgets_what_is_armed)
{
        struct loop *own;
        struct probe *timer = probe_new(), *watch = probe_new();
        int pair[2];
        assert_int_equal(loop_new("a name longer than fits", &own), 0);
        pair_new(pair);
        loop_timer_start(own, &timer->timer, clock_now_us() + 3600 * (uint64_t)SECOND);
        loop_watch_start(own, &watch->watch, pair[0], EPOLLIN);
        assert_null(loop_free(own));
        assert_int_equal(timer->timer.slot, 0);
        assert_int_equal(watch->watch.id, 0);
        assert_int_equal(timer->fired + watch->fired, 0);
        assert_null(loop_free(NULL));
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
        loop_drain();
        for (size_t i = 0; i < TIMERS; i++)
                fired += probes[i].fired;
        close(pair[0]);
        close(pair[1]);
        return (void *)(armed - stopped - fired);
}

WITH_LOOP(threads_may_arm_and_stop_at_once)
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
