/* SPDX-License-Identifier: Apache-2.0 */
#include "serve_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "base/util.h"
#include "move/content.h"

/*
 * Our part of a connection: its life, its client's end, its limits of time. It is made for a socket that the gate has
 * let through, told of start and end by libmicrohttpd (shard.c), and freed when the loop's watch is done with it, too.
 * connection_check() is the one place that ends a connection because its client is slow.
 *
 * Thread: the shard's; on_end() the loop's. Locks: the connection's, a leaf, for fd alone; that of struct http_users.
 */

enum { CLOCK_ERROR_US = 20000 /* of times in struct tcp_info, which count in ticks */ };

/* ---- what the end of the server waits for ---- */

void users_init(struct http_users *users)
{
        condition_init(&users->changed);
        (void)pthread_mutex_init(&users->lock, NULL);
}

void users_destroy(struct http_users *users)
{
        pthread_mutex_destroy(&users->lock);
        pthread_cond_destroy(&users->changed);
}

void users_enter(struct http_users *users)
{
        atomic_fetch_add(&users->n_active, 1);
}

/* A request has ended. users_quiet sets ending before it looks at n_active. */
static void users_leave(struct http_users *users)
{
        if (atomic_fetch_sub(&users->n_active, 1) != 1 || !atomic_load(&users->ending))
                return;
        pthread_mutex_lock(&users->lock);
        pthread_cond_broadcast(&users->changed);
        pthread_mutex_unlock(&users->lock);
}

/* A connection was made, or freed. After the release the caller must not touch the server. */
static void users_retain(struct http_users *users)
{
        pthread_mutex_lock(&users->lock);
        users->n_alive++;
        pthread_mutex_unlock(&users->lock);
}

static void users_release(struct http_users *users)
{
        pthread_mutex_lock(&users->lock);
        if (!--users->n_alive)
                pthread_cond_broadcast(&users->changed);
        pthread_mutex_unlock(&users->lock);
}

void users_quiet(struct http_users *users, uint64_t limit_us)
{
        const uint64_t deadline_us = clock_now_us() + limit_us;

        atomic_store(&users->ending, true);
        pthread_mutex_lock(&users->lock);
        while (atomic_load(&users->n_active) && condition_wait(&users->changed, &users->lock, deadline_us))
                ;
        pthread_mutex_unlock(&users->lock);
}

void users_drain(struct http_users *users)
{
        pthread_mutex_lock(&users->lock);
        while (users->n_alive)
                pthread_cond_wait(&users->changed, &users->lock);
        pthread_mutex_unlock(&users->lock);
}

/* ---- life ---- */

/* Gives a reference back. The last one frees, and tells the end of the server (users_drain). */
static void connection_unref(struct http_connection *connection)
{
        struct http_users *users = &connection->server->users;

        if (atomic_fetch_sub(&connection->references, 1) != 1)
                return;
        wait_flag_destroy(&connection->end);
        pthread_mutex_destroy(&connection->lock);
        free(connection->origin);
        free(connection);
        users_release(users);
}

/* Sets the event before it shuts down: connection_repeat_end checks the event. */
static void on_end(struct loop_watch *watch, uint32_t events)
{
        struct http_connection *connection = FERRY_CONTAINER_OF(watch, struct http_connection, watch);

        wait_flag_set(&connection->end);
        pthread_mutex_lock(&connection->lock);
        if (connection->fd >= 0)
                (void)shutdown(connection->fd, SHUT_RD);
        pthread_mutex_unlock(&connection->lock);
        event_readers_tell(connection->readers);
        connection_unref(connection);
}

struct http_connection *connection_new(struct http_quota *quota, struct event_readers *readers,
                                       const struct accepted_socket *arrival)
{
        struct http_connection *connection = calloc(1, sizeof(*connection));

        if (!connection)
                return NULL;
        wait_flag_init(&connection->end);
        (void)pthread_mutex_init(&connection->lock, NULL);
        connection->server = arrival->listener->server;
        connection->quota = quota;
        connection->readers = readers;
        connection->listener = arrival->listener;
        connection->key = arrival->key;
        connection->fd = arrival->fd;
        connection->added_us = connection->since_us = clock_now_us();
        connection->watch.fired = on_end;
        atomic_init(&connection->references, 1);
        users_retain(&connection->server->users);
        return connection;
}

