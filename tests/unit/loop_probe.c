/* SPDX-License-Identifier: Apache-2.0 */
#include "loop_probe.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <time.h>

enum { PATIENCE_SECONDS = 20 };

struct loop *loop;
atomic_int loop_waits;

/* The linker puts this before epoll_wait. */
int __real_epoll_wait(int fd, struct epoll_event *events, int n, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int n, int timeout);

int __wrap_epoll_wait(int fd, struct epoll_event *events, int n, int timeout)
{
        atomic_fetch_add(&loop_waits, 1);
        return __real_epoll_wait(fd, events, n, timeout);
}

int loop_setup(void **state)
{
        return loop_new("test", &loop);
}

int loop_teardown(void **state)
{
        loop = loop_free(loop);
        return 0;
}

void wait_for(sem_t *done)
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

void probe_setup(struct probe *probe)
{
        memset(probe, 0, sizeof(*probe));
        probe->timer.fired = timer_fired;
        probe->watch.fired = watch_fired;
        probe->loop = loop;
        sem_init(&probe->done, 0, 0);
}

struct probe *probe_new(void)
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

void loop_hold(void)
{
        static struct loop_timer timer;

        timer = (struct loop_timer){ .fired = hold_fired };
        sem_init(&held, 0, 0);
        sem_init(&released, 0, 0);
        assert_int_equal(loop_timer_start(loop, &timer, 0), 0);
        wait_for(&held);
}

void loop_release(void)
{
        sem_post(&released);
}

void loop_drain(void)
{
        struct probe *probe = probe_new();
        for (int i = 0; i < 2; i++) {
                assert_int_equal(loop_timer_start(loop, &probe->timer, 0), 0);
                wait_for(&probe->done);
        }
}
