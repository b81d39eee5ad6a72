/* SPDX-License-Identifier: Apache-2.0 */
#include "serve_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/pool.h"
#include "base/util.h"

/*
 * The server, from http_server_new() to http_server_free(). The end has an order: nobody new finds the server; parked
 * requests and readers of events are woken, since libmicrohttpd aborts the process when it is stopped with a suspended
 * connection; answers that run have LAST_ANSWERS_US; then the threads end, and last what they have used.
 *
 * Thread: the one that makes and frees it; http_server_reload(), http_server_drain() and http_server_unlink() any.
 */

enum { LAST_ANSWERS_US = 1000000 /* time for running answers when the server ends */ };

/* How many HTTP threads: as configured, else one a processor, 2 to 4. */
static unsigned thread_count(const struct http_config *config)
{
        long cores = sysconf(_SC_NPROCESSORS_ONLN);

        if (config->threads)
                return config->threads;
        return cores < 2 ? 2 : cores > 4 ? 4 : (unsigned)cores;
}

/* Shares connections_max among the threads. */
static int start_threads(struct http_server *server)
{
        size_t connections = server->config.limits.connections_max, n = thread_count(&server->config);

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
        if (!server->listeners)
                return -ENOMEM;
        /* All are bound before any serves: a worker that cannot start has answered nobody. */
        for (size_t i = 0; i < config->n_listen; i++) {
                struct http_listener *listener = &server->listeners[i];
                listener->server = server;
                server->n_listeners++;
                int error = listener_open(listener, config->listen[i]);
                if (error)
                        return error;
        }
        return start_threads(server);
}

/* An event was published: wakes every thread, which checks its readers. Any thread. */
static void tell_readers(void *context)
{
        struct http_server *server = context;

        for (size_t i = 0; i < server->n_threads; i++)
                event_readers_tell(&server->threads[i]->owner.readers);
}

int http_server_new(const struct http_config *config, struct http_server **ret_server)
{
        struct http_credentials *credentials;
        struct http_server *server;

        if (!config->n_listen)
                return -EINVAL;
        server = calloc(1, sizeof(*server));
        if (!server)
                return -ENOMEM;
        server->config = *config;
        server->config.secrets = (struct http_secrets){ 0 };
        server->tls = config->secrets.tls_cert != NULL;
        server->watch_heads = head_parts_needed(MHD_get_version());
        server->last_request = random_id();
        server->started_us = clock_now_us();
        server->started_unix_ms = clock_unix_ms();
        server->dispatch = (struct http_dispatch){ dispatch_call, dispatch_target };
        users_init(&server->users);
        credentials_source_init(&server->credentials);
        event_log_limits(config->events, &config->limits, config->operation_limits);
        counters_init(server);
        int error = waits_new(&server->waits);
        if (!error)
                error = pool_user_new(NULL, NULL, &server->tasks);
        if (!error)
                error = credentials_new(&config->secrets, &credentials);
        if (!error)
                credentials_replace(&server->credentials, credentials);
        if (!error)
                error = idempotency_new(config->limits.idempotency_max, &server->idempotency);
        if (!error)
                error = server_open(server);
        if (error) {
                http_server_free(server);
                return error;
        }
        server->listener = (struct event_listener){ .told = tell_readers, .context = server };
        event_log_listen(config->events, &server->listener);
        *ret_server = server;
        return 0;
}

/* Whether both are set, or neither. */
static bool both_or_neither(const char *a, const char *b)
{
        return !a == !b;
}

int http_server_reload(struct http_server *server, const struct http_secrets *secrets)
{
        const struct http_secrets *old = &server->credentials.newest->secrets; /* only this function replaces it */
        struct http_credentials *credentials;

        if (!both_or_neither(secrets->token, old->token) || !both_or_neither(secrets->peer_token, old->peer_token) ||
            !both_or_neither(secrets->metrics_token, old->metrics_token) ||
            !both_or_neither(secrets->tls_cert, old->tls_cert) ||
            !both_or_neither(secrets->tls_client_ca, old->tls_client_ca))
                return -EINVAL;
        int error = credentials_new(secrets, &credentials);
        if (error)
                return error;
        error = server->tls ? shard_try(server, credentials) : 0;
        if (error) {
                credentials_unref(credentials);
                return error;
        }
        credentials_replace(&server->credentials, credentials);
        tell_readers(server); /* those whose token is no longer valid end */
        return 0;
}

const char *http_server_url(const struct http_server *server, size_t i)
{
        return server && i < server->n_listeners ? server->listeners[i].url : NULL;
}

void http_server_drain(struct http_server *server)
{
        atomic_store(&server->draining, true);
}

void http_server_unlink(const struct http_server *server)
{
        for (size_t i = 0; i < server->n_listeners; i++)
                listener_unlink(&server->listeners[i]);
}

struct http_server *http_server_free(struct http_server *server)
{
        if (!server)
                return NULL;
        http_server_unlink(server);
        http_server_drain(server);
        event_log_unlisten(server->config.events, &server->listener);
        atomic_store(&server->events_stopped, true);
        tell_readers(server);
        /* No connection may be suspended when libmicrohttpd is stopped: it would abort the process. */
        if (server->waits)
                waits_stop(server->waits);
        users_quiet(&server->users, LAST_ANSWERS_US);
        for (size_t i = 0; i < server->n_threads; i++)
                server_thread_stop(server->threads[i]);
        users_drain(&server->users);
        for (size_t i = 0; i < server->n_threads; i++)
                server_thread_free(server->threads[i]);
        server->tasks = pool_user_free(server->tasks);
        for (size_t i = 0; i < server->n_listeners; i++)
                listener_close(&server->listeners[i]);
        idempotency_free(server->idempotency);
        credentials_source_destroy(&server->credentials);
        waits_free(server->waits);
        users_destroy(&server->users);
        free(server->threads);
        free(server->listeners);
        free(server->route_durations);
        free(server);
        return NULL;
}
