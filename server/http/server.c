/* SPDX-License-Identifier: Apache-2.0 */
#include "http/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <ferry/error.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/util.h"
#include "credentials.h"
#include "event_readers.h"
#include "head.h"
#include "http_internal.h"
#include "idempotency.h"
#include "problem.h"
#include "request.h"
#include "routes.h"
#include "server_thread.h"
#include "shard.h"

enum { LAST_ANSWERS_US = 1000000 /* how long running answers may take when the server ends */ };

static unsigned pool_size(const struct http_config *config)
{
        long cores = sysconf(_SC_NPROCESSORS_ONLN);

        if (config->threads)
                return config->threads;
        return cores < 2 ? 2 : cores > 4 ? 4 : (unsigned)cores;
}

/* The limit on connections holds for all threads together. */
static int start_threads(struct http_server *server)
{
        size_t connections = server->config.limits.connections_max, n = pool_size(&server->config);

        if (!connections)
                connections = 1;
        if (n > connections)
                n = connections;
        server->threads = calloc(n, sizeof(struct http_thread *));
        if (!server->threads)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                int error = server_thread_new(server, connections / n + (i < connections % n), &server->threads[i]);
                if (error)
                        return error;
                server->n_threads++;
        }
        for (size_t i = 0; i < n; i++) {
                int error = server_thread_start(server->threads[i]);
                if (error)
                        return error;
        }
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
                int error = listener_open(listener, config->listen[i], server->tls);
                if (error)
                        return error;
                server->urls[i] = listener->url;
        }
        return start_threads(server);
}

/* Connections that the worker ends by itself. */
static void count_ends(struct http_server *server)
{
        static const char *const labels[] = { "reason" };
        struct metric_family *ended =
                metrics_family(server->config.metrics, METRIC_COUNTER, "ferry_http_connections_ended_total",
                               "HTTP connections that the worker ended: a head, body or reader was too slow, a first "
                               "head was refused, others needed the room, one address had too many.",
                               1, labels, NULL, 0);

        server->slow[HTTP_SLOW_HEAD] = metric_get(ended, (const char *const[]){ "slow_head" });
        server->slow[HTTP_SLOW_BODY] = metric_get(ended, (const char *const[]){ "slow_body" });
        server->slow[HTTP_SLOW_READER] = metric_get(ended, (const char *const[]){ "slow_reader" });
        server->refused_head = metric_get(ended, (const char *const[]){ "refused_head" });
        server->evicted = metric_get(ended, (const char *const[]){ "evicted" });
        server->refused_address = metric_get(ended, (const char *const[]){ "address_limit" });
}

uint64_t server_next_request_id(struct http_server *server)
{
        return atomic_fetch_add_explicit(&server->last_request, UINT64_C(0x9e3779b97f4a7c15), memory_order_relaxed);
}

void server_count_refusal(struct http_server *server, int error)
{
        const char *problem = ferry_error_code(error);
        char code[12];

        (void)snprintf(code, sizeof(code), "%u", problem_status(error));
        metric_add(metric_get(server->problems, &problem), 1);
        metric_add(metric_get(server->requests, (const char *const[]){ "none", code }), 1);
}

/* All codes, so that the series are there before the first problem is. */
static void count_problems(struct http_server *server)
{
        static const char *const label[] = { "code" };
        static const char *const codes[] = {
#define X(name, number, code, http, retryable, title) code,
                FERRY_ERRORS(X)
#undef X
        };

        server->problems = metrics_family(server->config.metrics, METRIC_COUNTER, "ferry_http_problems_total",
                                          "HTTP requests refused, by the code of the problem.", 1, label, NULL, 0);
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(codes); i++)
                (void)metric_get(server->problems, &codes[i]);
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
        server->tls = config->secrets.tls_cert != NULL;
        server->watch_heads = head_parts_needed(MHD_get_version());
        server->last_request = random_id();
        server->started_us = clock_now_us();
        server->started_unix_ms = clock_unix_ms();
        server->requests = metrics_family(config->metrics, METRIC_COUNTER, "ferry_http_requests_total",
                                          "HTTP requests answered, by route (operationId) and status code.", 2,
                                          request_labels, NULL, 0);
        count_ends(server);
        count_problems(server);
        waiters = metrics_family(config->metrics, METRIC_GAUGE, "ferry_http_waiters",
                                 "HTTP requests that are parked until an operation changes.", 0, NULL, NULL, 0);
        server->event_readers = metric_get(metrics_family(config->metrics, METRIC_GAUGE, "ferry_event_readers",
                                                          "Clients that read a stream of events.", 0, NULL, NULL, 0),
                                           NULL);
        server->events_missed =
                metric_get(metrics_family(config->metrics, METRIC_COUNTER, "ferry_events_missed_total",
                                          "Events that a reader was too late for, by all readers.", 0, NULL, NULL, 0),
                           NULL);
        event_log_limits(config->events, &config->limits, config->operation_limits);
        pthread_mutex_init(&server->credentials_lock, NULL);
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
        error = credentials_new(&config->secrets, &server->credentials);
        server->config.secrets = (struct http_secrets){ 0 };
        if (!error)
                error = idempotency_new(config->limits.idempotency_max, &server->idempotency);
        if (!error)
                error = server_open(server);
        if (!error)
                event_log_listen(config->events, event_readers_told, server);
        if (error) {
                http_server_free(server);
                return error;
        }
        *ret_server = server;
        return 0;
}

/* Whether both have it, or none. */
static bool alike(const char *a, const char *b)
{
        return !a == !b;
}

int http_server_reload(struct http_server *server, const struct http_secrets *secrets)
{
        const struct http_secrets *old = &server->credentials->secrets; /* which only this function replaces */
        struct http_credentials *credentials;

        if (!alike(secrets->token, old->token) || !alike(secrets->peer_token, old->peer_token) ||
            !alike(secrets->metrics_token, old->metrics_token) || !alike(secrets->tls_cert, old->tls_cert) ||
            !alike(secrets->tls_client_ca, old->tls_client_ca))
                return -EINVAL;
        int error = credentials_new(secrets, &credentials);
        if (error)
                return error;
        error = server->tls ? shard_try(credentials) : 0;
        if (error) {
                credentials_unref(credentials);
                return error;
        }
        pthread_mutex_lock(&server->credentials_lock);
        struct http_credentials *replaced = server->credentials;
        server->credentials = credentials;
        atomic_fetch_add(&server->n_reloads, 1);
        pthread_mutex_unlock(&server->credentials_lock);
        credentials_unref(replaced);
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
        event_log_listen(server->config.events, NULL, NULL);
        event_readers_stop(server);
        /* No connection may be suspended when libmicrohttpd is stopped. It aborts the process, at best. */
        waits_stop(server, LAST_ANSWERS_US);
        for (size_t i = 0; i < server->n_threads; i++)
                server_thread_stop(server->threads[i]);
        waits_drain(&server->waits);
        for (size_t i = 0; i < server->n_threads; i++)
                server_thread_free(server->threads[i]);
        for (size_t i = 0; i < server->n_listeners; i++)
                listener_close(&server->listeners[i]);
        idempotency_free(server->idempotency);
        credentials_unref(server->credentials);
        pthread_mutex_destroy(&server->credentials_lock);
        waits_destroy(&server->waits);
        free(server->usual);
        free(server->threads);
        free(server->listeners);
        free(server->urls);
        free(server);
        return NULL;
}
