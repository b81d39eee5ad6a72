/* SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "command.h"
#include "engine_internal.h"
#include "requester.h"

/*
 * The progress lock, and inline progress: who holds it may run the engine and call its transports (engine_internal.h
 * says why). The engine's thread holds it but while it sleeps or yields; other threads take it for a transfer that they
 * wait for, for at most spin_us / INLINE_PART, and for a deregistration for which there is no command: the engine was
 * told to stop, or memory is short.
 *
 * Before inline progress the events are switched off, so that the sleeping thread is not woken by what is handled here;
 * afterwards the transports are armed again, or the thread is woken to go on.
 */

enum {
        INLINE_BYTES_MAX = 256 << 10, /* longer transfers do not run inline */
        INLINE_PART = 5,              /* part of spin_us: the HTTP thread has other work */
        INLINE_TRIES = 16,            /* to take the lock while the engine's thread spins */
        INLINE_SKIPS = 16, /* transfers not run inline after one that did not end inline: the peer is far, or busy */
        INLINE_ARMS = 4,
        LOCK_TRIES = 256, /* about the time of inline progress; sleeping would cost a wake-up */
};

/* Yields between the tries: the holder may need this core to come to the end. */
static bool try_lock(struct engine *engine, unsigned tries)
{
        for (unsigned i = 0; i < tries; i++) {
                if (pthread_mutex_trylock(&engine->progress_lock) == 0)
                        return true;
                (void)sched_yield();
        }
        return false;
}

void progress_lock(struct engine *engine)
{
        if (!try_lock(engine, LOCK_TRIES))
                (void)pthread_mutex_lock(&engine->progress_lock);
}

void progress_unlock(struct engine *engine)
{
        (void)pthread_mutex_unlock(&engine->progress_lock);
}

/* Whether events wake the engine's thread. */
static void set_listening(struct engine *engine, bool on)
{
        for (size_t i = 0; i < engine->n_transports; i++) {
                int fd = engine->transports[i]->fd;
                struct epoll_event event = { .events = EPOLLONESHOT | (on ? (uint32_t)EPOLLIN : 0u), .data.fd = fd };

                (void)epoll_ctl(engine->epoll_fd, EPOLL_CTL_MOD, fd, &event);
        }
        engine->listening = on;
}

bool progress_arm(struct engine *engine)
{
        for (size_t i = 0; i < engine->n_transports; i++)
                if (!engine->transports[i]->ops->arm(engine->transports[i]))
                        return false;
        if (!engine->listening)
                set_listening(engine, true);
        return true;
}

/* ---- inline progress ---- */

/* Whether the engine's thread may go on sleeping; if so, events wake it. */
static bool may_sleep_on(struct engine *engine, uint64_t now_us)
{
        for (int i = 0; i < INLINE_ARMS; i++) {
                if (round_is_moving(engine) || round_is_pending(engine) || atomic_load(&engine->commands_waiting))
                        return false;
                if (progress_arm(engine))
                        return round_deadline(engine, now_us) >= engine->sleep_until_us;
                (void)round_run(engine, &now_us);
        }
        return false;
}

/* Stops at the next command, which may take long (pinning memory). */
static void run_inline(struct engine *engine, uint64_t id)
{
        uint64_t now_us = clock_now_us();
        uint64_t until_us = now_us + engine->spin_us / INLINE_PART;
        bool over = false;

        if (engine->listening)
                set_listening(engine, false);
        while (!over && now_us < until_us && !atomic_load(&engine->commands_told)) {
                bool moved = round_run(engine, &now_us);

                over = !requester_find(engine, id);
                if (!moved && !over)
                        (void)sched_yield(); /* the peer may need this core */
        }
        if (!over && now_us >= until_us)
                atomic_store_explicit(&engine->inline_skips, INLINE_SKIPS, memory_order_relaxed);
        if (engine->sleep_until_us && !may_sleep_on(engine, now_us)) {
                engine->traffic_us = now_us;
                engine_wake(engine);
        }
}

/* Whether to try inline progress. Concurrent calls may miscount, which is harmless. */
static bool is_worth_it(struct engine *engine, uint64_t total)
{
        unsigned skips = atomic_load_explicit(&engine->inline_skips, memory_order_relaxed);

        if (total > INLINE_BYTES_MAX || engine->spin_us < INLINE_PART)
                return false;
        if (skips > 0)
                atomic_store_explicit(&engine->inline_skips, skips - 1, memory_order_relaxed);
        return skips == 0;
}

int progress_start_inline(struct engine *engine, const struct command *command, uint64_t id, uint64_t total)
{
        int r;

        if (!is_worth_it(engine, total))
                return command_post(engine, command);
        r = command_post_unwoken(engine, command);
        if (r < 0)
                return r;
        if (!try_lock(engine, INLINE_TRIES)) {
                engine_wake(engine);
                return 0;
        }
        if (!engine->ended)
                run_inline(engine, id);
        progress_unlock(engine);
        return 0;
}
