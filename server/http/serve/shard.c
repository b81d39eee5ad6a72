/* SPDX-License-Identifier: Apache-2.0 */
#include "serve_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"

/*
 * A shard: a libmicrohttpd daemon without a thread, and its connections; serve_internal.h says why there are many.
 * Sockets are handed to it (shard_add), callbacks tell of their start, their requests and their end, and shard_run()
 * gives it time. What libmicrohttpd does not do is done here: it may never report a start, may ask to be run for ever
 * without progress, and does not demand a client's certificate.
 *
 * Thread: the HTTP thread's; shard_wake() and shard_try() any.
 */

enum {
        IDLE_TIMEOUT_S = 60,
        ARRIVAL_US = 60 * 1000000,
        LOOK_US = 3 * 1000000, /* from activity on a connection to the next check of time limits */
        SOON_US = 1000000,     /* the same where bytes came that made no request */
        VAIN_RUNS = 16,        /* runs without progress in a row before the shard is slowed down */
        VAIN_BYTES = 1024,     /* a run that moves more is progress */
        REST_MIN_US = 1000,    /* pause between runs without progress: 1/REST_PART of the time since the first */
        REST_MAX_US = 50000,
        REST_PART = 4,
};

/* At debug level: nearly all of libmicrohttpd's messages are about faults of clients. */
static void log_library(void *context, const char *format, va_list arguments)
{
        char text[256];

        if (!log_enabled(LOG_DEBUG))
                return;
        vsnprintf(text, sizeof(text), format, arguments);
        text[strcspn(text, "\n")] = '\0';
        log_event(LOG_DEBUG, "libmicrohttpd", LOG_S("text", text));
}

/* The answer was sent, or the client has gone. May not be called for a request that dispatch_call has not seen. */
static void on_completed(void *context, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code)
{
        struct http_connection *ours = connection_of(connection);

        *state = NULL;
        if (!ours)
                return;
        ours->shard->active = true;
        if (ours->request)
                ours->request->sent = code == MHD_REQUEST_TERMINATED_COMPLETED_OK;
        connection_end_request(ours);
        connection_repeat_end(ours);
}

/* Takes the connection of fd off the arriving ones. NULL: none has this fd. */
static struct http_connection *take_arriving(struct http_shard *shard, int fd)
{
        struct http_connection *connection;

        LL_SEARCH_SCALAR(shard->arriving, connection, fd, fd);
        if (connection)
                LL_DELETE(shard->arriving, connection);
        return connection;
}

/* libmicrohttpd is about to close the socket: a duplicate of it stays open. */
static void linger(struct http_shard *shard, const struct http_connection *connection)
{
        const struct accepted_socket arrival = { .listener = connection->listener,
                                                 .fd = fcntl(connection->fd, F_DUPFD_CLOEXEC, 0),
                                                 .key = connection->key };

        if (arrival.fd >= 0)
                gate_linger(shard->owner->gate, &arrival);
}

/* libmicrohttpd is done with the connection. */
static void forget(struct http_shard *shard, struct http_connection *connection)
{
        if (connection->lingers && !connection->ending)
                linger(shard, connection);
        connection_close(connection);
        shard->n_connections--;
        quota_leave(&shard->owner->quota);
}

/*
 * Closes connections whose start libmicrohttpd never reported: 1.0 may close a socket silently when memory is short.
 * They are found by age here, or in shard_add by a new socket of the same number.
 */
static void forget_lost(struct http_shard *shard, uint64_t now)
{
        struct http_connection *connection, *next;

        LL_FOREACH_SAFE (shard->arriving, connection, next)
                if (now - connection->added_us > ARRIVAL_US)
                        forget(shard, take_arriving(shard, connection->fd));
}

/*
 * Makes the TLS handshake fail without a client certificate of one of the configured CAs. libmicrohttpd by itself asks
 * for a certificate, but does not require it. Call before the handshake.
 */
static void demand_certificate(struct MHD_Connection *connection)
{
        static const struct {
                gnutls_typed_vdata_st item;
        } purpose = { { GNUTLS_DT_KEY_PURPOSE_OID, (unsigned char *)(uintptr_t)GNUTLS_KP_TLS_WWW_CLIENT, 0 } };
        gnutls_session_t session = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION)->tls_session;

        gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUIRE);
        gnutls_session_set_verify_cert2(session, (gnutls_typed_vdata_st *)(uintptr_t)&purpose.item, 1, 0);
}

