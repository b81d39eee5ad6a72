/* SPDX-License-Identifier: Apache-2.0 */
#include "peers_internal.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include <ferry/encoding.h>
#include <ferry/error.h>
#include <ferry/json.h>

#include "base/metrics.h"
#include "base/util.h"

/*
 * One request to another worker, and the queue of all. A fetch is made by any thread, which checks the URL; it is
 * handed to libcurl's thread, which starts it, and ends by one call of fetched() there. Two kinds of document share it
 * (struct fetch_document): the metadata of an operation, and the description of a worker; notices are a third
 * (peers.c).
 *
 * A peer is not trusted: hosts are admitted before the first byte and again when the name is resolved, redirects are
 * not followed, size and time are bounded, and a body is checked whole before it is used. Lock: the peers', a leaf.
 */

/* ---- the metadata of one operation; the URL is its own: {base}/v1/operations/{id}/metadata ---- */

static int metadata_locate(CURLU *url, const char *path, const char **ret_why)
{
        static const char head[] = "/v1/operations/", tail[] = "/metadata";
        const char *id = NULL, *next = path;
        size_t length;

        (void)url;
        /* A proxy may have added a prefix to the path. */
        while ((next = strstr(next, head)))
                id = next = next + strlen(head);
        length = id ? strcspn(id, "/") : 0;
        if (length > 0 && strcmp(id + length, tail) == 0)
                return 0;
        *ret_why = "the URL must end in /v1/operations/{id}/metadata";
        return FERRY_E_INVALID_PARAMETER;
}

static int metadata_classify_status(long status, char detail[EASY_DETAIL_SIZE])
{
        switch (status) {
        case 404:
        case 410:
                (void)snprintf(detail, EASY_DETAIL_SIZE, "the peer no longer has this operation (HTTP %ld)", status);
                return FERRY_E_STALE_METADATA;
        case 401:
        case 403:
                (void)snprintf(detail, EASY_DETAIL_SIZE,
                               "the peer refused to give its metadata (HTTP %ld); both sides need the same peer token",
                               status);
                return FERRY_E_PEER_REFUSED;
        default:
                (void)snprintf(detail, EASY_DETAIL_SIZE, "the peer answered HTTP %ld instead of metadata", status);
                return FERRY_E_TRANSFER_FAILED;
        }
}

static int metadata_classify_body(const char *text, size_t size, struct ferry_metadata **ret_metadata,
                                  struct ferry_json_errors *errors)
{
        return ferry_metadata_decode(text, size, "", ret_metadata, errors);
}

const struct fetch_document fetch_metadata = { "metadata", metadata_locate, metadata_classify_status,
                                               metadata_classify_body };

/* ---- the description of a worker, {base}/v1/worker; the URL is the base ---- */

static int worker_locate(CURLU *url, const char *path, const char **ret_why)
{
        FERRY_CLEANUP(cleanup_free) char *longer = NULL;
        static const CURLUPart parts[] = { CURLUPART_QUERY, CURLUPART_FRAGMENT };
        size_t length = strlen(path);

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(parts); i++) {
                char *text = NULL;

                if (curl_url_get(url, parts[i], &text, 0) != CURLUE_OK)
                        continue;
                curl_free(text);
                *ret_why = "the base URL of a worker has no query and no fragment";
                return FERRY_E_INVALID_PARAMETER;
        }
        while (length > 0 && path[length - 1] == '/')
                length--;
        if (asprintf(&longer, "%.*s/v1/worker", (int)length, path) < 0) {
                longer = NULL;
                return -ENOMEM;
        }
        return curl_url_set(url, CURLUPART_PATH, longer, 0) == CURLUE_OK ? 0 : -ENOMEM;
}

