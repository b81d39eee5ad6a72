/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "fabric_internal.h"

int thread_watch(struct fabric *fabric, int fd)
{
        struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

        return epoll_ctl(fabric->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int thread_watch_side(struct fabric *fabric, const struct side *side)
{
        struct epoll_event event = { .events = EPOLLONESHOT, .data.fd = side->event_fd };

        fabric->listening = false;
        return epoll_ctl(fabric->epoll_fd, EPOLL_CTL_ADD, side->event_fd, &event) < 0 ? -errno : 0;
}

void thread_unwatch(struct fabric *fabric, int fd)
{
        (void)epoll_ctl(fabric->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static bool progress(struct fabric *fabric)
{
        unsigned n = 0;

        for (int i = 0; i < SIDE_COUNT; i++) {
                struct side *side = &fabric->sides[i];
                unsigned here = side_progress(side);

                side->idle = here == 0;
                n += here;
        }
        return queue_flush(fabric) || n > 0;
}

bool thread_is_moving(const struct fabric *fabric)
{
        return fabric->transfers_by_id || fabric->attempts_by_transfer || fabric->connects;
}

/* Deadlines are looked at once a second, or when the next grace time is over. */
static void tick_before(struct fabric *fabric, uint64_t deadline_us, uint64_t now_us)
{
        if (deadline_us > now_us && deadline_us < fabric->tick_us)
                fabric->tick_us = deadline_us;
}

void thread_look_soon(struct fabric *fabric)
{
        uint64_t now_us = clock_now_us();

        tick_before(fabric, now_us + FABRIC_SOON_US, now_us);
}

uint64_t thread_grace(struct fabric *fabric)
{
        uint64_t now_us = clock_now_us(), deadline_us = now_us + fabric->grace_us;

        tick_before(fabric, deadline_us, now_us);
        return deadline_us;
}

static void tick(struct fabric *fabric, uint64_t now_us)
{
        struct transfer *t, *t_next;
        struct attempt *a, *a_next;

        if (now_us < fabric->tick_us)
                return;
        fabric->tick_us = now_us + FABRIC_TICK_MS * UINT64_C(1000);
        HASH_ITER (hh, fabric->transfers_by_id, t, t_next) {
                tick_before(fabric, t->grace_deadline_us, now_us);
                transfer_tick(t, now_us);
        }
        HASH_ITER (hh, fabric->attempts_by_transfer, a, a_next) {
                tick_before(fabric, a->grace_deadline_us, now_us);
                attempt_tick(a, now_us);
        }
        tick_before(fabric, connects_tick(fabric, now_us), now_us);
        peers_check_processes(fabric); /* a thread that is busy with other peers never sleeps to hear of it */
        peers_check_moved(fabric);
        peers_close_idle(fabric, now_us);
        mappings_drop_unused(&fabric->mappings, now_us > FABRIC_IDLE_US ? now_us - FABRIC_IDLE_US : 0);
}

/* Deadlines while something moves, idle endpoints else. */
uint64_t thread_sleep_until(const struct fabric *fabric, uint64_t now_us)
{
        if (fabric->sides[SIDE_LOCAL].ping_deadline_us)
                return now_us + FABRIC_PING_US;
        if (thread_is_moving(fabric))
                return fabric->tick_us > now_us ? fabric->tick_us : now_us;
        return fabric->peers_by_address || fabric->mappings.by_key ? now_us + FABRIC_IDLE_US : UINT64_MAX;
}

static void heard_wake(struct fabric *fabric)
{
        uint64_t count;

        (void)!read(fabric->wake_fd, &count, sizeof(count));
}

/* Not with the turn: a guest may have it meanwhile. */
static void sleep_until_event(struct fabric *fabric, uint64_t now_us)
{
        struct epoll_event events[8];
        uint64_t until_us = thread_sleep_until(fabric, now_us);
        int ms = until_us == UINT64_MAX ? -1 : (int)((until_us - now_us + 999) / 1000), n;
        bool peers = false;

        fabric->sleep_until_us = until_us;
        turn_leave(fabric);
        n = epoll_wait(fabric->epoll_fd, events, (int)FERRY_ARRAY_SIZE(events), ms);
        turn_take(fabric);
        fabric->sleep_until_us = 0;
        fabric->woke_us = clock_now_us();

        for (int i = 0; i < n; i++) {
                int fd = events[i].data.fd;

                if (fd == fabric->wake_fd)
                        heard_wake(fabric);
                else if (fd == fabric->sides[SIDE_LOCAL].event_fd || fd == fabric->sides[SIDE_NETWORK].event_fd)
                        fabric->listening = false;
                else
                        peers = true;
        }
        if (peers)
                peers_check_processes(fabric);
}

/*
 * Looks again at once, but lets others run first: where cores are short, what we wait for is a peer that waits for this
 * core, and shared memory moves nothing until it has it. When somebody did run, looking again ends: the kernel moves a
 * thread to an idle core when it wakes up, and leaves two that never sleep on one core for tens of milliseconds. For
 * bulk that costs half of the rate; small operations, in which HTTP's threads take the core in turn, are better off
 * without.
 */
static void look_again(struct fabric *fabric)
{
        uint64_t before_us = clock_now_us();

        turn_leave(fabric);
        (void)sched_yield();
        turn_take(fabric);
        fabric->crowded = clock_now_us() >= before_us + FABRIC_CROWDED_US;
}

/*
 * Messages wait for room in the queue of a local peer that takes none out. No event tells when it does, and UCX leaves
 * its event descriptors as they are until it can be armed: so look now and then.
 */
static void sleep_blocked(struct fabric *fabric)
{
        struct pollfd command = { .fd = fabric->wake_fd, .events = POLLIN };

        turn_leave(fabric);
        if (poll(&command, 1, FABRIC_BLOCKED_MS) > 0)
                heard_wake(fabric);
        turn_take(fabric);
        peers_check_processes(fabric);
}

/* Whether everything ended, or the grace for it is over and the endpoints were closed by force. */
static bool stop_is_over(struct fabric *fabric, uint64_t now_us, uint64_t *deadline_us, bool *forced)
{
        struct peer *peer;

        if (!thread_is_moving(fabric))
                return true;
        if (*deadline_us == 0)
                *deadline_us = now_us + fabric->grace_us;
        if (now_us < *deadline_us)
                return false;
        if (*forced)
                return true;
        DL_FOREACH (fabric->all_peers, peer)
                peer_fail(peer, FERRY_E_PEER_LOST, "the worker is shutting down");
        *forced = true;
        *deadline_us = now_us + fabric->grace_us;
        return false;
}

/* A peer that stands still in the middle of a copy keeps its own mapping of the memory; we are going. */
static void forsake_attempts(struct fabric *fabric)
{
        struct attempt *a, *next;

        HASH_ITER (hh, fabric->attempts_by_transfer, a, next)
                attempt_forsake(a);
}

/* After the messages, since who is woken may take this core: a peer that waits for our answer waits as long. */
static void settle(struct fabric *fabric)
{
        if (!fabric->unsettled)
                return;
        fabric->unsettled = false;
        if (fabric->operations.settle)
                fabric->operations.settle(fabric->operations.context);
}

bool thread_pass(struct fabric *fabric, uint64_t *ret_now_us)
{
        bool moved = commands_run(fabric);

        moved |= progress(fabric);
        settle(fabric); /* a piece takes its time */
        moved |= direct_pump(fabric);
        peers_sweep(fabric);
        *ret_now_us = clock_now_us();
        local_check(fabric, *ret_now_us);
        tick(fabric, *ret_now_us);
        settle(fabric);
        return moved;
}

/* Nothing moved just now. */
static bool must_look_again(const struct fabric *fabric, uint64_t now_us)
{
        if (fabric->sweep_wanted || fabric->ready_peers || fabric->stopping)
                return true;
        return now_us < fabric->traffic_us + fabric->spin_us &&
               !(fabric->crowded && now_us < fabric->bulk_us + fabric->spin_us);
}

static void *run(void *context)
{
        struct fabric *fabric = context;
        uint64_t stop_deadline_us = 0;
        bool forced = false;

        (void)pthread_setname_np(pthread_self(), "ferry-fabric");
        turn_take(fabric);
        for (;;) {
                uint64_t now_us;
                bool moved = thread_pass(fabric, &now_us);

                if (fabric->stopping && stop_is_over(fabric, now_us, &stop_deadline_us, &forced))
                        break;
                if (moved) {
                        fabric->traffic_us = now_us;
                        fabric->crowded = false;
                } else if (must_look_again(fabric, now_us)) {
                        look_again(fabric);
                } else if (!turn_arm(fabric)) {
                        if (now_us >= fabric->traffic_us + FABRIC_BLOCKED_US &&
                            now_us >= fabric->woke_us + FABRIC_BLOCKED_US)
                                sleep_blocked(fabric);
                        else
                                look_again(fabric);
                } else if (!atomic_load(&fabric->commands_waiting)) {
                        sleep_until_event(fabric, now_us);
                }
        }
        forsake_attempts(fabric);
        peers_close_all(fabric, clock_now_us() + fabric->grace_us);
        settle(fabric);
        fabric->ended = true;
        turn_leave(fabric);
        return NULL;
}

int thread_start(struct fabric *fabric)
{
        int r = thread_watch(fabric, fabric->wake_fd);

        for (int i = 0; i < SIDE_COUNT && r == 0; i++)
                if (fabric->sides[i].worker)
                        r = thread_watch_side(fabric, &fabric->sides[i]);
        return r < 0 ? r : -pthread_create(&fabric->thread, NULL, run, fabric);
}
