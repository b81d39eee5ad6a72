/* SPDX-License-Identifier: Apache-2.0 */
#include "peers_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <ferry/encoding.h>
#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/metadata.h>
#include <ferry/status.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/util.h"
#include "move/engine.h"
#include "operations/operations.h"
#include "peers/peers.h"

/*
 * HTTP to other workers: see peers.h. One struct for the worker, made after libcurl's thread and freed before
 * it; the thread runs its fetches (fetch.c) as one of its users. Here are the settings of all requests, the operations
 * that begin with a URL (remote_begin), and notices over HTTP.
 *
 * Thread: any; callbacks run on libcurl's. A token that is replaced stays in kept, since running fetches send the old
 * headers.
 */

enum {
        DEFAULT_CONNECT_MS = 3000,
        DEFAULT_TIMEOUT_MS = 10000,
        DEFAULT_BODY = 8 << 20,
};

/*
 * Makes the headers of a fetch: Accept, and the bearer token if there is one. Returns false when memory is short; then
 * *headers may have some of them.
 */
static bool headers_make(const char *token, struct curl_slist **headers)
{
        return ferry_header_add(headers, "Accept: application/json") &&
               (!token || ferry_header_add(headers, "Authorization: Bearer %s", token));
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

/* Fills in the defaults. Returns 0 or -ENOMEM. */
static int settings_make(struct peers *peers, const struct peers_config *config)
{
        struct easy_settings *settings = &peers->settings;

        *settings = config->easy;
        settings->connect_timeout_ms = settings->connect_timeout_ms ?: DEFAULT_CONNECT_MS;
        settings->timeout_ms = settings->timeout_ms ?: DEFAULT_TIMEOUT_MS;
        settings->max_body = settings->max_body ?: DEFAULT_BODY;
        peers->max_fetches = config->max_fetches ?: PEERS_FETCHES_MAX;
        settings->worker = peers->worker = settings->worker ? strdup(settings->worker) : NULL;
        if (config->easy.worker && !peers->worker)
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
        r = settings_make(peers, config);
        if (r < 0)
                return r;
        peers->fetches =
                metrics_by_code(config->metrics, "ferry_peer_fetches_total",
                                "Documents fetched from other workers, by result: ok, or the error's code.", "result");
        (void)metric_get(peers->fetches, (const char *const[]){ "ok" });
        peers->registry = config->registry;
        peers->thread = config->thread;
        peers->user = (struct easy_user){ .run = peers_run, .stop = peers_stop };
        easy_thread_add(peers->thread, &peers->user);
        *ret_peers = FERRY_STEAL(peers);
        return 0;
}

struct peers *peers_free(struct peers *peers)
{
        if (!peers)
                return NULL;
        if (peers->thread)
                easy_thread_stop(peers->thread);
        while (peers->kept) {
                struct headers_kept *kept = peers->kept;
                ferry_headers_free(kept->headers);
                peers->kept = kept->next;
                free(kept);
        }
        free(peers->worker);
        pthread_mutex_destroy(&peers->lock);
        free(peers);
        return NULL;
}

const struct easy_settings *peers_settings(const struct peers *peers)
{
        return &peers->settings;
}

int peers_check_url(struct peers *peers, const char *url, char *detail, size_t detail_size)
{
        struct fetch *fetch;
        int r;

        if (name_url_is(url))
                return name_url_check(peers->registry, url, false, detail, detail_size);
        r = easy_thread_start(peers->thread);
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

/* The metadata are there, or are not to come: begins or ends the operation. */
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

/* An operation that has ended needs no metadata: it was cancelled meanwhile. */
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

/* ---- notices to the peers of offers ---- */

/* A notice to a peer over HTTP: POST {base}/v1/operations/{id}/decline, or …/renew, with the operation's key. */

enum { NOTICE_BODY_MAX = 64 << 10, NOTICE_URL_MAX = 640 };

/* ---- what it means ---- */

/* The error of a status other than 200, as peers_notice() lists them. */
static int classify_status(long status, char detail[EASY_DETAIL_SIZE])
{
        static const struct {
                long status;
                int error;
                const char *why;
        } rows[] = {
                { 401, FERRY_E_PEER_REFUSED, "the peer does not take the key of the metadata" },
                { 403, FERRY_E_FORBIDDEN,
                  "the key is not that of the operation, or its owner lets no holder renew it" },
                { 404, FERRY_E_STALE_METADATA, "the peer no longer has this operation" },
                { 409, FERRY_E_ALREADY_CLAIMED, "a peer is moving its bytes, or no use of it is left" },
                { 410, FERRY_E_GONE, "the operation has ended" },
                { 503, FERRY_E_DRAINING, "the peer is shutting down" },
        };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(rows); i++) {
                if (rows[i].status != status)
                        continue;
                (void)snprintf(detail, EASY_DETAIL_SIZE, "%s (HTTP %ld)", rows[i].why, status);
                return rows[i].error;
        }
        (void)snprintf(detail, EASY_DETAIL_SIZE, "the peer answered HTTP %ld", status);
        return FERRY_E_TRANSFER_FAILED;
}

/* RFC 3339, as workers write it; 0 = it is something else. */
static uint64_t parse_time(const char *text)
{
        struct tm tm = { 0 };
        unsigned ms = 0;

        if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d.%3uZ", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour, &tm.tm_min,
                   &tm.tm_sec, &ms) < 6)
                return 0;
        tm.tm_year -= 1900;
        tm.tm_mon--;
        time_t seconds = timegm(&tm);
        return seconds > 0 ? (uint64_t)seconds * 1000 + ms : 0;
}

