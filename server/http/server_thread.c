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
#include "base/metrics.h"
#include "base/util.h"
#include "connection.h"
#include "credentials.h"
#include "http_internal.h"
#include "shard.h"

enum {
        EVENTS = 64,
        ACCEPT_AT_ONCE = 10, /* then others have their turn */
        RETRY_US = 100000,   /* between attempts to accept while memory, descriptors or connections are short */
        OTHERS_PART = 8,     /* of the connections, which one address cannot have */
};

/* What epoll's data say: the event descriptor, then the listeners, then the shards; a guest's are its address. */
static const uint64_t event_id = 0;
static const uint64_t first_listener_id = 1;
static const uint64_t guest_id = UINT64_C(1) << 63; /* no address has this bit */

static uint64_t first_shard_id(const struct http_thread *thread)
{
        return first_listener_id + thread->server->n_listeners;
}

static int watch(struct http_thread *thread, int fd, uint64_t id)
{
        struct epoll_event event = { .events = EPOLLIN, .data.u64 = id };

        return epoll_ctl(thread->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int server_thread_watch_guest(struct http_thread *thread, int fd, struct http_guest *guest)
{
        struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP | EPOLLET,
                                     .data.u64 = guest_id | (uint64_t)(uintptr_t)guest };

        return epoll_ctl(thread->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

void server_thread_enter(struct http_thread *thread)
{
        struct http_server *server = thread->server;

        thread->n_connections++;
        event_log_used(server->config.events, EVENT_LIMIT_CONNECTIONS, atomic_fetch_add(&server->n_connections, 1) + 1);
}

void server_thread_leave(struct http_thread *thread)
{
        struct http_server *server = thread->server;

        thread->n_connections--;
        thread->full_us = 0;
        event_log_used(server->config.events, EVENT_LIMIT_CONNECTIONS, atomic_fetch_sub(&server->n_connections, 1) - 1);
}

const struct http_credentials *server_thread_credentials(struct http_thread *thread)
{
        struct http_server *server = thread->server;

        if (thread->credentials && atomic_load(&server->n_reloads) == thread->n_reloads)
                return thread->credentials;
        pthread_mutex_lock(&server->credentials_lock);
        struct http_credentials *replaced = thread->credentials;
        thread->credentials = credentials_ref(server->credentials);
        thread->n_reloads = atomic_load(&server->n_reloads);
        pthread_mutex_unlock(&server->credentials_lock);
        credentials_unref(replaced);
        return thread->credentials;
}

static int watch_shard(struct http_thread *thread, const struct http_shard *shard)
{
        return watch(thread, shard_epoll_fd(shard), first_shard_id(thread) + shard->place);
}

static int add_shard(struct http_thread *thread, bool tls)
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
        int error = shard_new(thread, tls, &shard);
        if (error)
                return error;
        shard->place = thread->n_shards;
        error = watch_shard(thread, shard);
        if (error) {
                shard_free(shard);
                return error;
        }
        thread->shards[thread->n_shards++] = shard;
        return 0;
}

/* A shard with room, a new one where there is none; NULL = not now. One with an old certificate is let run empty. */
static struct http_shard *room(struct http_thread *thread, bool tls)
{
        const struct http_credentials *newest = server_thread_credentials(thread);

        for (size_t i = 0; i < thread->n_shards; i++) {
                struct http_shard *shard = thread->shards[i];
                if (shard->tls != tls || shard->n_connections >= SHARD_CONNECTIONS)
                        continue;
                if (!tls || shard->credentials == newest)
                        return shard;
                if (!shard->n_connections && !shard_renew(shard) && !watch_shard(thread, shard))
                        return shard;
        }
        return add_shard(thread, tls) ? NULL : thread->shards[thread->n_shards - 1];
}

/* ---- running shards ---- */

void server_thread_wake(struct http_thread *thread)
{
        if (atomic_exchange(&thread->asleep, false))
                (void)eventfd_write(thread->event_fd, 1);
}

void server_thread_queue(struct http_thread *thread, struct http_shard *shard)
{
        if (atomic_exchange(&shard->queued, true))
                return; /* and it has not begun to run */
        struct http_shard *first = atomic_load(&thread->queued);
        do
                shard->next = first;
        while (!atomic_compare_exchange_weak(&thread->queued, &first, shard));
        server_thread_wake(thread);
}

/* Later activity only moves the time on: the sweep finds out. */
static void sweep_before(struct http_thread *thread, uint64_t due_us)
{
        if (due_us && (!thread->sweep_us || due_us < thread->sweep_us))
                thread->sweep_us = due_us;
}

static void run(struct http_thread *thread, struct http_shard *shard, bool called)
{
        int64_t us = shard_run(shard, called);

        shard->due_us = us > 0 ? clock_now_us() + (uint64_t)us : 0;
        if (!us)
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

static bool has_room(const struct http_thread *thread)
{
        return thread->n_connections - thread->n_ending < thread->connections_max;
}

/* The connection that has been idle the longest and has shown no right to be there. NULL = none. */
static struct http_connection *idle_stranger(struct http_thread *thread)
{
        struct http_connection *oldest = NULL;

        for (size_t i = 0; i < thread->n_shards; i++) {
                struct http_connection *connection = thread->shards[i]->open;
                for (; connection; connection = connection->next)
                        if (connection_is_idle(connection) && !connection->trusted && !connection->ending &&
                            (!oldest || connection->since_us < oldest->since_us))
                                oldest = connection;
        }
        return oldest;
}

static size_t count_from(const struct http_thread *thread, uint64_t key)
{
        size_t n = gate_count(thread, key);

        for (size_t i = 0; i < thread->n_shards; i++) {
                const struct http_connection *connection = thread->shards[i]->open;
                for (; connection; connection = connection->next)
                        n += connection->key == key && !connection->ending;
        }
        return n;
}

size_t server_thread_share(size_t connections)
{
        return connections - (connections + OTHERS_PART - 1) / OTHERS_PART;
}

/* Whether other addresses would find no place any more. All of this machine count as others. */
static bool has_its_share(const struct http_thread *thread, const struct http_listener *listener,
                          const union http_address *address)
{
        size_t kept = thread->connections_max - server_thread_share(thread->connections_max);
        uint64_t key = listener->local ? 0 : address_key(address);

        return key && thread->n_connections + kept >= thread->connections_max &&
               count_from(thread, key) + kept >= thread->connections_max;
}

/* Of a Unix socket, whatever its file's mode has become. */
static bool is_same_user(int fd)
{
        struct ucred peer;
        socklen_t size = sizeof(peer);

        return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) && (peer.uid == geteuid() || !peer.uid);
}

/* false: nothing more is to be accepted now. */
static bool take_connection(struct http_thread *thread, struct http_listener *listener)
{
        struct http_guest *guest = has_room(thread) ? NULL : gate_victim(thread);
        struct http_connection *stranger = has_room(thread) || guest ? NULL : idle_stranger(thread);
        union http_address address = { 0 };
        socklen_t size = sizeof(address);

        if (!has_room(thread) && !guest && !stranger) {
                thread->full_us = clock_now_us() + RETRY_US;
                return false;
        }
        int fd = accept4(listener->fd, &address.base, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
                if (is_short(errno))
                        pause_listening(thread);
                return false;
        }
        if (listener->local && !is_same_user(fd)) {
                close(fd);
                return true;
        }
        if (has_its_share(thread, listener, &address)) {
                metric_add(thread->server->refused_address, 1);
                close(fd);
                return true;
        }
        if (guest)
                gate_evict(thread, guest);
        if (stranger) {
                metric_add(thread->server->evicted, 1);
                connection_end(stranger);
        }
        gate_take(thread, listener, fd, &address, size < sizeof(address) ? size : sizeof(address));
        return true;
}

static void take_connections(struct http_thread *thread, struct http_listener *listener)
{
        for (int i = 0; i < ACCEPT_AT_ONCE && take_connection(thread, listener); i++)
                ;
}

void server_thread_admit(struct http_thread *thread, struct http_listener *listener, int fd,
                         const union http_address *address, socklen_t size)
{
        struct http_shard *shard = room(thread, thread->server->tls && !listener->local);

        if (!shard) {
                close(fd);
                return;
        }
        shard_add(shard, listener, fd, address, size);
        run(thread, shard, true);
}

/* Listens, or not, as there is room: at the limit, clients wait in the kernel's queue. */
static void listen_or_not(struct http_thread *thread)
{
        struct http_server *server = thread->server;

        if (thread->retry_us && clock_now_us() >= thread->retry_us)
                thread->retry_us = 0;
        if (thread->full_us && clock_now_us() >= thread->full_us)
                thread->full_us = 0;
        bool wanted = !thread->retry_us && !thread->full_us;
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
                /*
                 * An exchange, not a store: whoever found the shard queued leaves what it has done to this run, which
                 * must see it. A store would not read the caller's mark, and on a weakly ordered processor what run()
                 * loads may then be older than the mark.
                 */
                (void)atomic_exchange(&shard->queued, false);
                run(thread, shard, true);
                shard = next;
        }
        return any;
}

/* 0 = never. */
static uint64_t sooner(uint64_t a, uint64_t b)
{
        return !a || (b && b < a) ? b : a;
}

static void sweep(struct http_thread *thread)
{
        uint64_t guests = gate_due(thread), now;

        gate_reap(thread);
        if ((!thread->sweep_us && !guests) || (now = clock_now_us()) < sooner(thread->sweep_us, guests))
                return;
        gate_sweep(thread, now);
        thread->sweep_us = 0;
        for (size_t i = 0; i < thread->n_shards; i++) {
                struct http_shard *shard = thread->shards[i];
                if (shard->due_us && shard->due_us <= now)
                        run(thread, shard, false);
                else
                        sweep_before(thread, shard->due_us);
        }
}

/* ms for epoll_wait, rounded up. */
static int time_left(const struct http_thread *thread)
{
        uint64_t until = sooner(sooner(thread->sweep_us, gate_due(thread)), sooner(thread->retry_us, thread->full_us));

        until = sooner(until, event_readers_due(thread));

        if (!until)
                return -1;
        uint64_t now = clock_now_us();
        if (until <= now)
                return 0;
        return until - now > (uint64_t)INT_MAX * 1000 ? INT_MAX : (int)((until - now + 999) / 1000);
}

static void deliver(struct http_thread *thread, const struct epoll_event *event)
{
        uint64_t id = event->data.u64;
        eventfd_t count;

        if (id & guest_id)
                gate_deliver(thread,
                             (struct http_guest *)(uintptr_t)(id & ~guest_id), // NOLINT(performance-no-int-to-ptr)
                             (event->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
        else if (id >= first_shard_id(thread))
                run(thread, thread->shards[id - first_shard_id(thread)], true);
        else if (id >= first_listener_id)
                take_connections(thread, &thread->server->listeners[id - first_listener_id]);
        else
                (void)eventfd_read(thread->event_fd, &count);
}

static bool is_called(struct http_thread *thread)
{
        return atomic_load(&thread->queued) != NULL || atomic_load(&thread->stopping) || event_readers_called(thread);
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
                event_readers_run(thread);
                listen_or_not(thread);
                if (busy)
                        thread->busy_us = clock_now_us();
                int n = wait_for_events(thread, events);
                for (int i = 0; i < n; i++)
                        deliver(thread, &events[i]);
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
                error = add_shard(thread, server->tls);
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
        gate_stop(thread);
        event_readers_end(thread);
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
        credentials_unref(thread->credentials);
        free(thread->shards);
        cleanup_close(&thread->event_fd);
        cleanup_close(&thread->epoll_fd);
        free(thread);
        return NULL;
}