/* libmicrohttpd's notification: a connection has started, or is about to be closed. */
static void on_connection(void *context, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
        struct http_shard *shard = context;

        if (code == MHD_CONNECTION_NOTIFY_STARTED) {
                int fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
                struct http_connection *ours = take_arriving(shard, fd);
                *socket_context = ours;
                if (ours) {
                        DL_PREPEND2(shard->open, ours, previous, next);
                        connection_open(ours, connection);
                }
                if (shard->tls && shard->credentials->secrets.tls_client_ca)
                        demand_certificate(connection);
        } else {
                struct http_connection *ours = FERRY_STEAL(*socket_context);
                if (!ours)
                        return;
                connection_end_request(ours);
                DL_DELETE2(shard->open, ours, previous, next);
                forget(shard, ours);
        }
        shard->active = true;
}

/* NULL: failed; errno may say why. context: the shard. */
static struct MHD_Daemon *daemon_start(const struct http_server *server, void *context, const struct http_secrets *tls)
{
        struct MHD_OptionItem options[5];
        size_t n = 0;

#define ADD(option, value)                                                                                             \
        options[n++] = (struct MHD_OptionItem)                                                                         \
        {                                                                                                              \
                option, 0, (void *)(uintptr_t)(value)                                                                  \
        }
        if (tls) {
                ADD(MHD_OPTION_HTTPS_MEM_CERT, tls->tls_cert);
                ADD(MHD_OPTION_HTTPS_MEM_KEY, tls->tls_key);
                ADD(MHD_OPTION_HTTPS_PRIORITIES, "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2");
                if (tls->tls_client_ca)
                        ADD(MHD_OPTION_HTTPS_MEM_TRUST, tls->tls_client_ca);
        }
        ADD(MHD_OPTION_END, NULL);
#undef ADD
        errno = 0;
        return MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME |
                                        MHD_USE_ERROR_LOG | (tls ? MHD_USE_TLS : 0u),
                                0, NULL, NULL, server->dispatch.call, NULL, MHD_OPTION_EXTERNAL_LOGGER, log_library,
                                NULL, MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL, MHD_OPTION_NOTIFY_CONNECTION,
                                on_connection, context, MHD_OPTION_URI_LOG_CALLBACK, server->dispatch.target, NULL,
                                MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_CONNECTION_LIMIT,
                                (unsigned)SHARD_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_TIMEOUT_S,
                                MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEAD_MEMORY, MHD_OPTION_ARRAY, options,
                                MHD_OPTION_END);
}

int shard_try(const struct http_server *server, const struct http_credentials *credentials)
{
        struct MHD_Daemon *daemon = daemon_start(server, NULL, &credentials->secrets);

        if (!daemon)
                return -EINVAL;
        MHD_stop_daemon(daemon);
        return 0;
}

int shard_renew(struct http_shard *shard)
{
        struct http_credentials *credentials = credentials_current(&shard->owner->credentials);
        struct MHD_Daemon *daemon =
                daemon_start(shard->owner->server, shard, shard->tls ? &credentials->secrets : NULL);

        if (!daemon)
                return errno == EMFILE || errno == ENFILE ? -errno : shard->tls ? -EINVAL : -ENOMEM;
        if (shard->daemon)
                MHD_stop_daemon(shard->daemon);
        shard->daemon = daemon;
        credentials_unref(shard->credentials);
        shard->credentials = credentials_ref(credentials);
        return 0;
}

int shard_new(struct shard_owner *owner, bool tls, struct http_shard **ret_shard)
{
        struct http_shard *shard = calloc(1, sizeof(*shard));

        if (!shard)
                return -ENOMEM;
        shard->owner = owner;
        shard->tls = tls;
        int error = shard_renew(shard);
        if (error) {
                free(shard);
                return error;
        }
        *ret_shard = shard;
        return 0;
}

void shard_stop(struct http_shard *shard)
{
        struct MHD_Daemon *daemon = FERRY_STEAL(shard->daemon);

        if (daemon)
                MHD_stop_daemon(daemon);
        while (shard->arriving)
                forget(shard, take_arriving(shard, shard->arriving->fd));
}

struct http_shard *shard_free(struct http_shard *shard)
{
        if (!shard)
                return NULL;
        shard_stop(shard);
        credentials_unref(shard->credentials);
        free(shard);
        return NULL;
}

