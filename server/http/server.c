/* SPDX-License-Identifier: Apache-2.0 */
#include "http/server.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/util.h"
#include "connection.h"
#include "http_internal.h"
#include "idempotency.h"
#include "request.h"
#include "routes.h"

enum {
        IDLE_TIMEOUT_S = 60,
        /* Bytes: headers, and the window of an upload. libmicrohttpd clears it after each request, which is much of
           what a small one costs, and a parked wait holds it. */
        CONNECTION_MEMORY = 16 << 10,
        LAST_ANSWERS_US = 1000000, /* how long running answers may take when the server ends */
};

/* Almost all that libmicrohttpd has to say is about what clients did. */
static void log_library(void *context, const char *format, va_list arguments)
{
        char text[256];

        if (!log_enabled(LOG_DEBUG))
                return;
        vsnprintf(text, sizeof(text), format, arguments);
        text[strcspn(text, "\n")] = '\0';
        log_event(LOG_DEBUG, "libmicrohttpd", LOG_S("text", text));
}

/* The answer has been sent, or the client is gone. Also for requests whose headers never became whole. */
static void on_completed(void *context, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code)
{
        struct http_request *request = FERRY_STEAL(*state);
        struct http_server *server;

        if (!request)
                return;
        server = request->server;
        bool entered = request->phase != REQUEST_NEW;
        request_free(request);
        if (entered)
                waits_leave(&server->waits);
}

static unsigned pool_size(const struct http_config *config)
{
        long cores = sysconf(_SC_NPROCESSORS_ONLN);

        if (config->threads)
                return config->threads;
        return cores < 2 ? 2 : cores > 4 ? 4 : (unsigned)cores;
}

static int listener_start(struct http_listener *listener)
{
        const struct http_config *config = &listener->server->config;
        unsigned threads = pool_size(config), limit = (unsigned)config->limits.connections_max;
        struct MHD_OptionItem options[5];
        size_t n = 0;

        if (threads > 1)
                options[n++] = (struct MHD_OptionItem){ MHD_OPTION_THREAD_POOL_SIZE, (intptr_t)threads, NULL };
        if (config->tls) {
                options[n++] = (struct MHD_OptionItem){ MHD_OPTION_HTTPS_MEM_CERT, 0,
                                                        (void *)(uintptr_t)config->tls_cert_pem };
                options[n++] =
                        (struct MHD_OptionItem){ MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)config->tls_key_pem };
        }
        options[n] = (struct MHD_OptionItem){ MHD_OPTION_END, 0, NULL };
        listener->daemon = MHD_start_daemon(
                MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
                        (config->tls ? MHD_USE_TLS : 0u) | (strchr(listener->host, ':') ? MHD_USE_IPv6 : 0u),
                0, NULL, NULL, dispatch_call, listener, MHD_OPTION_EXTERNAL_LOGGER, log_library, NULL,
                MHD_OPTION_LISTEN_SOCKET, listener->fd, MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL,
                MHD_OPTION_NOTIFY_CONNECTION, connection_notify, listener, MHD_OPTION_URI_LOG_CALLBACK, dispatch_target,
                listener, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_CONNECTION_LIMIT,
                limit > threads ? limit : threads, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_TIMEOUT_S,
                MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY, MHD_OPTION_ARRAY, options,
                MHD_OPTION_END);
        if (!listener->daemon) {
                log_event(LOG_ERROR, "the HTTP server does not start", LOG_S("address", listener->url));
                return config->tls ? -EINVAL : -ENOMEM;
        }
        listener->fd = -1;
        return 0;
}

static int server_open(struct http_server *server)
{
        const struct http_config *config = &server->config;

        server->listeners = calloc(config->n_listen, sizeof(*server->listeners));
        server->urls = calloc(config->n_listen, sizeof(*server->urls));
        if (!server->listeners || !server->urls)
                return -ENOMEM;
        /* All are bound before any serves: a worker that cannot start has answered nobody. */
        for (size_t i = 0; i < config->n_listen; i++) {
                struct http_listener *listener = &server->listeners[i];
                listener->server = server;
                server->n_listeners++;
                int error = listener_open(listener, config->listen[i], config->tls);
                if (error)
                        return error;
                server->urls[i] = listener->url;
        }
        for (size_t i = 0; i < config->n_listen; i++) {
                int error = listener_start(&server->listeners[i]);
                if (error)
                        return error;
        }
        return 0;
}

int http_server_new(const struct http_config *config, struct http_server **ret_server)
{
        static const char *const request_labels[] = { "route", "code" };
        struct http_server *server;
        struct metric_family *waiters;

        if (!config->n_listen)
                return -EINVAL;
        server = calloc(1, sizeof(*server));
        if (!server)
                return -ENOMEM;
        server->config = *config;
        server->last_request = random_id();
        server->started_us = clock_now_us();
        server->started_unix_ms = clock_unix_ms();
        server->requests = metrics_family(config->metrics, METRIC_COUNTER, "ferry_http_requests_total",
                                          "HTTP requests answered, by route (operationId) and status code.", 2,
                                          request_labels, NULL, 0);
        waiters = metrics_family(config->metrics, METRIC_GAUGE, "ferry_http_waiters",
                                 "HTTP requests that are parked until an operation changes.", 0, NULL, NULL, 0);
        int error = waits_init(&server->waits, metric_get(waiters, NULL));
        if (error) {
                free(server);
                return error;
        }
        server->usual = calloc(http_routes_count * HTTP_USUAL_COUNT, sizeof(*server->usual));
        if (!server->usual) {
                http_server_free(server);
                return -ENOMEM;
        }
        error = idempotency_new(config->limits.idempotency_max, &server->idempotency);
        if (!error)
                error = server_open(server);
        if (error) {
                http_server_free(server);
                return error;
        }
        *ret_server = server;
        return 0;
}

size_t http_server_urls(const struct http_server *server, const char *const **ret_urls)
{
        *ret_urls = server->urls;
        return server->n_listeners;
}

void http_server_drain(struct http_server *server)
{
        atomic_store(&server->draining, true);
}

struct http_server *http_server_free(struct http_server *server)
{
        if (!server)
                return NULL;
        http_server_drain(server);
        /* libmicrohttpd aborts the process when it is stopped with a suspended connection. */
        waits_stop(server, LAST_ANSWERS_US);
        for (size_t i = 0; i < server->n_listeners; i++)
                if (server->listeners[i].daemon)
                        MHD_stop_daemon(server->listeners[i].daemon);
        waits_drain(&server->waits);
        for (size_t i = 0; i < server->n_listeners; i++)
                listener_close(&server->listeners[i]);
        idempotency_free(server->idempotency);
        waits_destroy(&server->waits);
        free(server->usual);
        free(server->listeners);
        free(server->urls);
        free(server);
        return NULL;
}
