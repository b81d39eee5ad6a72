/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/metadata.h>

#include "base/log.h"
#include "base/metrics.h"
#include "base/util.h"
#include "operations/operations.h"
#include "peers/peers.h"
#include "peers_internal.h"
#include "registry_internal.h"

enum {
        DEFAULT_CONNECT_MS = 3000,
        DEFAULT_TIMEOUT_MS = 10000,
        DEFAULT_BODY = 8 << 20,
};

/* Thread: any. */
static int on_registry_wake(void *context)
{
        struct peers *peers = context;
        int r = peers_thread_start(peers);

        if (r == 0)
                peers_thread_wake(peers);
        return r;
}

static bool headers_make(const char *token, struct curl_slist **headers)
{
        FERRY_CLEANUP(cleanup_free) char *authorization = NULL;

        if (!ferry_header_add(headers, "Accept: application/json"))
                return false;
        if (!token)
                return true;
        if (asprintf(&authorization, "Authorization: Bearer %s", token) < 0) {
                authorization = NULL;
                return false;
        }
        bool added = ferry_header_add(headers, authorization);
        explicit_bzero(authorization, strlen(authorization));
        return added;
}

int peers_set_token(struct peers *peers, const char *token)
{
        struct headers_kept *kept = calloc(1, sizeof(*kept));

        if (!kept)
                return -ENOMEM;
        bool made = headers_make(token, &kept->headers);
        kept->next = peers->kept;
        peers->kept = kept;
        if (!made)
                return -ENOMEM;
        peers->settings.headers = kept->headers;
        return 0;
}

static int settings_make(struct peers *peers, const struct peers_config *config)
{
        struct easy_settings *settings = &peers->settings;

        settings->allowlist = config->allowlist;
        settings->ca_file = config->ca_file;
        settings->cert_file = config->cert_file;
        settings->key_file = config->key_file;
        settings->user_agent = config->user_agent;
        settings->connect_timeout_ms = (long)(config->connect_timeout_ms ?: DEFAULT_CONNECT_MS);
        settings->timeout_ms = (long)(config->timeout_ms ?: DEFAULT_TIMEOUT_MS);
        settings->max_body = config->max_body ?: DEFAULT_BODY;
        peers->max_fetches = config->max_fetches ?: PEERS_FETCHES_MAX;
        settings->worker = peers->worker = config->worker ? strdup(config->worker) : NULL;
        if (config->worker && !peers->worker)
                return -ENOMEM;
        return peers_set_token(peers, config->token);
}

static void cleanup_peers(struct peers **peers)
{
        *peers = peers_free(*peers);
}

int peers_new(const struct peers_config *config, struct peers **ret_peers)
{
        FERRY_CLEANUP(cleanup_peers) struct peers *peers = calloc(1, sizeof(*peers));
        int r;

        if (!peers)
                return -ENOMEM;
        pthread_mutex_init(&peers->lock, NULL);
        pthread_mutex_init(&peers->start_lock, NULL);
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(peers->threads); i++)
                peers->threads[i].peers = peers;
        r = settings_make(peers, config);
        if (r < 0)
                return r;
        peers->fetches =
                metrics_by_code(config->metrics, "ferry_peer_fetches_total",
                                "Documents fetched from other workers, by result: ok, or the error's code.", "result");
        (void)metric_get(peers->fetches, (const char *const[]){ "ok" });
        peers->registry = config->registry;
        if (peers->registry)
                registry_attach(peers->registry, on_registry_wake, peers);
        *ret_peers = FERRY_STEAL(peers);
        return 0;
}

struct peers *peers_free(struct peers *peers)
{
        if (!peers)
                return NULL;
        peers_threads_stop(peers);
        while (peers->kept) {
                struct headers_kept *kept = peers->kept;
                ferry_headers_free(kept->headers);
                peers->kept = kept->next;
                free(kept);
        }
        free(peers->worker);
        pthread_mutex_destroy(&peers->start_lock);
        pthread_mutex_destroy(&peers->lock);
        free(peers);
        return NULL;
}

int peers_check_url(struct peers *peers, const char *url, char *detail, size_t detail_size)
{
        struct fetch *fetch;
        int r;

        if (name_url_is(url))
                return name_url_check(peers->registry, url, false, detail, detail_size);
        r = peers_thread_start(peers);
        if (!r)
                r = fetch_new(&peers->settings, &fetch_metadata, url, &fetch, detail, detail_size);
        if (!r)
                fetch_free(fetch);
        return r;
}

int peers_fetch_metadata(struct peers *peers, const char *url, peers_fetched fetched, peers_wanted wanted,
                         void *context, char *detail, size_t detail_size)
{
        if (name_url_is(url))
                return name_url_fetch(peers, peers->registry, false, url, fetched, wanted, context, detail,
                                      detail_size);
        return peers_fetch(peers, &fetch_metadata, url, fetched, wanted, context, detail, detail_size);
}

int peers_fetch_worker(struct peers *peers, const char *url, peers_fetched fetched, void *context, char *detail,
                       size_t detail_size)
{
        if (name_url_is(url))
                return name_url_fetch(peers, peers->registry, true, url, fetched, NULL, context, detail, detail_size);
        return peers_fetch(peers, &fetch_worker, url, fetched, NULL, context, detail, detail_size);
}

/* ---- operations ---- */

/* The state between the request and the fetched metadata. */
struct remote {
        struct operation_store *store;
        struct operation *operation; /* a reference */
};

static void on_fetched(void *context, int error, const char *detail, struct ferry_metadata *metadata)
{
        struct remote *remote = context;
        char reason[OPERATION_DETAIL_SIZE] = "";

        if (!error) {
                error = operation_begin(remote->store, remote->operation, metadata, false, reason);
                detail = reason;
        }
        if (error < 0) {
                log_event(LOG_ERROR, "operation not started", LOG_S("reason", strerror(-error)));
                error = FERRY_E_INTERNAL;
                detail = NULL;
        }
        if (error)
                operation_fail(remote->store, remote->operation, error,
                               detail && *detail ? detail : ferry_error_title(error));
        ferry_metadata_free(metadata);
        operation_unref(remote->operation);
        free(remote);
}

static bool is_wanted(void *context)
{
        const struct remote *remote = context;

        return !operation_is_past(remote->store, remote->operation, 0);
}

int remote_begin(struct operation_store *store, struct peers *peers, struct operation *operation, const char *url,
                 char *detail, size_t detail_size)
{
        struct remote *remote = malloc(sizeof(*remote));

        if (!remote)
                return -ENOMEM;
        remote->store = store;
        remote->operation = operation_ref(operation);
        int error = peers_fetch_metadata(peers, url, on_fetched, is_wanted, remote, detail, detail_size);
        if (error) {
                operation_unref(remote->operation);
                free(remote);
        }
        return error;
}