static int worker_classify_status(long status, char detail[EASY_DETAIL_SIZE])
{
        switch (status) {
        case 401:
        case 403:
                (void)snprintf(detail, EASY_DETAIL_SIZE,
                               "the peer refused to identify itself (HTTP %ld); both sides need the same peer token",
                               status);
                return FERRY_E_PEER_REFUSED;
        default:
                (void)snprintf(detail, EASY_DETAIL_SIZE, "the server at this URL (HTTP %ld) is not a Ferry worker",
                               status);
                return FERRY_E_TRANSFER_FAILED;
        }
}

/* Further fields may come from other versions. */
static int worker_decode(struct json_object *object, struct ferry_metadata **ret_metadata,
                         struct ferry_json_errors *errors)
{
        const char *name = ferry_json_get_text(object, "name", FERRY_METADATA_NAME_SIZE), *data = "";
        struct json_object *addresses = json_object_object_get(object, "addresses");
        struct ferry_metadata *metadata;
        char detail[FERRY_JSON_DETAIL_SIZE];
        uint64_t protocol = 0;

        (void)ferry_json_get_uint(json_object_object_get(object, "protocol"), &protocol);
        if (name && ferry_protocol_differs(FERRY_PROTOCOL, protocol, detail, sizeof(detail))) {
                ferry_json_complain(errors, FERRY_E_PROTOCOL_MISMATCH, "/protocol", "%s", detail);
                return FERRY_E_PROTOCOL_MISMATCH;
        }
        if (json_object_object_get_ex(addresses, "data", NULL))
                data = ferry_json_get_text(addresses, "data", FERRY_METADATA_ADDRESS_SIZE);
        metadata = calloc(1, sizeof(*metadata));
        if (!metadata)
                return -ENOMEM;
        if (!name || !data || !ferry_json_get_epoch(object, &metadata->epoch)) {
                free(metadata);
                ferry_json_complain(errors, FERRY_E_INVALID_METADATA, "", "name, epoch or address is missing or wrong");
                return FERRY_E_INVALID_METADATA;
        }
        memcpy(metadata->worker, name, strlen(name));
        memcpy(metadata->data, data, strlen(data));
        *ret_metadata = metadata;
        return 0;
}

static int worker_classify_body(const char *text, size_t size, struct ferry_metadata **ret_metadata,
                                struct ferry_json_errors *errors)
{
        struct json_object *json = NULL;
        int r = ferry_json_parse(text, size, &json, errors);

        if (r == 0)
                r = worker_decode(json, ret_metadata, errors);
        json_object_put(json);
        return r;
}

const struct fetch_document fetch_worker = { "the description of a worker", worker_locate, worker_classify_status,
                                             worker_classify_body };

/* ---- fetches ---- */

static void cleanup_fetch(struct fetch **fetch)
{
        *fetch = fetch_free(*fetch);
}

/* Has the kind of document complete the URL. Returns 0; -ENOMEM; FERRY_E_INVALID_PARAMETER with a sentence. */
static int locate(struct fetch *fetch, char *detail, size_t detail_size)
{
        FERRY_CLEANUP(cleanup_curl) char *path = NULL;
        const char *why = "this is not an http or https URL";
        int r = FERRY_E_INVALID_PARAMETER;

        if (curl_url_get(fetch->easy.url, CURLUPART_PATH, &path, 0) == CURLUE_OK)
                r = fetch->document->locate(fetch->easy.url, path, &why);
        if (r > 0)
                (void)snprintf(detail, detail_size, "%s", why);
        return r;
}

/* Sets up libcurl's handle. Returns false when memory is short. */
static bool prepare(struct fetch *fetch)
{
        return easy_prepare(&fetch->easy) && easy_collect(&fetch->easy, fetch->easy.settings->max_body) &&
               curl_easy_setopt(fetch->easy.curl, CURLOPT_TIMEOUT_MS, fetch->easy.settings->timeout_ms) == CURLE_OK &&
               curl_easy_setopt(fetch->easy.curl, CURLOPT_HTTPHEADER, fetch->easy.settings->headers) == CURLE_OK;
}

