/* SPDX-License-Identifier: Apache-2.0 */
#include "server_thread.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "http_internal.h"
#include "shard.h"

enum {
        EVENTS = 64,
        ACCEPT_AT_ONCE = 10, /* then others have their turn */
        RETRY_US = 100000,   /* between attempts to accept while memory or descriptors are short */
};

/* What epoll's data say: the event descriptor, then the listeners, then the shards. */
static const uint64_t event_id = 0;
static const uint64_t first_listener_id = 1;

static uint64_t first_shard_id(const struct http_thread *thread)
{
        return first_listener_id + thread->server->n_listeners;
}

static int watch(struct http_thread *thread, int fd, uint64_t id)
{
        struct epoll_event event = { .events = EPOLLIN, .data.u64 = id };

        return epoll_ctl(thread->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

void server_thread_has_room(struct http_thread *thread, size_t place)
{
        if (place < thread->first_room)
                thread->first_room = place;
}

static int add_shard(struct http_thread *thread)
{
        struct http_shard *shard;

        if (thread->n_shards == thread->shards_capacity) {
                size_t capacity = thread->shards_capacity ? 2 * thread->shards_capacity : 4;
                struct http_shard **shards = reallocarray(thread->shards, capacity, sizeof(struct http_shard *));
                if (!shards)
                        return -ENOMEM;
                thread->shards = shards;
                thread->shards_capacity = capacity;
        }
        int error = shard_new(thread, thread->server, &shard);
        if (error)
                return error;
        shard->place = thread->n_shards;
        error = watch(thread, shard_epoll_fd(shard), first_shard_id(thread) + shard->place);
        if (error) {
                shard_free(shard);
                return error;
        }
        thread->shards[thread->n_shards++] = shard;
        return 0;
}

/* A shard with room, a new one where there is none; NULL = not now. */
static struct http_shard *room(struct http_thread *thread)
{
        while (thread->first_room < thread->n_shards &&
               thread->shards[thread->first_room]->n_connections >= SHARD_CONNECTIONS)
                thread->first_room++;
        if (thread->first_room == thread->n_shards && add_shard(thread))
                return NULL;
        return thread->shards[thread->first_room];
}

/* ---- running shards ---- */

void server_thread_queue(struct http_thread *thread, struct http_shard *shard)
{
        if (atomic_exchange(&shard->queued, true))
                return; /* and it has not begun to run */
        struct http_shard *first = atomic_load(&thread->queued);
        do
                shard->next = first;
        while (!atomic_compare_exchange_weak(&thread->queued, &first, shard));
        if (atomic_exchange(&thread->asleep, false))
                (void)eventfd_write(thread->event_fd, 1);
}

/* Later activity only moves the time on: the sweep finds out. */
static void sweep_before(struct http_thread *thread, uint64_t due_us)
{
        if (due_us && (!thread->sweep_us || due_us < thread->sweep_us))
                thread->sweep_us = due_us;
}

static void run(struct http_thread *thread, struct http_shard *shard)
{
        int64_t ms = shard_run(shard);

        shard->due_us = ms > 0 ? clock_now_us() + (uint64_t)ms * 1000 : 0;
        if (!ms)
                server_thread_queue(thread, shard); /* after the others */
        else
                sweep_before(thread, shard->due_us);
}

/* ---- accepting ---- */

/* The connection stays in the queue: asking again at once would make a busy loop of it. */
static bool is_short(int error)
{
        return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static void pause_listening(struct http_thread *thread)
{
        thread->retry_us = clock_now_us() + RETRY_US;
}

static void take_connections(struct http_thread *thread, struct http_listener *listener)
{
        for (int i = 0; i < ACCEPT_AT_ONCE && thread->n_connections < thread->connections_max; i++) {
                struct sockaddr_storage address;
                socklen_t size = sizeof(address);
                struct http_shard *shard = room(thread);

                if (!shard) {
                        pause_listening(thread);
                        return;
                }
                int fd = accept4(listener->fd, (struct sockaddr *)&address, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
                if (fd < 0) {
                        if (is_short(errno))
                                pause_listening(thread);
                        return;
                }
                shard_add(shard, listener, fd, (struct sockaddr *)&address, size);
                run(thread, shard);
        }
}

/* Listens, or not, as there is room: at the limit, clients wait in the kernel's queue. */
static void listen_or_not(struct http_thread *thread)
{
        struct http_server *server = thread->server;

        if (thread->retry_us && clock_now_us() >= thread->retry_us)
                thread->retry_us = 0;
        bool wanted = thread->n_connections < thread->connections_max && !thread->retry_us;
        if (wanted == thread->listening)
                return;
        for (size_t i = 0; i < server->n_listeners; i++) {
                int fd = server->listeners[i].fd;
                if (!wanted) {
                        (void)epoll_ctl(thread->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
                } else if (watch(thread, fd, first_listener_id + i) < 0) {
                        while (i-- > 0)
                                (void)epoll_ctl(thread->epoll_fd, EPOLL_CTL_DEL, server->listeners[i].fd, NULL);
                        pause_listening(thread);
                        return;
                }
        }
        thread->listening = wanted;
}

/* ---- serving ---- */

static bool run_queued(struct http_thread *thread)
{
        struct http_shard *shard = atomic_exchange(&thread->queued, NULL);
        bool any = shard != NULL;

        while (shard) {
                struct http_shard *next = shard->next;
                atomic_store(&shard->queued, false);
                run(thread, shard);
                shard = next;
        }
        return any;
}

static void sweep(struct http_thread *thread)
{
        uint64_t now;

        if (!thread->sweep_us || (now = clock_now_us()) < thread->sweep_us)
                return;
        thread->sweep_us = 0;
        for (size_t i = 0; i < thread->n_shards; i++) {
                struct http_shard *shard = thread->shards[i];
                if (shard->due_us && shard->due_us <= now)
                        run(thread, shard);
                else
                        sweep_before(thread, shard->due_us);
        }
}

/* ms for epoll_wait, rounded up. */
static int time_left(const struct http_thread *thread)
{
        uint64_t until = thread->sweep_us;

        if (thread->retry_us && (!until || thread->retry_us < until))
                until = thread->retry_us;
        if (!until)
                return -1;
        uint64_t now = clock_now_us();
        if (until <= now)
                return 0;
        return until - now > (uint64_t)INT_MAX * 1000 ? INT_MAX : (int)((until - now + 999) / 1000);
}

static void deliver(struct http_thread *thread, uint64_t id)
{
        eventfd_t count;

        if (id >= first_shard_id(thread))
                run(thread, thread->shards[id - first_shard_id(thread)]);
        else if (id >= first_listener_id)
                take_connections(thread, &thread->server->listeners[id - first_listener_id]);
        else
                (void)eventfd_read(thread->event_fd, &count);
}

static bool is_called(struct http_thread *thread)
{
        return atomic_load(&thread->queued) != NULL || atomic_load(&thread->stopping);
}

/* The number of events; 0 = there is something else to do. */
static int sleep_until_event(struct http_thread *thread, struct epoll_event events[EVENTS])
{
        int n;

        /* Whoever queues now either is seen here or sees that it must signal. */
        atomic_store(&thread->asleep, true);
        n = epoll_wait(thread->epoll_fd, events, EVENTS, is_called(thread) ? 0 : time_left(thread));
        atomic_store(&thread->asleep, false);
        return n;
}

/*
 * Who was served asks again, and who is parked is woken, often sooner than a core wakes up that has gone to sleep (30
 * us on a virtual machine). So it looks for a while, and lets others run each time.
 */
static int wait_for_events(struct http_thread *thread, struct epoll_event events[EVENTS])
{
        uint64_t until = thread->busy_us + thread->server->config.spin_us;

        while (clock_now_us() < until) {
                int n = epoll_wait(thread->epoll_fd, events, EVENTS, 0);

                if (n > 0 || is_called(thread))
                        return n;
                (void)sched_yield();
        }
        return sleep_until_event(thread, events);
}

static void *server_thread_main(void *argument)
{
        struct http_thread *thread = argument;
        struct epoll_event events[EVENTS];

        while (!atomic_load(&thread->stopping)) {
                bool busy = run_queued(thread);

                sweep(thread);
                listen_or_not(thread);
                if (busy)
                        thread->busy_us = clock_now_us();
                int n = wait_for_events(thread, events);
                for (int i = 0; i < n; i++)
                        deliver(thread, events[i].data.u64);
                if (n > 0)
                        thread->busy_us = clock_now_us();
        }
        return NULL;
}

/* ---- life ---- */

int server_thread_new(struct http_server *server, size_t connections_max, struct http_thread **ret_thread)
{
        struct http_thread *thread = calloc(1, sizeof(*thread));
        int error = 0;

        if (!thread)
                return -ENOMEM;
        thread->server = server;
        thread->connections_max = connections_max;
        thread->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        thread->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (thread->epoll_fd < 0 || thread->event_fd < 0)
                error = -errno;
        if (!error)
                error = watch(thread, thread->event_fd, event_id);
        if (!error)
                error = add_shard(thread);
        if (error) {
                log_event(LOG_ERROR, "the HTTP server does not start", LOG_S("error", strerror(-error)));
                server_thread_free(thread);
                return error;
        }
        *ret_thread = thread;
        return 0;
}

int server_thread_start(struct http_thread *thread)
{
        sigset_t all, before;

        sigfillset(&all); /* signals belong to the program */
        pthread_sigmask(SIG_SETMASK, &all, &before);
        int error = pthread_create(&thread->thread, NULL, server_thread_main, thread);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (error)
                return -error;
        thread->started = true;
        (void)pthread_setname_np(thread->thread, "ferry-http");
        return 0;
}

void server_thread_stop(struct http_thread *thread)
{
        if (thread->started) {
                atomic_store(&thread->stopping, true);
                (void)eventfd_write(thread->event_fd, 1);
                pthread_join(thread->thread, NULL);
                thread->started = false;
        }
        for (size_t i = 0; i < thread->n_shards; i++)
                shard_stop(thread->shards[i]);
}

struct http_thread *server_thread_free(struct http_thread *thread)
{
        if (!thread)
                return NULL;
        server_thread_stop(thread);
        for (size_t i = 0; i < thread->n_shards; i++)
                shard_free(thread->shards[i]);
        free(thread->shards);
        cleanup_close(&thread->event_fd);
        cleanup_close(&thread->epoll_fd);
        free(thread);
        return NULL;
}
