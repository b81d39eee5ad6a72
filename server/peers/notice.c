/* SPDX-License-Identifier: Apache-2.0 */
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
#include <ferry/status.h>

#include "base/clock.h"
#include "base/util.h"
#include "peers_internal.h"
#include "transfer/engine.h"

/* A notice to a peer over HTTP: POST {base}/v1/operations/{id}/decline, or …/renew, with the operation's key. */

enum { NOTICE_BODY_MAX = 64 << 10, NOTICE_URL_MAX = 640 };

/* ---- what it means ---- */

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

static bool add_headers(struct fetch *fetch, const struct engine_notice *notice)
{
        char key[FERRY_KEY_TEXT_SIZE], authorization[FERRY_KEY_TEXT_SIZE + 32], transfer[64], id[FERRY_ID_TEXT_SIZE];
        bool added;

        ferry_key_format(notice->key, key);
        (void)snprintf(authorization, sizeof(authorization), "Authorization: Bearer %s", key);
        ferry_id_format("xfr_", notice->transfer, id);
        (void)snprintf(transfer, sizeof(transfer), "Ferry-Transfer: %s", id);
        added = ferry_header_add(&fetch->headers, "Accept: application/json") &&
                ferry_header_add(&fetch->headers, authorization) && ferry_header_add(&fetch->headers, transfer) &&
                (!notice->ttl_ms || ferry_header_add(&fetch->headers, "Content-Type: application/json"));
        explicit_bzero(key, sizeof(key));
        explicit_bzero(authorization, sizeof(authorization));
        return added;
}

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