int fetch_new(const struct easy_settings *settings, const struct fetch_document *document, const char *url,
              struct fetch **ret_fetch, char *detail, size_t detail_size)
{
        FERRY_CLEANUP(cleanup_fetch) struct fetch *fetch = calloc(1, sizeof(*fetch));
        int r;

        if (!fetch)
                return -ENOMEM;
        fetch->document = document;
        r = easy_locate(&fetch->easy, settings, url, detail, detail_size);
        if (r == 0)
                r = locate(fetch, detail, detail_size);
        if (r == 0)
                r = easy_admit(&fetch->easy, detail, detail_size);
        if (r)
                return r;
        if (!prepare(fetch))
                return -ENOMEM;
        *ret_fetch = FERRY_STEAL(fetch);
        return 0;
}

struct fetch *fetch_free(struct fetch *fetch)
{
        if (!fetch)
                return NULL;
        easy_clear(&fetch->easy);
        ferry_headers_free(fetch->headers);
        free(fetch);
        return NULL;
}

/* Reads the body of an answer. Returns 0 with *ret_metadata, or FERRY_E_* with a sentence. */
static int classify_body(const struct fetch *fetch, struct ferry_metadata **ret_metadata, char detail[EASY_DETAIL_SIZE])
{
        const struct ferry_buffer *body = &fetch->easy.body;
        struct ferry_json_errors errors = { 0 };
        int r = fetch->document->classify_body(body->data ?: "", body->size, ret_metadata, &errors);

        if (r == 0)
                return 0;
        if (r < 0) {
                (void)snprintf(detail, EASY_DETAIL_SIZE, "memory is short");
                return FERRY_E_TRANSFER_FAILED;
        }
        if (r == FERRY_E_PROTOCOL_MISMATCH) {
                (void)snprintf(detail, EASY_DETAIL_SIZE, "%s", errors.items[0].detail);
                return r;
        }
        (void)snprintf(detail, EASY_DETAIL_SIZE, "the peer's answer is not %s: %s", fetch->document->name,
                       errors.n ? errors.items[0].detail : ferry_error_title(r));
        return FERRY_E_INVALID_METADATA;
}

/* Classifies the result: 0 with *ret_metadata, or FERRY_E_* and a sentence. */
static int fetch_classify(const struct fetch *fetch, CURLcode result, struct ferry_metadata **ret_metadata,
                          char detail[EASY_DETAIL_SIZE])
{
        long status = 0;

        detail[0] = '\0';
        if (result != CURLE_OK)
                return easy_classify(&fetch->easy, result, fetch->document->name, detail);
        (void)curl_easy_getinfo(fetch->easy.curl, CURLINFO_RESPONSE_CODE, &status);
        if (status != 200)
                return fetch->document->classify_status(status, detail);
        return classify_body(fetch, ret_metadata, detail);
}

/* ---- those that are queued and run ---- */

/* Ends a fetch that is in neither list any more. */
static void fetch_finish(struct peers *peers, struct fetch *fetch, int error, const char *detail,
                         struct ferry_metadata *metadata)
{
        const char *result = error ? ferry_error_code(error) : "ok";

        metric_add(metric_get(peers->fetches, &result), 1);
        pthread_mutex_lock(&peers->lock);
        peers->count--;
        pthread_mutex_unlock(&peers->lock);
        fetch->fetched(fetch->context, error, detail, metadata);
        fetch_free(fetch);
}

/* Ends a fetch because the worker is. */
static void fetch_cancel(struct peers *peers, struct fetch *fetch)
{
        fetch_finish(peers, fetch, FERRY_E_CANCELLED, "the worker is shutting down", NULL);
}

/* Ends a running fetch. */
static void fetch_abort(struct peers *peers, struct fetch *fetch)
{
        DL_DELETE(peers->running, fetch);
        easy_stop(&fetch->easy);
        fetch_cancel(peers, fetch);
}