/* Of the metadata operation_kind is the enum ferry_status, and expires_ms when the operation expires. */
static int classify_body(const char *text, size_t size, struct ferry_metadata **ret_metadata,
                         struct ferry_json_errors *errors)
{
        struct json_object *json = NULL;
        int r = ferry_json_parse(text, size, &json, errors);
        const char *word = r ? NULL : ferry_json_get_text(json, "status", 32),
                   *time = r ? NULL : ferry_json_get_text(json, "expires_at", 64);
        int status = word ? ferry_status_from_name(word) : -1;
        struct ferry_metadata *metadata = r || status < 0 ? NULL : calloc(1, sizeof(*metadata));

        if (!r && status < 0) {
                ferry_json_complain(errors, FERRY_E_INVALID_METADATA, "/status", "is missing or unknown");
                r = FERRY_E_INVALID_METADATA;
        } else if (!r && !metadata) {
                r = -ENOMEM;
        }
        if (metadata) {
                metadata->operation_kind = status;
                metadata->expires_ms = time ? parse_time(time) : 0;
                *ret_metadata = metadata;
        }
        json_object_put(json);
        return r;
}

/* The URL is one of ours. */
static int locate(CURLU *url, const char *path, const char **ret_why)
{
        return 0;
}

static const struct fetch_document document = { "an answer to a notice", locate, classify_status, classify_body };

/* ---- the request ---- */

/*
 * The key of the metadata authorises the notice, in place of a token; the transfer's id makes a repetition known as
 * such.
 */
static bool add_headers(struct fetch *fetch, const struct engine_notice *notice)
{
        char key[FERRY_KEY_TEXT_SIZE], id[FERRY_ID_TEXT_SIZE];
        bool added;

        ferry_key_format(notice->key, key);
        ferry_id_format("xfr_", notice->transfer, id);
        added = ferry_header_add(&fetch->headers, "Accept: application/json") &&
                ferry_header_add(&fetch->headers, "Authorization: Bearer %s", key) &&
                ferry_header_add(&fetch->headers, "Ferry-Transfer: %s", id) &&
                (!notice->ttl_ms || ferry_header_add(&fetch->headers, "Content-Type: application/json"));
        explicit_bzero(key, sizeof(key));
        return added;
}

/* Makes the fetch a POST. Returns false when memory is short. */
static bool prepare(struct fetch *fetch, const struct engine_notice *notice)
{
        CURL *curl = fetch->easy.curl;
        char body[48] = "";

        if (notice->ttl_ms)
                (void)snprintf(body, sizeof(body), "{\"ttl_ms\":%" PRIu64 "}", notice->ttl_ms);
        return add_headers(fetch, notice) && curl_easy_setopt(curl, CURLOPT_POST, 1L) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)strlen(body)) == CURLE_OK &&
               curl_easy_setopt(curl, CURLOPT_COPYPOSTFIELDS, body) == CURLE_OK &&
               easy_collect(&fetch->easy, NOTICE_BODY_MAX) &&
               curl_easy_setopt(curl, CURLOPT_HTTPHEADER, fetch->headers) == CURLE_OK;
}

/* A notice under way, and whom to tell of the answer. */
struct notice {
        struct engine_connect spec; /* peer is not kept */
        char transport[8];
};

/* Tells whoever said the notice, as the engine does over a link. */
static void on_answered(void *context, int error, const char *detail, struct ferry_metadata *metadata)
{
        struct notice *notice = context;
        struct engine_connection connection = { .error = error };
        uint64_t now_ms = clock_unix_ms();

        if (error) {
                (void)snprintf(connection.detail, sizeof(connection.detail), "%s", detail ?: "");
        } else {
                connection.status = metadata->operation_kind;
                connection.left_ms = metadata->expires_ms > now_ms ? metadata->expires_ms - now_ms : 0;
                memcpy(connection.transport, notice->transport, sizeof(notice->transport));
        }
        ferry_metadata_free(metadata);
        notice->spec.connected(notice->spec.context, &connection);
        free(notice);
}

int peers_notice(void *context, const struct engine_connect *spec, char *detail, size_t detail_size)
{
        struct peers *peers = context;
        struct notice *notice = calloc(1, sizeof(*notice));
        char url[NOTICE_URL_MAX], id[FERRY_ID_TEXT_SIZE];
        struct fetch *fetch;
        int r;

        if (!notice)
                return -ENOMEM;
        notice->spec.connected = spec->connected;
        notice->spec.context = spec->context;
        (void)snprintf(notice->transport, sizeof(notice->transport), "%s",
                       strncmp(spec->peer.url, "https:", 6) == 0 ? "https" : "http");
        ferry_id_format("op_", spec->notice.operation, id);
        (void)snprintf(url, sizeof(url), "%s/v1/operations/%s/%s", spec->peer.url, id,
                       spec->notice.renews ? "renew" : "decline");
        r = easy_thread_start(peers->thread);
        if (!r)
                r = fetch_new(&peers->settings, &document, url, &fetch, detail, detail_size);
        if (!r && !prepare(fetch, &spec->notice)) {
                fetch = fetch_free(fetch);
                r = -ENOMEM;
        }
        if (!r)
                r = peers_fetch_queue(peers, fetch, on_answered, NULL, notice, detail, detail_size);
        if (r)
                free(notice);
        return r;
}