void connection_open(struct http_connection *connection, struct MHD_Connection *mhd)
{
        connection->mhd = mhd;
        atomic_fetch_add(&connection->references, 1);
        /* On failure the client's end may be noticed late. */
        if (loop_watch_start(connection->server->config.loop, &connection->watch, connection->fd, EPOLLRDHUP) < 0)
                connection_unref(connection);
}

/* Ends the watch before the descriptor can be closed and its number reused. */
void connection_close(struct http_connection *connection)
{
        struct http_server *server = connection->server;

        if (connection->ending)
                connection->quota->n_ending--;
        http_content_disconnected(FERRY_STEAL(connection->transfer));
        pthread_mutex_lock(&connection->lock);
        connection->fd = -1;
        pthread_mutex_unlock(&connection->lock);
        if (loop_watch_stop(server->config.loop, &connection->watch))
                connection_unref(connection);
        connection_unref(connection);
}

struct http_request *connection_begin_request(struct http_connection *connection, const char *target)
{
        connection_end_request(connection); /* one that dispatch_call never saw: its end may not have been reported */
        connection->request = request_new(connection->server, connection, target);
        if (!connection->request)
                return NULL;
        connection->since_us = connection->request->active_us;
        connection->body_size = 0;
        return connection->request;
}

void connection_end_request(struct http_connection *connection)
{
        struct http_request *request = FERRY_STEAL(connection->request);

        if (!request)
                return;
        bool entered = request->phase != REQUEST_NEW;
        connection->since_us = clock_now_us();
        connection->head_us = connection->sent_us = 0;
        replay_abort(request); /* of one that was parked, and whose end libmicrohttpd has found first */
        request_free(request);
        if (http_content_is_over(connection->transfer))
                http_content_disconnected(FERRY_STEAL(connection->transfer));
        if (entered)
                users_leave(&connection->server->users);
}

/* Whether no request has begun yet. */
static bool is_fresh(const struct http_connection *connection)
{
        return !connection->request && connection->since_us == connection->added_us;
}

bool connection_gives_way(const struct http_connection *connection, unsigned trust)
{
        const struct http_request *request = connection->request;

        if (connection->ending)
                return false;
        if (request)
                return request->phase != REQUEST_NEW && !connection->trust;
        return (connection->listener->tls || !is_fresh(connection)) && (!trust || connection->trust != trust);
}

/* ---- limits of time ---- */

/* false: not a TCP connection. */
static bool look_into(const struct http_connection *connection, struct tcp_info *ret_info)
{
        socklen_t size = sizeof(*ret_info);

        *ret_info = (struct tcp_info){ 0 };
        return !connection->listener->local && !getsockopt(connection->fd, IPPROTO_TCP, TCP_INFO, ret_info, &size);
}

bool connection_bytes(const struct http_connection *connection, uint64_t *ret_bytes)
{
        struct tcp_info info;

        if (!look_into(connection, &info))
                return false;
        *ret_bytes = info.tcpi_bytes_acked + info.tcpi_bytes_received;
        return true;
}

void connection_end(struct http_connection *connection)
{
        if (connection->ending)
                return;
        connection->ending = true;
        connection->quota->n_ending++;
        (void)shutdown(connection->fd, SHUT_RDWR);
        /* While its send buffer is full, libmicrohttpd checks its own timeout only. */
        (void)MHD_set_connection_option(connection->mhd, MHD_CONNECTION_OPTION_TIMEOUT, 1u);
}

/* Between requests: bytes after the last one are part of a head or of a TLS handshake. 0 = none came. */
static uint64_t head_deadline(struct http_connection *connection, uint64_t now)
{
        struct tcp_info info;

        if (!connection->head_us && is_fresh(connection)) {
                connection->head_us = connection->added_us; /* the head that the gate has seen */
        } else if (!connection->head_us && look_into(connection, &info)) {
                uint64_t arrived_us = now - (uint64_t)info.tcpi_last_data_recv * 1000;
                if (arrived_us > connection->since_us + CLOCK_ERROR_US)
                        connection->head_us = arrived_us;
        }
        return connection->head_us ? connection->head_us + GATE_HEAD_US : 0;
}

