/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "fabric_internal.h"

/* ---- commands: any thread in, the fabric's thread out ---- */

static void wake(struct fabric *fabric)
{
        uint64_t one = 1;

        (void)!write(fabric->wake_fd, &one, sizeof(one));
}

static int enqueue(struct fabric *fabric, const struct command *command, struct command_reply *reply)
{
        struct command *copy = malloc(sizeof(*copy));
        bool was_waiting;

        if (!copy)
                return -ENOMEM;
        *copy = *command;
        copy->reply = reply;
        copy->next = NULL;

        (void)pthread_mutex_lock(&fabric->command_lock);
        if (fabric->closed) {
                (void)pthread_mutex_unlock(&fabric->command_lock);
                free(copy);
                return -ESHUTDOWN;
        }
        if (fabric->commands_last)
                fabric->commands_last->next = copy;
        else
                fabric->commands = copy;
        fabric->commands_last = copy;
        fabric->closed = command->type == COMMAND_STOP;
        was_waiting = atomic_exchange(&fabric->commands_waiting, true);
        if (!was_waiting)
                wake(fabric); /* under the lock: once its commands were taken nobody would take it back */
        (void)pthread_mutex_unlock(&fabric->command_lock);
        return 0;
}

int thread_post(struct fabric *fabric, const struct command *command)
{
        return enqueue(fabric, command, NULL);
}

int thread_call(struct fabric *fabric, const struct command *command)
{
        struct command_reply reply = { 0 };
        int r = enqueue(fabric, command, &reply);

        if (r < 0)
                return r;
        (void)pthread_mutex_lock(&fabric->command_lock);
        while (!reply.ready)
                (void)pthread_cond_wait(&fabric->command_done, &fabric->command_lock);
        (void)pthread_mutex_unlock(&fabric->command_lock);
        return reply.result;
}

static int register_memory(struct fabric *fabric, struct fabric_memory *memory)
{
        for (int i = 0; i < SIDE_COUNT; i++) {
                int r = 0;

                if (fabric->sides[i].worker)
                        r = side_register(&fabric->sides[i], memory->address, memory->size, &memory->handles[i]);
                if (r < 0)
                        return r;
        }
        return 0;
}

void memory_release(struct fabric *fabric, struct fabric_memory *memory)
{
        for (int i = 0; i < SIDE_COUNT; i++)
                if (memory->handles[i])
                        (void)ucp_mem_unmap(fabric->sides[i].context, memory->handles[i]);
}

static void cancel_transfer(struct fabric *fabric, const struct command *command)
{
        struct transfer *t;

        HASH_FIND(hh, fabric->transfers_by_id, &command->id, sizeof(command->id), t);
        if (t)
                transfer_cancel(t, command->reason, "");
}

static void revoke_attempts(struct fabric *fabric, const struct command *command)
{
        struct attempt *a, *next;

        HASH_ITER (hh, fabric->attempts_by_transfer, a, next)
                if (a->operation == command->id)
                        attempt_revoke(a, command->reason, command->wire_reason, "");
}

static void stop_all(struct fabric *fabric)
{
        struct transfer *t, *t_next;
        struct attempt *a, *a_next;

        fabric->stopping = true;
        connects_cancel(fabric);
        HASH_ITER (hh, fabric->transfers_by_id, t, t_next)
                transfer_cancel(t, FERRY_E_CANCELLED, "the worker is shutting down");
        HASH_ITER (hh, fabric->attempts_by_transfer, a, a_next)
                attempt_revoke(a, FERRY_E_CANCELLED, FERRY_E_CANCELLED_BY_PEER, "the worker is shutting down");
}

static int run_command(struct fabric *fabric, const struct command *command)
{
        switch (command->type) {
        case COMMAND_START:
                transfer_run(fabric, command->transfer);
                return 0;
        case COMMAND_CONNECT:
                connect_run(fabric, command->connect);
                return 0;
        case COMMAND_CANCEL:
                cancel_transfer(fabric, command);
                return 0;
        case COMMAND_REVOKE:
                revoke_attempts(fabric, command);
                return 0;
        case COMMAND_REGISTER:
                return register_memory(fabric, command->memory);
        case COMMAND_UNREGISTER:
                memory_forget(fabric, command->memory);
                memory_release(fabric, command->memory);
                return 0;
        case COMMAND_STOP:
                stop_all(fabric);
                return 0;
        }
        return -EINVAL;
}

static bool run_commands(struct fabric *fabric)
{
        struct command *list, *next;
        uint64_t count;

        if (!atomic_load_explicit(&fabric->commands_waiting, memory_order_acquire))
                return false;
        (void)pthread_mutex_lock(&fabric->command_lock);
        list = fabric->commands;
        fabric->commands = fabric->commands_last = NULL;
        atomic_store(&fabric->commands_waiting, false);
        (void)!read(fabric->wake_fd, &count, sizeof(count));
        (void)pthread_mutex_unlock(&fabric->command_lock);

        for (; list; list = next) {
                int result = run_command(fabric, list);

                next = list->next;
                if (list->reply) {
                        (void)pthread_mutex_lock(&fabric->command_lock);
                        list->reply->result = result;
                        list->reply->ready = true;
                        (void)pthread_cond_broadcast(&fabric->command_done);
                        (void)pthread_mutex_unlock(&fabric->command_lock);
                }
                free(list);
        }
        return true;
}

