/* SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "fabric_internal.h"

/*
 * Whose turn it is. One thread at a time runs the data plane: the fabric's own, which lets go of the turn while it
 * sleeps and whenever it looks again, or a guest: the thread that starts a short transfer and would have to wait for
 * its end. To hand a transfer of 4 KiB over and to hear of its end takes two changes of thread, 10 to 40 us where cores
 * are short; the transfer itself 5.
 *
 * A guest leaves things as it found them: when the fabric's thread sleeps, everything that would wake it still does.
 */

enum {
        GUEST_BYTES_MAX = 256 << 10, /* longer transfers are not worth it */
        GUEST_PART = 5,              /* of --spin-us: a guest's thread has others to serve */
        GUEST_TRIES = 16,            /* to get the turn, while the fabric's thread looks again */
        GUEST_SKIPS = 16,            /* after one that left before the end: peers are far, or busy */
        GUEST_ARMS = 4,
        TAKE_TRIES = 256, /* a guest is there for as long as that; waking up would take another core's time */
};

static bool turn_try(struct fabric *fabric, unsigned tries)
{
        for (unsigned i = 0; i < tries; i++) {
                if (pthread_mutex_trylock(&fabric->turn) == 0)
                        return true;
                (void)sched_yield();
        }
        return false;
}

void turn_take(struct fabric *fabric)
{
        if (!turn_try(fabric, TAKE_TRIES))
                (void)pthread_mutex_lock(&fabric->turn);
}

void turn_leave(struct fabric *fabric)
{
        (void)pthread_mutex_unlock(&fabric->turn);
}

/* Whether messages wake the fabric's thread. */
static void set_listening(struct fabric *fabric, bool on)
{
        for (int i = 0; i < SIDE_COUNT; i++) {
                struct side *side = &fabric->sides[i];
                struct epoll_event event = { .events = EPOLLONESHOT | (on ? (uint32_t)EPOLLIN : 0u),
                                             .data.fd = side->event_fd };

                if (side->worker)
                        (void)epoll_ctl(fabric->epoll_fd, EPOLL_CTL_MOD, side->event_fd, &event);
        }
        fabric->listening = on;
}

bool turn_arm(struct fabric *fabric)
{
        for (int i = 0; i < SIDE_COUNT; i++)
                if (fabric->sides[i].worker && ucp_worker_arm(fabric->sides[i].worker) != UCS_OK)
                        return false;
        if (!fabric->listening)
                set_listening(fabric, true);
        return true;
}

/* ---- guests ---- */

static bool is_over(const struct fabric *fabric, uint64_t transfer)
{
        struct transfer *t;

        HASH_FIND(hh, fabric->transfers_by_id, &transfer, sizeof(transfer), t);
        return !t;
}

/* Whether the fabric's thread may go on sleeping; then it hears of whatever comes. */
static bool may_sleep_on(struct fabric *fabric, uint64_t now_us)
{
        for (int i = 0; i < GUEST_ARMS; i++) {
                if (thread_is_moving(fabric) || fabric->sweep_wanted || fabric->ready_peers ||
                    atomic_load(&fabric->commands_waiting))
                        return false;
                if (turn_arm(fabric))
                        return thread_sleep_until(fabric, now_us) >= fabric->sleep_until_us;
                (void)thread_pass(fabric, &now_us);
        }
        return false;
}

/* Leaves when the fabric's thread is called: a command may take as long as pinning memory does. */
static void run_as_guest(struct fabric *fabric, uint64_t transfer)
{
        uint64_t now_us = clock_now_us();
        uint64_t until_us = now_us + fabric->spin_us / GUEST_PART;
        bool over = false;

        if (fabric->listening)
                set_listening(fabric, false);
        while (!over && now_us < until_us && !atomic_load(&fabric->commands_told)) {
                bool moved = thread_pass(fabric, &now_us);

                over = is_over(fabric, transfer);
                if (!moved && !over)
                        (void)sched_yield(); /* the peer may be waiting for this core */
        }
        if (!over && now_us >= until_us)
                atomic_store_explicit(&fabric->guest_skips, GUEST_SKIPS, memory_order_relaxed);
        if (fabric->sleep_until_us && !may_sleep_on(fabric, now_us)) {
                fabric->traffic_us = now_us;
                thread_wake(fabric);
        }
}

/* Whether it is worth a try. Several at once may miscount, which does not matter. */
static bool guest_is_welcome(struct fabric *fabric, const struct transfer *t)
{
        unsigned skips = atomic_load_explicit(&fabric->guest_skips, memory_order_relaxed);

        if (t->spec.total > GUEST_BYTES_MAX || fabric->spin_us < GUEST_PART)
                return false;
        if (skips > 0)
                atomic_store_explicit(&fabric->guest_skips, skips - 1, memory_order_relaxed);
        return skips == 0;
}

int turn_start(struct fabric *fabric, const struct command *command)
{
        uint64_t transfer = command->transfer->spec.id;
        int r;

        if (!guest_is_welcome(fabric, command->transfer))
                return command_post(fabric, command);
        r = command_post_unheard(fabric, command);
        if (r < 0)
                return r;
        if (!turn_try(fabric, GUEST_TRIES)) {
                thread_wake(fabric);
                return 0;
        }
        if (!fabric->ended)
                run_as_guest(fabric, transfer);
        turn_leave(fabric);
        return 0;
}
