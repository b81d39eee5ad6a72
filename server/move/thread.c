/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "base/util.h"
#include "engine_internal.h"
#include "session.h"

/*
 * The engine's own thread: runs rounds as long as something moves, spins for spin_us after that, then sleeps until an
 * event of a transport, a command or a deadline. It holds the progress lock but while it sleeps or yields. It ends
 * after a STOP, when all transfers have, or when the grace time is over, twice: once for them to end, once after the
 * links were failed.
 *
 * Descriptors: epoll_fd has the eventfd of commands and each transport's descriptor, the latter with EPOLLONESHOT, so
 * that they are silent while the engine runs (set_listening in progress_lock.c).
 */

static void clear_wake(struct engine *engine)
{
        eventfd_t count;

        (void)eventfd_read(engine->wake_fd, &count);
}

/* Releases the progress lock meanwhile, so that transfers may run inline. */
static void sleep_until_event(struct engine *engine, uint64_t now_us)
{
        struct epoll_event events[8];
        uint64_t until_us = round_deadline(engine, now_us);
        int n;

        engine->sleep_until_us = until_us;
        progress_unlock(engine);
        n = epoll_wait(engine->epoll_fd, events, (int)FERRY_ARRAY_SIZE(events), clock_ms_until(until_us, now_us));
        progress_lock(engine);
        engine->sleep_until_us = 0;
        engine->woke_us = clock_now_us();
        metric_add(engine->metric_wakes, n > 0);
        for (int i = 0; i < n; i++) {
                if (events[i].data.fd == engine->wake_fd)
                        clear_wake(engine);
                else
                        engine->listening = false; /* EPOLLONESHOT */
        }
}

/*
 * Yields before the next poll: where cores are short, the peer that the engine waits for may need this core. If another
 * thread did run, bulk transfers stop spinning: the kernel moves a thread to an idle core when it wakes up, but leaves
 * two threads that never sleep on one core for tens of milliseconds, which halves the rate of bulk. Small operations,
 * where HTTP threads share the core, go on spinning.
 */
static void spin(struct engine *engine)
{
        uint64_t before_us = clock_now_us();

        progress_unlock(engine);
        (void)sched_yield();
        progress_lock(engine);
        engine->core_contended = clock_now_us() >= before_us + ENGINE_CROWDED_US;
}

/* A transport can make no progress and cannot be armed, and no event will tell when it can: polls at an interval. */
static void sleep_blocked(struct engine *engine)
{
        struct pollfd command = { .fd = engine->wake_fd, .events = POLLIN };

        progress_unlock(engine);
        if (poll(&command, 1, ENGINE_BLOCKED_MS) > 0)
                clear_wake(engine);
        progress_lock(engine);
}

/* Whether all has ended, or the grace time has passed twice: after the first the links are closed by force. */
static bool stop_is_over(struct engine *engine, uint64_t now_us)
{
        struct session *session;

        if (!round_is_moving(engine))
                return true;
        if (now_us < engine->stop_deadline_us)
                return false;
        if (engine->stop_forced)
                return true;
        DL_FOREACH (engine->all_sessions, session)
                session_fail(session, FERRY_E_PEER_LOST, "the worker is shutting down");
        engine->stop_forced = true;
        engine->stop_deadline_us = now_us + engine->grace_us;
        return false;
}

/* Whether to go on spinning after a round in which nothing moved. */
static bool must_spin(const struct engine *engine, uint64_t now_us)
{
        if (round_is_pending(engine) || engine->stopping)
                return true;
        return now_us < engine->traffic_us + engine->spin_us &&
               !(engine->core_contended && now_us < engine->bulk_us + engine->spin_us);
}

static void *run(void *context)
{
        struct engine *engine = context;
        uint64_t now_us;

        progress_lock(engine);
        for (;;) {
                bool moved = round_run(engine, &now_us);

                if (engine->stopping && stop_is_over(engine, now_us))
                        break;
                if (moved) {
                        engine->traffic_us = now_us;
                        engine->core_contended = false;
                } else if (must_spin(engine, now_us)) {
                        spin(engine);
                } else if (!progress_arm(engine)) {
                        if (now_us >= engine->traffic_us + ENGINE_BLOCKED_US &&
                            now_us >= engine->woke_us + ENGINE_BLOCKED_US)
                                sleep_blocked(engine);
                        else
                                spin(engine);
                } else if (!atomic_load(&engine->commands_waiting)) {
                        sleep_until_event(engine, now_us);
                }
        }
        for (size_t i = 0; i < engine->n_transports; i++)
                engine->transports[i]->ops->shut_down(engine->transports[i], clock_now_us() + engine->grace_us);
        (void)round_run(engine, &now_us); /* ends the remaining transfers */
        engine->ended = true;
        progress_unlock(engine);
        return NULL;
}

static int watch(struct engine *engine, int fd, uint32_t events)
{
        struct epoll_event event = { .events = events, .data.fd = fd };

        return epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int thread_start(struct engine *engine)
{
        int r = watch(engine, engine->wake_fd, EPOLLIN);

        for (size_t i = 0; i < engine->n_transports && r == 0; i++)
                r = watch(engine, engine->transports[i]->fd, EPOLLONESHOT);
        return r < 0 ? r : thread_new("ferry-engine", run, engine, &engine->thread);
}