/* Not while a name is resolved: libcurl would wait for the resolver. */
static void abort_unwanted(struct peers *peers)
{
        struct fetch *fetch, *next;

        DL_FOREACH_SAFE (peers->running, fetch, next)
                if ((fetch->easy.fresh || fetch->easy.connected) && fetch->wanted && !fetch->wanted(fetch->context))
                        fetch_abort(peers, fetch);
}

/* Starts queued fetches. */
static void take_fetches(struct peers *peers)
{
        struct fetch *queued, *fetch, *next;
        bool stopping;

        pthread_mutex_lock(&peers->lock);
        queued = FERRY_STEAL(peers->queued);
        stopping = peers->stopping;
        pthread_mutex_unlock(&peers->lock);
        DL_FOREACH_SAFE (queued, fetch, next) {
                DL_DELETE(queued, fetch);
                if (stopping) {
                        fetch_cancel(peers, fetch);
                } else if (!easy_start(&peers->thread->multi, &fetch->easy)) {
                        fetch_finish(peers, fetch, FERRY_E_TRANSFER_FAILED, "memory is short", NULL);
                } else {
                        DL_APPEND(peers->running, fetch);
                }
        }
}

/* libcurl has done with a fetch: classifies what came, and tells its owner. */
static void on_fetch_done(struct easy *easy, CURLcode result)
{
        struct fetch *fetch = FERRY_CONTAINER_OF(easy, struct fetch, easy);
        struct peers *peers = fetch->peers;
        struct ferry_metadata *metadata = NULL;
        char detail[EASY_DETAIL_SIZE];
        int error;

        DL_DELETE(peers->running, fetch);
        error = fetch_classify(fetch, result, &metadata, detail);
        fetch_finish(peers, fetch, error, detail, metadata);
}

uint64_t peers_run(struct easy_user *user, uint64_t now_us)
{
        struct peers *peers = FERRY_CONTAINER_OF(user, struct peers, user);

        take_fetches(peers);
        abort_unwanted(peers);
        return UINT64_MAX;
}

void peers_stop(struct easy_user *user)
{
        struct peers *peers = FERRY_CONTAINER_OF(user, struct peers, user);
        struct fetch *fetch, *next;

        pthread_mutex_lock(&peers->lock);
        peers->stopping = true;
        pthread_mutex_unlock(&peers->lock);
        take_fetches(peers);
        DL_FOREACH_SAFE (peers->running, fetch, next)
                fetch_abort(peers, fetch);
}

/* ---- queueing ---- */

int peers_fetch_queue(struct peers *peers, struct fetch *fetch, peers_fetched fetched, peers_wanted wanted,
                      void *context, char *detail, size_t detail_size)
{
        bool full;

        fetch->peers = peers;
        fetch->easy.done = on_fetch_done;
        fetch->fetched = fetched;
        fetch->wanted = wanted;
        fetch->context = context;
        pthread_mutex_lock(&peers->lock);
        full = peers->count >= peers->max_fetches;
        if (!full) {
                peers->count++;
                DL_APPEND(peers->queued, fetch);
        }
        pthread_mutex_unlock(&peers->lock);
        if (full) {
                fetch_free(fetch);
                (void)snprintf(detail, detail_size, "%zu documents are being fetched from peers, which is the limit",
                               peers->max_fetches);
                return FERRY_E_LIMIT_REACHED;
        }
        easy_thread_wake(peers->thread);
        return 0;
}

int peers_fetch(struct peers *peers, const struct fetch_document *document, const char *url, peers_fetched fetched,
                peers_wanted wanted, void *context, char *detail, size_t detail_size)
{
        struct fetch *fetch;
        int r;

        if (detail_size)
                detail[0] = '\0';
        r = easy_thread_start(peers->thread);
        if (!r)
                r = fetch_new(&peers->settings, document, url, &fetch, detail, detail_size);
        return r ? r : peers_fetch_queue(peers, fetch, fetched, wanted, context, detail, detail_size);
}
