/* SPDX-License-Identifier: Apache-2.0 */
#include "serve_internal.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>
#include <xxhash.h>

#include <ferry/encoding.h>
#include <ferry/error.h>
#include <ferry/json_write.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/pool.h"
#include "base/util.h"

/*
 * The gate: each connection waits here until its first head is whole, and comes back when it was answered before its
 * request was read to the end. Until then it costs a descriptor and some memory, and libmicrohttpd sees no head that
 * head.c has not accepted. The quota counts a thread's connections, those at the gate included.
 *
 * Thread: the HTTP thread that has accepted; give_memory_back() one of the pool.
 */

/* ---- the connections of a thread ---- */

enum {
        OTHERS_PART = 8,  /* of the connections, which one address cannot have */
        TRIM_LEAST = 256, /* connections, of 16 KiB each, whose memory is worth giving back */
};

void quota_enter(struct http_quota *quota)
{
        struct http_server *server = quota->server;
        size_t n = atomic_fetch_add(&server->n_connections, 1) + 1;

        quota->n++;
        if (n > atomic_load_explicit(&server->most_connections, memory_order_relaxed))
                atomic_store_explicit(&server->most_connections, n, memory_order_relaxed);
        event_log_used(server->config.events, EVENT_LIMIT_CONNECTIONS, n);
}

/* A thread of the pool. */
static void give_memory_back(void *context)
{
        (void)context;
#ifdef __GLIBC__
        (void)malloc_trim(0);
#endif
}

/*
 * malloc keeps what was freed below anything that is still in use: without this, the memory of many connections would
 * stay with the process. Done when half of them have gone, and again when half of the rest have.
 */
static void trim(struct http_server *server, size_t n)
{
        size_t most = atomic_load_explicit(&server->most_connections, memory_order_relaxed);

        if (most < n + TRIM_LEAST || n > most / 2 ||
            !atomic_compare_exchange_strong(&server->most_connections, &most, n))
                return;
        pool_run(server->tasks, POOL_WORK, (struct pool_devices){ 0 }, give_memory_back, NULL);
}

void quota_leave(struct http_quota *quota)
{
        struct http_server *server = quota->server;
        size_t n = atomic_fetch_sub(&server->n_connections, 1) - 1;

        quota->n--;
        quota->full_us = 0;
        event_log_used(server->config.events, EVENT_LIMIT_CONNECTIONS, n);
        trim(server, n);
}

bool quota_has_room(const struct http_quota *quota)
{
        return quota->n - quota->n_ending < quota->max;
}

size_t quota_share(size_t connections)
{
        return connections - (connections + OTHERS_PART - 1) / OTHERS_PART;
}

/* ---- the gate ---- */

enum {
        REFUSED_US = 10 * 1000000, /* before closing, so that a reset does not take the answer away from a client that
                                     still sends */
        REFUSED_BYTES = 64 << 20,  /* that are read and dropped before closing */
        DRAIN_PIECES = 64,         /* of HEAD_MAX bytes at once, so that the thread serves others in between */
        ADDRESSES = 256,           /* buckets; addresses in the same bucket count as one */
};

/* Set in the event data of a pending connection, beside its address, which never has this bit. */
static const uint64_t pending_id = UINT64_C(1) << 63;

struct http_pending {
        struct accepted_socket arrival; /* fd -1 = out of the gate */
        bool refused;
        uint64_t dropped; /* bytes since it was refused */
        uint64_t until_us;
        struct http_pending *previous, *next;
};

uint64_t address_key(const union http_address *address)
{
        static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff };
        const unsigned char *v6 = address->v6.sin6_addr.s6_addr;
        const unsigned char *bytes = v6;
        size_t size = 8;

        if (address->base.sa_family == AF_INET) {
                bytes = (const unsigned char *)&address->v4.sin_addr;
                size = 4;
        } else if (address->base.sa_family != AF_INET6 || IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr)) {
                return 0;
        } else if (!memcmp(v6, mapped, sizeof(mapped))) {
                bytes = v6 + sizeof(mapped);
                size = 4;
        }
        if (size == 4 && bytes[0] == IN_LOOPBACKNET)
                return 0;
        return XXH3_64bits(bytes, size) | 1;
}

/* ---- the end of a pending connection ---- */

