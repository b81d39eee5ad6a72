/* SPDX-License-Identifier: Apache-2.0 */
#include "serve_internal.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "base/util.h"

/*
 * An HTTP thread: it accepts, lets the gate look at what comes, and runs its shards when their descriptors, their
 * deadlines or other threads (the run queue) ask for it. A connection stays with the thread that has accepted it, so
 * nothing of it needs a lock. When there is no room, the connection that has done nothing the longest makes some.
 *
 * Thread: its own, but for the functions that make, start, stop and free it.
 */

enum {
        EVENTS = 64,
        ACCEPT_AT_ONCE = 10, /* connections in a row; then the other events are handled */
        RETRY_US = 100000,   /* pause before accepting again, while that fails or connections are short */
        WARN_US = 10000000,  /* pause before the log says again that it fails */
};

/* Event data of epoll: the run queue, then the listeners, then the shards; the gate has its own (gate_owns). */
static const uint64_t queue_id = 0;
static const uint64_t first_listener_id = 1;

static int watch(struct http_thread *thread, int fd, uint64_t id)
{
        struct epoll_event event = { .events = EPOLLIN, .data.u64 = id };

        return epoll_ctl(thread->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

/* ---- running shards ---- */

/* Activity can only postpone a shard's deadline; sweep() takes the new one. */
static void run(struct http_thread *thread, struct http_shard *shard, bool called)
{
        int64_t us = shard_run(shard, called);

        shard->due_us = us > 0 ? clock_now_us() + (uint64_t)us : 0;
        if (!us)
                run_queue_add(&thread->owner.queue, &shard->run); /* it runs again, after the others */
        else
                thread->sweep_us = clock_earlier(thread->sweep_us, shard->due_us);
}

/* ---- accepting ---- */

/* Accepts nothing for RETRY_US. */
static void pause_listening(struct http_thread *thread)
{
        thread->retry_us = clock_now_us() + RETRY_US;
}

/* The connection stays in the kernel's queue, so that calling accept() again at once would be a busy loop. */
static void accept_failed(struct http_thread *thread, int error)
{
        pause_listening(thread);
        if (thread->retry_us < thread->warn_us)
                return;
        thread->warn_us = thread->retry_us + WARN_US;
        log_event(LOG_WARN, "accepting HTTP clients paused", LOG_S("reason", strerror(error)));
}

/* The connections of one address, those at the gate included. */
static size_t count_from(const struct http_thread *thread, uint64_t key)
{
        return gate_count(&thread->gate, key) + shard_list_count(&thread->shards, key);
}

/* Whether the address has its share, so that one more would leave no room for other addresses. Local clients have no
 * such limit. */
static bool has_its_share(const struct http_thread *thread, uint64_t key)
{
        const struct http_quota *quota = &thread->owner.quota;
        size_t kept = quota->max - quota_share(quota->max);

        return key && quota->n + kept >= quota->max && count_from(thread, key) + kept >= quota->max;
}

/* Checks a Unix socket's peer, whatever the mode of the socket's file is now. */
static bool is_same_user(int fd)
{
        struct ucred peer;
        socklen_t size = sizeof(peer);

        return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) && (peer.uid == geteuid() || !peer.uid);
}

/* The connection that makes room for another: one of the two, or none. */
struct victim {
        struct http_pending *pending;
        struct http_connection *connection;
};

/*
 * The one that has done nothing the longest, of those that hold no valid token. false: none. Those that have been ended
 * and not closed yet are bounded, too.
 */
static bool find_victim(struct http_thread *thread, struct victim *ret_victim)
{
        struct http_pending *pending;
        struct http_connection *connection;
        uint64_t pending_us;

        if (thread->owner.quota.n_ending >= thread->owner.quota.max)
                return false;
        pending = gate_victim(&thread->gate, &pending_us);
        connection = shard_list_victim(&thread->shards);
        if (pending && connection && pending_us > connection->since_us)
                pending = NULL;
        *ret_victim = (struct victim){ pending, pending ? NULL : connection };
        return pending || connection;
}

/* false: accept nothing more now. */
static bool take_connection(struct http_thread *thread, struct http_listener *listener)
{
        struct accepted_socket arrival = { .listener = listener, .size = sizeof(arrival.address) };
        struct victim victim = { NULL, NULL };

        if (!quota_has_room(&thread->owner.quota) && !find_victim(thread, &victim)) {
                thread->owner.quota.full_us = clock_now_us() + RETRY_US;
                return false;
        }
        arrival.fd = accept4(listener->fd, &arrival.address.base, &arrival.size, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (arrival.fd < 0) {
                if (!accept_is_repeatable(errno))
                        accept_failed(thread, errno);
                return false;
        }
        if (listener->local && !is_same_user(arrival.fd)) {
                close(arrival.fd);
                return true;
        }
        if (arrival.size > sizeof(arrival.address)) /* the path of a Unix socket, cut short */
                arrival.size = sizeof(arrival.address);
        if (!listener->local)
                arrival.key = address_key(&arrival.address);
        if (has_its_share(thread, arrival.key)) {
                metric_add(thread->server->ended[HTTP_END_ADDRESS_LIMIT], 1);
                close(arrival.fd);
                return true;
        }
        if (victim.pending)
                gate_evict(&thread->gate, victim.pending);
        if (victim.connection) {
                metric_add(thread->server->ended[HTTP_END_EVICTED], 1);
                connection_end(victim.connection);
        }
        gate_take(&thread->gate, &arrival);
        return true;
}

static void take_connections(struct http_thread *thread, struct http_listener *listener)
{
        for (int i = 0; i < ACCEPT_AT_ONCE && take_connection(thread, listener); i++)
                ;
}

/* Hands a socket to libmicrohttpd, and lets it read. */
static void admit(void *context, const struct accepted_socket *arrival)
{
        struct http_thread *thread = context;
        struct http_shard *shard = shard_list_room(&thread->shards, arrival->listener->tls);

        if (!shard) {
                close(arrival->fd);
                return;
        }
        shard_add(shard, arrival);
        run(thread, shard, true);
}

/* Watches the listeners while there is room; at the limit, clients wait in the kernel's queue. */
static void update_listening(struct http_thread *thread)
{
        struct http_server *server = thread->server;
        struct http_quota *quota = &thread->owner.quota;

        if (thread->retry_us && clock_now_us() >= thread->retry_us)
                thread->retry_us = 0;
        if (quota->full_us && clock_now_us() >= quota->full_us)
                quota->full_us = 0;
        bool wanted = !thread->retry_us && !quota->full_us;
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

/* Runs the shards that other threads have woken. Returns whether there were any. */
static bool run_queued(struct http_thread *thread)
{
        struct run_item *item = run_queue_take(&thread->owner.queue);
        bool any = item != NULL;

        while (item) {
                struct http_shard *shard = FERRY_CONTAINER_OF(item, struct http_shard, run);
                struct run_item *next = item->next;

                run_item_begin(item);
                run(thread, shard, true);
                item = next;
        }
        return any;
}

/* Ends and runs what is due. */
static void sweep(struct http_thread *thread)
{
        uint64_t gate_us = gate_due(&thread->gate), now;

        gate_reap(&thread->gate);
        if ((!thread->sweep_us && !gate_us) || (now = clock_now_us()) < clock_earlier(thread->sweep_us, gate_us))
                return;
        gate_sweep(&thread->gate, now);
        thread->sweep_us = 0;
        for (size_t i = 0; i < thread->shards.n; i++) {
                struct http_shard *shard = thread->shards.shards[i];
                if (shard->due_us && shard->due_us <= now)
                        run(thread, shard, false);
                else
                        thread->sweep_us = clock_earlier(thread->sweep_us, shard->due_us);
        }
}

/* How long epoll_wait may sleep, in ms; -1 = until an event. */
static int time_left(const struct http_thread *thread)
{
        uint64_t until = clock_earlier(clock_earlier(thread->sweep_us, gate_due(&thread->gate)),
                                       clock_earlier(thread->retry_us, thread->owner.quota.full_us));

        until = clock_earlier(until, event_readers_due(&thread->owner.readers));
        return until ? clock_ms_until(until, clock_now_us()) : -1;
}

static void deliver(struct http_thread *thread, const struct epoll_event *event)
{
        uint64_t id = event->data.u64;

        if (gate_owns(event))
                gate_deliver(&thread->gate, event);
        else if (id >= thread->shards.first_id)
                run(thread, thread->shards.shards[id - thread->shards.first_id], true);
        else if (id >= first_listener_id)
                take_connections(thread, &thread->server->listeners[id - first_listener_id]);
        else
                run_queue_signalled(&thread->owner.queue);
}

/* Whether there is work of which no event of epoll tells. */
static bool has_work(struct http_thread *thread)
{
        return !run_queue_is_empty(&thread->owner.queue) || atomic_load(&thread->stopping) ||
               event_readers_called(&thread->owner.readers);
}

/* The number of events; 0 = no event, but there is other work. */
static int sleep_until_event(struct http_thread *thread, struct epoll_event events[EVENTS])
{
        int n;

        /* After this, a thread that adds work either is seen by has_work or signals the eventfd. */
        run_queue_sleep(&thread->owner.queue);
        n = epoll_wait(thread->epoll_fd, events, EVENTS, has_work(thread) ? 0 : time_left(thread));
        run_queue_awake(&thread->owner.queue);
        return n;
}

/*
 * Polls for spin_us after the last work before it sleeps: the next request or wake-up often comes sooner than a core
 * leaves its sleep (30 us on a virtual machine). It yields after each poll.
 */
static int wait_for_events(struct http_thread *thread, struct epoll_event events[EVENTS])
{
        uint64_t until = thread->busy_us + thread->server->config.spin_us;

        while (clock_now_us() < until) {
                int n = epoll_wait(thread->epoll_fd, events, EVENTS, 0);

                if (n > 0 || has_work(thread))
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
                event_readers_run(&thread->owner.readers);
                update_listening(thread);
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

        if (!thread)
                return -ENOMEM;
        thread->server = server;
        thread->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        thread->owner = (struct shard_owner){
                .server = server,
                .credentials.source = &server->credentials,
                .quota = { .server = server, .max = connections_max },
                .readers = { .server = server, .queue = &thread->owner.queue },
                .gate = &thread->gate,
        };
        thread->shards = (struct shard_list){
                .owner = &thread->owner,
                .epoll_fd = thread->epoll_fd,
                .first_id = first_listener_id + server->n_listeners,
        };
        thread->gate = (struct http_gate){
                .server = server,
                .quota = &thread->owner.quota,
                .epoll_fd = thread->epoll_fd,
                .admit = admit,
                .context = thread,
        };
        int error = run_queue_init(&thread->owner.queue);
        if (!error && thread->epoll_fd < 0)
                error = -errno;
        if (!error)
                error = watch(thread, thread->owner.queue.event_fd, queue_id);
        if (!error)
                error = shard_list_add(&thread->shards, server->tls);
        if (error) {
                log_event(LOG_ERROR, "HTTP thread failed", LOG_S("reason", strerror(-error)));
                server_thread_free(thread);
                return error;
        }
        *ret_thread = thread;
        return 0;
}

int server_thread_start(struct http_thread *thread)
{
        int r = thread_new("ferry-http", server_thread_main, thread, &thread->thread);

        thread->started = r == 0;
        return r;
}

void server_thread_stop(struct http_thread *thread)
{
        if (thread->started) {
                atomic_store(&thread->stopping, true);
                (void)eventfd_write(thread->owner.queue.event_fd, 1);
                pthread_join(thread->thread, NULL);
                thread->started = false;
        }
        event_readers_end(&thread->owner.readers);
        shard_list_stop(&thread->shards);
        gate_stop(&thread->gate); /* last: it takes the connections that linger */
}

struct http_thread *server_thread_free(struct http_thread *thread)
{
        if (!thread)
                return NULL;
        server_thread_stop(thread);
        shard_list_destroy(&thread->shards);
        credentials_forget(&thread->owner.credentials);
        run_queue_destroy(&thread->owner.queue);
        cleanup_close(&thread->epoll_fd);
        free(thread);
        return NULL;
}