/* ---- the loop ---- */

int thread_watch(struct fabric *fabric, int fd)
{
        struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

        return epoll_ctl(fabric->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
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

static bool is_moving(const struct fabric *fabric)
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

/* true when every side is armed: its event descriptor will tell of whatever comes now. */
static bool arm(struct fabric *fabric)
{
        for (int i = 0; i < SIDE_COUNT; i++)
                if (fabric->sides[i].worker && ucp_worker_arm(fabric->sides[i].worker) != UCS_OK)
                        return false;
        return true;
}

/* How long nothing has to be looked at: deadlines while something moves, idle endpoints else. */
static int sleep_ms(const struct fabric *fabric, uint64_t now_us)
{
        if (fabric->sides[SIDE_LOCAL].ping_deadline_us)
                return FABRIC_PING_US / 1000;
        if (is_moving(fabric))
                return fabric->tick_us > now_us ? (int)((fabric->tick_us - now_us + 999) / 1000) : 0;
        return fabric->peers_by_address || fabric->mappings.by_key ? (int)(FABRIC_IDLE_US / 1000) : -1;
}

static void sleep_until_event(struct fabric *fabric, uint64_t now_us)
{
        struct epoll_event events[8];
        int n = epoll_wait(fabric->epoll_fd, events, (int)FERRY_ARRAY_SIZE(events), sleep_ms(fabric, now_us));

        for (int i = 0; i < n; i++) {
                int fd = events[i].data.fd;

                if (fd != fabric->wake_fd && fd != fabric->sides[SIDE_LOCAL].event_fd &&
                    fd != fabric->sides[SIDE_NETWORK].event_fd) {
                        peers_check_processes(fabric);
                        break;
                }
        }
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

        (void)sched_yield();
        fabric->crowded = clock_now_us() >= before_us + FABRIC_CROWDED_US;
}

/*
 * Messages wait for room in the queue of a local peer that takes none out. No event tells when it does, and UCX leaves
 * its event descriptors as they are until it can be armed: so look now and then.
 */
static void sleep_blocked(struct fabric *fabric)
{
        struct pollfd command = { .fd = fabric->wake_fd, .events = POLLIN };

        (void)poll(&command, 1, FABRIC_BLOCKED_MS);
        peers_check_processes(fabric);
}

/* Whether everything ended, or the grace for it is over and the endpoints were closed by force. */
static bool stop_is_over(struct fabric *fabric, uint64_t now_us, uint64_t *deadline_us, bool *forced)
{
        struct peer *peer;

        if (!is_moving(fabric))
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

static void *run(void *context)
{
        struct fabric *fabric = context;
        uint64_t stop_deadline_us = 0;
        bool forced = false;

        (void)pthread_setname_np(pthread_self(), "ferry-fabric");
        for (;;) {
                bool moved = run_commands(fabric);
                uint64_t now_us;

                moved |= progress(fabric);
                moved |= direct_pump(fabric);
                peers_sweep(fabric);
                now_us = clock_now_us();
                local_check(fabric, now_us);
                tick(fabric, now_us);
                if (fabric->stopping && stop_is_over(fabric, now_us, &stop_deadline_us, &forced))
                        break;
                if (moved) {
                        fabric->traffic_us = now_us;
                        fabric->crowded = false;
                        continue;
                }
                if (fabric->sweep_wanted || fabric->ready_peers || fabric->stopping ||
                    (now_us < fabric->traffic_us + fabric->spin_us &&
                     !(fabric->crowded && now_us < fabric->bulk_us + fabric->spin_us))) {
                        look_again(fabric);
                        continue;
                }
                if (!arm(fabric)) {
                        if (now_us >= fabric->traffic_us + FABRIC_BLOCKED_US)
                                sleep_blocked(fabric);
                        else
                                look_again(fabric);
                } else if (!atomic_load(&fabric->commands_waiting)) {
                        sleep_until_event(fabric, now_us);
                }
        }
        forsake_attempts(fabric);
        peers_close_all(fabric, clock_now_us() + fabric->grace_us);
        return NULL;
}

int thread_start(struct fabric *fabric)
{
        int r = thread_watch(fabric, fabric->wake_fd);

        for (int i = 0; i < SIDE_COUNT && r == 0; i++)
                if (fabric->sides[i].worker)
                        r = thread_watch(fabric, fabric->sides[i].event_fd);
        return r < 0 ? r : -pthread_create(&fabric->thread, NULL, run, fabric);
}