int shard_epoll_fd(const struct http_shard *shard)
{
        return MHD_get_daemon_info(shard->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
}

void shard_add(struct http_shard *shard, const struct accepted_socket *arrival)
{
        struct http_connection *connection = take_arriving(shard, arrival->fd);

        if (connection)
                forget(shard, connection);
        connection = connection_new(&shard->owner->quota, &shard->owner->readers, arrival);
        if (!connection) {
                close(arrival->fd);
                return;
        }
        connection->shard = shard;
        shard->n_connections++;
        quota_enter(&shard->owner->quota);
        LL_PREPEND(shard->arriving, connection);
        /* On failure libmicrohttpd closes the socket. Whether on_connection was called before depends on its version.
         */
        if (MHD_add_connection(shard->daemon, arrival->fd, &arrival->address.base, arrival->size) != MHD_YES &&
            (connection = take_arriving(shard, arrival->fd)) != NULL)
                forget(shard, connection);
}

/* ---- running ---- */

/* Ends connections that have exceeded a time limit. */
static void look(struct http_shard *shard, uint64_t now)
{
        shard->look_us = 0;
        for (struct http_connection *connection = shard->open; connection; connection = connection->next)
                shard->look_us = clock_earlier(shard->look_us, connection_check(connection, now));
}

/*
 * The bytes that all TCP connections have moved. *ret_counted: false where there are some and none has a byte, since
 * the kernel does not count.
 */
static uint64_t bytes_moved(const struct http_shard *shard, bool *ret_counted)
{
        uint64_t sum = 0, bytes;
        bool tcp = false;

        for (const struct http_connection *connection = shard->open; connection; connection = connection->next) {
                if (!connection_bytes(connection, &bytes))
                        continue;
                tcp = true;
                sum += bytes;
        }
        *ret_counted = sum || !tcp;
        return sum;
}

/*
 * libmicrohttpd asks to be run again at once: the pause before that, us; 0 = none. Some connections make it ask for
 * ever without progress (half a TLS record, a chunk-size line longer than its buffer). Such a shard is run with pauses;
 * new bytes on any connection still have it run at once.
 */
static uint64_t rest_us(struct http_shard *shard, uint64_t now)
{
        if (shard->active) {
                shard->n_vain = 0;
                shard->vain_us = 0;
                return 0;
        }
        if (++shard->n_vain < VAIN_RUNS)
                return 0;
        shard->n_vain = shard->vain_us ? VAIN_RUNS - 1 : 0;
        bool counted;
        uint64_t moved = bytes_moved(shard, &counted), more = moved - shard->moved;
        shard->moved = moved;
        if (more >= VAIN_RUNS * VAIN_BYTES) {
                shard->vain_us = 0;
                return 0;
        }
        if (!shard->vain_us)
                shard->vain_us = now;
        /* qemu and gVisor count no bytes: there a TLS answer in bulk looks like this, and must not crawl. */
        uint64_t rest = counted ? (now - shard->vain_us) / REST_PART : 0;
        shard->look_us = clock_earlier(shard->look_us, now + SOON_US);
        return rest < REST_MIN_US ? REST_MIN_US : rest > REST_MAX_US ? REST_MAX_US : rest;
}

int64_t shard_run(struct http_shard *shard, bool called)
{
        MHD_UNSIGNED_LONG_LONG ms;

        shard->active = false;
        (void)MHD_run_wait(shard->daemon, 0);
        uint64_t now = clock_now_us(), due = 0;
        if (shard->arriving) {
                forget_lost(shard, now);
                due = now + ARRIVAL_US;
        }
        if (shard->look_us && shard->look_us <= now)
                look(shard, now);
        if (called && shard->open)
                shard->look_us = clock_earlier(shard->look_us, now + (shard->active ? LOOK_US : SOON_US));
        /* libmicrohttpd requires this after each run; connections would hang if it were run later. */
        if (MHD_get_timeout(shard->daemon, &ms) != MHD_YES)
                ms = INT_MAX;
        if (!ms) {
                uint64_t rest = rest_us(shard, now);
                if (!rest)
                        return 0;
                due = now + rest;
        } else if (ms < INT_MAX) {
                due = clock_earlier(due, now + ms * 1000);
        }
        due = clock_earlier(due, shard->look_us);
        return due ? (int64_t)(due > now ? due - now : 1) : -1;
}

void shard_wake(struct http_shard *shard)
{
        run_queue_add(&shard->owner->queue, &shard->run);
}