/* Takes the connection out of the gate and returns its socket, which the caller owns from now on. */
static int release_socket(struct http_gate *gate, struct http_pending *pending)
{
        int fd = pending->arrival.fd;

        pending->arrival.fd = -1;
        DL_DELETE2(*(pending->refused ? &gate->refused : &gate->arriving), pending, previous, next);
        LL_PREPEND(gate->gone, pending);
        (void)epoll_ctl(gate->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
        quota_leave(gate->quota);
        return fd;
}

/* Closes a connection, and counts why. */
static void close_counted(struct http_gate *gate, struct http_pending *pending, struct metric *why)
{
        close(release_socket(gate, pending));
        metric_add(why, 1);
}

void gate_reap(struct http_gate *gate)
{
        while (gate->gone) {
                struct http_pending *pending = gate->gone;
                LL_DELETE(gate->gone, pending);
                free(pending);
        }
}

void gate_stop(struct http_gate *gate)
{
        while (gate->arriving)
                close(release_socket(gate, gate->arriving));
        while (gate->refused)
                close(release_socket(gate, gate->refused));
        gate_reap(gate);
}

/* operation: EPOLL_CTL_ADD, EPOLL_CTL_MOD. */
static int watch(const struct http_gate *gate, int operation, struct http_pending *pending, uint32_t events)
{
        struct epoll_event event = { .events = events, .data.u64 = pending_id | (uint64_t)(uintptr_t)pending };

        return epoll_ctl(gate->epoll_fd, operation, pending->arrival.fd, &event) < 0 ? -errno : 0;
}

/* ---- answering in place of libmicrohttpd ---- */

/* Sends a problem document without libmicrohttpd. */
static void send_problem(struct http_server *server, int fd, int error, const char *detail)
{
        const char *reason = error == FERRY_E_HEAD_TOO_LARGE ? "Request Header Fields Too Large" : "Bad Request";
        struct ferry_json_writer writer = { 0 };
        char head[256], id[FERRY_ID_TEXT_SIZE];
        size_t size;

        problem_write(&writer, error, false, detail, NULL);
        FERRY_CLEANUP(cleanup_free) char *body = ferry_json_take(&writer, &size);
        if (!body)
                return;
        ferry_id_format("req_", server_next_request_id(server), id);
        int n = snprintf(head, sizeof(head),
                         "HTTP/1.1 %u %s\r\nContent-Type: application/problem+json\r\nCache-Control: no-store\r\n"
                         "X-Content-Type-Options: nosniff\r\nRequest-Id: %s\r\nConnection: close\r\n"
                         "Content-Length: %zu\r\n\r\n",
                         problem_status(error), reason, id, size);
        /* A fresh connection's send buffer has room for this; otherwise the client gets no answer. */
        if (send(fd, head, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT | MSG_MORE) == n)
                (void)send(fd, body, size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* The client has its answer: from now on its bytes are dropped. operation: as of watch. */
static void linger(struct http_gate *gate, struct http_pending *pending, int operation)
{
        (void)shutdown(pending->arrival.fd, SHUT_WR);
        pending->refused = true;
        pending->until_us = clock_now_us() + REFUSED_US;
        DL_APPEND2(gate->refused, pending, previous, next);
        if (watch(gate, operation, pending, EPOLLIN) < 0)
                close(release_socket(gate, pending));
}

/* Answers a head that was refused; what the client still sends is dropped for a while. */
static void refuse(struct http_gate *gate, struct http_pending *pending, int error, const char *detail)
{
        send_problem(gate->server, pending->arrival.fd, error, detail);
        counters_refused(gate->server, error);
        metric_add(gate->server->ended[HTTP_END_REFUSED_HEAD], 1);
        log_event(LOG_DEBUG, "request head refused", LOG_S("reason", detail));
        DL_DELETE2(gate->arriving, pending, previous, next);
        linger(gate, pending, EPOLL_CTL_MOD);
}

/* ---- received bytes ---- */

/* Discards some of what a refused client still sends, and closes when the client has or sends on and on. */
static void drain(struct http_gate *gate, struct http_pending *pending)
{
        ssize_t n = 0;

        for (int i = 0; i < DRAIN_PIECES; i++) {
                n = recv(pending->arrival.fd, gate->peeked, HEAD_MAX, MSG_DONTWAIT);
                if (n <= 0)
                        break;
                pending->dropped += (uint64_t)n;
        }
        if (!n || (n < 0 && errno != EAGAIN && errno != EINTR) || pending->dropped > REFUSED_BYTES)
                close(release_socket(gate, pending));
}

/* Looks at what has come without taking it off the socket: libmicrohttpd is to read it. */
static void look(struct http_gate *gate, struct http_pending *pending)
{
        ssize_t n = recv(pending->arrival.fd, gate->peeked, HEAD_MAX, MSG_PEEK | MSG_DONTWAIT);
        struct accepted_socket arrival;
        const char *detail = NULL;
        int error = 0;

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n <= 0) {
                close(release_socket(gate, pending));
                return;
        }
        switch (pending->arrival.listener->tls ? head_classify_tls(gate->peeked, (size_t)n)
                                               : head_classify(gate->peeked, (size_t)n, &error, &detail)) {
        case HEAD_PARTIAL:
                break;
        case HEAD_FOREIGN:
                close_counted(gate, pending, gate->server->ended[HTTP_END_REFUSED_HEAD]);
                break;
        case HEAD_REFUSED:
                refuse(gate, pending, error, detail);
                break;
        case HEAD_WHOLE:
                arrival = pending->arrival;
                (void)release_socket(gate, pending);
                gate->admit(gate->context, &arrival);
                break;
        }
}

bool gate_owns(const struct epoll_event *event)
{
        return (event->data.u64 & pending_id) != 0;
}

void gate_deliver(struct http_gate *gate, const struct epoll_event *event)
{
        const bool ended = (event->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
        const uintptr_t address = (uintptr_t)(event->data.u64 & ~pending_id);
        struct http_pending *pending = (struct http_pending *)address; // NOLINT(performance-no-int-to-ptr)

        if (pending->arrival.fd >= 0 && pending->refused) {
                drain(gate, pending);
                return;
        }
        if (pending->arrival.fd >= 0)
                look(gate, pending);
        if (pending->arrival.fd >= 0 && ended && !pending->refused) /* the rest of the head will never come */
                close(release_socket(gate, pending));
}

void gate_take(struct http_gate *gate, const struct accepted_socket *arrival)
{
        struct http_pending *pending = malloc(sizeof(*pending));

        if (!pending) {
                close(arrival->fd);
                return;
        }
        *pending = (struct http_pending){ .arrival = *arrival, .until_us = clock_now_us() + GATE_HEAD_US };
        if (watch(gate, EPOLL_CTL_ADD, pending, EPOLLIN | EPOLLRDHUP | EPOLLET) < 0) {
                close(arrival->fd);
                free(pending);
                return;
        }
        quota_enter(gate->quota);
        DL_APPEND2(gate->arriving, pending, previous, next);
        look(gate, pending);
}

void gate_linger(struct http_gate *gate, const struct accepted_socket *arrival)
{
        struct http_pending *pending = calloc(1, sizeof(*pending));

        if (!pending) {
                close(arrival->fd);
                return;
        }
        pending->arrival = *arrival;
        quota_enter(gate->quota);
        linger(gate, pending, EPOLL_CTL_ADD);
}

/* ---- deadlines and limits ---- */

uint64_t gate_due(const struct http_gate *gate)
{
        return clock_earlier(gate->arriving ? gate->arriving->until_us : 0,
                             gate->refused ? gate->refused->until_us : 0);
}

void gate_sweep(struct http_gate *gate, uint64_t now)
{
        while (gate->arriving && gate->arriving->until_us <= now)
                close_counted(gate, gate->arriving, gate->server->ended[HTTP_END_SLOW_HEAD]);
        while (gate->refused && gate->refused->until_us <= now)
                close(release_socket(gate, gate->refused));
}

struct http_pending *gate_victim(struct http_gate *gate, uint64_t *ret_since_us)
{
        unsigned counts[ADDRESSES] = { 0 }, most = 0;
        struct http_pending *victim = NULL;

        *ret_since_us = 0;
        if (gate->refused)
                return gate->refused;
        for (struct http_pending *pending = gate->arriving; pending; pending = pending->next)
                counts[pending->arrival.key % ADDRESSES]++;
        for (struct http_pending *pending = gate->arriving; pending; pending = pending->next) {
                if (counts[pending->arrival.key % ADDRESSES] <= most)
                        continue;
                most = counts[pending->arrival.key % ADDRESSES];
                victim = pending;
        }
        if (victim)
                *ret_since_us = victim->until_us - GATE_HEAD_US;
        return victim;
}

void gate_evict(struct http_gate *gate, struct http_pending *pending)
{
        close_counted(gate, pending, gate->server->ended[HTTP_END_EVICTED]);
}

size_t gate_count(const struct http_gate *gate, uint64_t key)
{
        size_t n = 0;

        for (const struct http_pending *pending = gate->arriving; pending; pending = pending->next)
                n += pending->arrival.key == key;
        return n;
}
