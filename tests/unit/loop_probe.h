/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOOP_PROBE_H
#define LOOP_PROBE_H

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <time.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/util.h"
#include "unit.h"

enum { MS = 1000, SECOND = 1000000 };

/* A test with a loop of its own. */
#define WITH_LOOP(name) TEST_WITH(name, loop_setup, loop_teardown)

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

enum { PATIENCE_SECONDS = 20 };

static struct loop *loop;
static atomic_int loop_waits;

/* The linker puts this before epoll_wait. */
int __real_epoll_wait(int fd, struct epoll_event *events, int n, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int n, int timeout);

int __wrap_epoll_wait(int fd, struct epoll_event *events, int n, int timeout)
{
        atomic_fetch_add(&loop_waits, 1);
        return __real_epoll_wait(fd, events, n, timeout);
}

static inline int loop_setup(void **state)
{
        return loop_new("test", &loop);
}

static inline int loop_teardown(void **state)
{
        loop = loop_free(loop);
        return 0;
}

static inline void wait_for(sem_t *done)
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
        probe->waits = atomic_load(&loop_waits);
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

/* In the caller's memory. */
static inline void probe_setup(struct probe *probe)
{
        memset(probe, 0, sizeof(*probe));
        probe->timer.fired = timer_fired;
        probe->watch.fired = watch_fired;
        probe->loop = loop;
        sem_init(&probe->done, 0, 0);
}

/* Until the end of the test. */
static inline struct probe *probe_new(void)
{
        struct probe *probe = test_keep(unit_alloc(sizeof(*probe)), free);

        probe_setup(probe);
        return probe;
}

static sem_t held, released;

static void hold_fired(struct loop_timer *timer)
{
        sem_post(&held);
        wait_for(&released);
}

/* Keeps the loop's thread in a callback, so that nothing fires however long the test takes; lets it go. */
static inline void loop_hold(void)
{
        static struct loop_timer timer;

        timer = (struct loop_timer){ .fired = hold_fired };
        sem_init(&held, 0, 0);
        sem_init(&released, 0, 0);
        assert_int_equal(loop_timer_start(loop, &timer, 0), 0);
        wait_for(&held);
}

static inline void loop_release(void)
{
        sem_post(&released);
}

/* Returns when the loop's thread has gone through all that was due before. */
static inline void loop_drain(void)
{
        struct probe *probe = probe_new();
        for (int i = 0; i < 2; i++) {
                assert_int_equal(loop_timer_start(loop, &probe->timer, 0), 0);
                wait_for(&probe->done);
        }
}

#endif