/* Probes tell while nothing is under way; TCP_USER_TIMEOUT would take a client that has stopped reading for dead. */
void connection_watch_peer(struct http_connection *connection)
{
        const int on = 1, probe_s = 1, probes = CONNECTION_DEAD_S;

        if (connection->peer_watched || connection->listener->local)
                return;
        connection->peer_watched = true;
        (void)setsockopt(connection->fd, IPPROTO_TCP, TCP_KEEPIDLE, &probe_s, sizeof(probe_s));
        (void)setsockopt(connection->fd, IPPROTO_TCP, TCP_KEEPINTVL, &probe_s, sizeof(probe_s));
        (void)setsockopt(connection->fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
        (void)setsockopt(connection->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

/*
 * While bytes are in flight, of which TCP itself would take many minutes to despair. since: when they can have been
 * sent at the earliest. 0 = none are in flight.
 */
static uint64_t silence_deadline(const struct http_connection *connection, uint64_t now, uint64_t since)
{
        struct tcp_info info;

        if (!connection->peer_watched || !look_into(connection, &info) || !info.tcpi_unacked)
                return 0;
        uint64_t last_ack_us = now - (uint64_t)info.tcpi_last_ack_recv * 1000;
        return (last_ack_us < since ? since : last_ack_us) + (uint64_t)CONNECTION_DEAD_S * 1000000;
}

/* When a client that reads its answer is too slow: CONNECTION_READ_US, and more for the bytes that it has taken. */
static uint64_t read_deadline(struct http_connection *connection, uint64_t now)
{
        struct tcp_info info;
        int unsent = 0;

        if (!look_into(connection, &info) || ioctl(connection->fd, SIOCOUTQ, &unsent) || !unsent) {
                connection->sent_us = 0;
                return now + CONNECTION_READ_US;
        }
        if (!connection->sent_us) {
                connection->sent_us = now;
                connection->sent = info.tcpi_bytes_acked;
        }
        uint64_t slow_us = connection->sent_us + CONNECTION_READ_US +
                           (info.tcpi_bytes_acked - connection->sent) * 1000000 / CONNECTION_RATE;
        return clock_earlier(slow_us, silence_deadline(connection, now, connection->sent_us));
}

/*
 * The limit depends on where the request is: in its head, its body or its answer. A parked request has its own
 * deadline.
 */
uint64_t connection_check(struct http_connection *connection, uint64_t now)
{
        const struct http_request *request = connection->request;
        enum http_end slow = HTTP_END_SLOW_HEAD;
        uint64_t deadline;

        if (connection->ending || (request && request->resume)) /* a parked request has its own deadline */
                return 0;
        if (!request) {
                uint64_t silent = silence_deadline(connection, now, connection->since_us); /* the last answer's end */
                deadline = clock_earlier(head_deadline(connection, now), silent);
                slow = silent && deadline == silent ? HTTP_END_SLOW_READER : HTTP_END_SLOW_HEAD;
        } else if (request->phase == REQUEST_NEW) {
                deadline = connection->since_us + GATE_HEAD_US;
        } else if (request->phase != REQUEST_END) {
                slow = HTTP_END_SLOW_BODY;
                deadline =
                        connection->since_us + CONNECTION_BODY_US + connection->body_size * 1000000 / CONNECTION_RATE;
        } else {
                slow = HTTP_END_SLOW_READER;
                deadline = request->answered ? read_deadline(connection, now) : 0;
        }
        if (!deadline || deadline > now)
                return deadline;
        metric_add(connection->server->ended[slow], 1);
        connection_end(connection);
        return 0;
}

void connection_repeat_end(struct http_connection *connection)
{
        if (wait_flag_is_set(&connection->end))
                (void)shutdown(connection->fd, SHUT_RD);
}

struct credentials_cache *connection_credentials(const struct http_connection *connection)
{
        return &connection->shard->owner->credentials;
}

void connection_local_host(const struct http_connection *connection, char *host, size_t size)
{
        struct sockaddr_storage address;
        socklen_t length = sizeof(address);
        char text[INET6_ADDRSTRLEN] = "";

        if (!getsockname(connection->fd, (struct sockaddr *)&address, &length)) {
                if (address.ss_family == AF_INET)
                        inet_ntop(AF_INET, &((struct sockaddr_in *)&address)->sin_addr, text, sizeof(text));
                else if (address.ss_family == AF_INET6)
                        inet_ntop(AF_INET6, &((struct sockaddr_in6 *)&address)->sin6_addr, text, sizeof(text));
        }
        /* Of a dual-stack socket: as an IPv4 address. */
        snprintf(host, size, "%s", strncasecmp(text, "::ffff:", 7) || !strchr(text, '.') ? text : text + 7);
}
