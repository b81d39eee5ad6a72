/* SPDX-License-Identifier: Apache-2.0 */
#include "content.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <ferry/encoding.h>
#include <ferry/error.h>
#include <ferry/json.h>

#include "base/clock.h"
#include "base/util.h"

enum {
        FIRST_PART = 1 << 20, /* claims; the other connections wait for it */
        PART = 16 << 20,
        RETRY_US = 100000,
        PATIENCE_US = 1000000, /* how long nothing but failures is borne */
        ABANDON_MS = 2000,     /* the last DELETE of a transfer that has ended here */
};

/* ---- ends ---- */

static void content_end(struct content *content, int error, const char *detail)
{
        struct engine_outcome outcome = { .error = error, .bytes = content->bytes };

        if (content->ended)
                return;
        content->ended = true;
        if (content->claimed)
                (void)snprintf(outcome.transport, sizeof(outcome.transport), "%s", content->secure ? "https" : "http");
        (void)snprintf(outcome.detail, sizeof(outcome.detail), "%s", detail);
        content->transfer.ended(content->transfer.context, &outcome);
}

static void lane_stop(struct content_lane *lane)
{
        if (lane->busy)
                (void)curl_multi_remove_handle(lane->content->multi, lane->easy.curl);
        lane->busy = lane->waiting = false;
}

static void lane_close(struct content_lane *lane);

void content_stop(struct content *content, int reason, const char *detail)
{
        if (content->ended)
                return;
        for (size_t i = 0; i < content->n_lanes; i++)
                lane_stop(&content->lanes[i]);
        content_end(content, reason, detail);
        if (content->contacted)
                lane_close(&content->lanes[0]);
}

bool content_is_over(const struct content *content)
{
        for (size_t i = 0; i < content->n_lanes; i++)
                if (content->lanes[i].busy || content->lanes[i].waiting)
                        return false;
        return content->ended;
}

/* ---- one request ---- */

static bool add_header(struct curl_slist **headers, const char *header)
{
        struct curl_slist *longer = curl_slist_append(*headers, header);

        if (longer)
                *headers = longer;
        return longer != NULL;
}

static void headers_free(struct curl_slist *headers)
{
        for (struct curl_slist *header = headers; header; header = header->next)
                explicit_bzero(header->data, strlen(header->data)); /* one of them is the key */
        curl_slist_free_all(headers);
}

static bool headers_make(struct content_lane *lane)
{
        const struct content *content = lane->content;
        struct curl_slist **headers = &lane->headers;
        char range[96], digest[48], text[FERRY_DIGEST_TEXT_SIZE];

        headers_free(FERRY_STEAL(*headers));
        if (!add_header(headers, content->key_header) || !add_header(headers, content->transfer_header) ||
            !add_header(headers, "Expect:"))
                return false;
        if (lane->closing)
                return true;
        if (content->transfer.direction == ENGINE_READ)
                return !content->transfer.verify || add_header(headers, "Want-Content-Digest: xxh3=10");
        (void)snprintf(range, sizeof(range), "Content-Range: bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, lane->first,
                       lane->end - 1, content->stream.total);
        if (!add_header(headers, range) || !add_header(headers, "Content-Type: application/octet-stream"))
                return false;
        if (!content->transfer.verify)
                return true;
        ferry_digest_format(stream_checksum(&content->stream, lane->first, lane->end - lane->first), text);
        (void)snprintf(digest, sizeof(digest), "Content-Digest: %s", text);
        return add_header(headers, digest);
}

static bool set_method(struct content_lane *lane)
{
        CURL *curl = lane->easy.curl;
        char range[64];

        if (lane->closing)
                return curl_easy_setopt(curl, CURLOPT_UPLOAD, 0L) == CURLE_OK &&
                       curl_easy_setopt(curl, CURLOPT_HTTPGET, 1L) == CURLE_OK &&
                       curl_easy_setopt(curl, CURLOPT_RANGE, NULL) == CURLE_OK &&
                       curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)ABANDON_MS) == CURLE_OK &&
                       curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, "DELETE") == CURLE_OK;
        if (lane->content->transfer.direction == ENGINE_WRITE)
                return curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L) == CURLE_OK &&
                       curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)(lane->end - lane->first)) ==
                               CURLE_OK;
        (void)snprintf(range, sizeof(range), "%" PRIu64 "-%" PRIu64, lane->position, lane->end - 1);
        return curl_easy_setopt(curl, CURLOPT_RANGE, range) == CURLE_OK;
}

/* What a lane is about to do: its range, or the DELETE. */
static void lane_send(struct content_lane *lane)
{
        struct content *content = lane->content;

        lane->waiting = false;
        lane->n_text = 0;
        lane->has_digest = false;
        if (content->transfer.direction == ENGINE_WRITE || content->transfer.verify)
                lane->position = lane->first;
        easy_rearm(&lane->easy);
        if (!headers_make(lane) || !set_method(lane) ||
            curl_easy_setopt(lane->easy.curl, CURLOPT_HTTPHEADER, lane->headers) != CURLE_OK ||
            curl_multi_add_handle(content->multi, lane->easy.curl) != CURLM_OK) {
                content_stop(content, FERRY_E_TRANSFER_FAILED, "memory is short");
                return;
        }
        lane->busy = content->contacted = true;
}

/* After the last range it says that all has arrived, before it that the transfer is given up. */
static void lane_close(struct content_lane *lane)
{
        lane->closing = true;
        lane_send(lane);
}

/* Gives idle lanes what is left. */
static void content_fill(struct content *content)
{
        bool any = false;

        for (size_t i = 0; i < content->n_lanes && !content->ended; i++) {
                struct content_lane *lane = &content->lanes[i];
                uint64_t left = content->stream.total - content->next_offset;
                uint64_t part = content->claimed ? PART : FIRST_PART;

                if (lane->busy || lane->waiting || !left || (!content->claimed && i)) {
                        any |= lane->busy || lane->waiting;
                        continue;
                }
                lane->first = lane->position = content->next_offset;
                lane->end = lane->first + (part < left ? part : left);
                content->next_offset = lane->end;
                any = true;
                lane_send(lane);
        }
        if (!any && !content->ended)
                lane_close(&content->lanes[0]);
}

/* ---- what comes back ---- */

static long status_of(const struct content_lane *lane)
{
        long status = 0;

        (void)curl_easy_getinfo(lane->easy.curl, CURLINFO_RESPONSE_CODE, &status);
        return status;
}

static size_t on_header(char *data, size_t one, size_t size, void *context)
{
        static const char name[] = "Content-Digest:";
        struct content_lane *lane = context;

        (void)one;
        if (size > strlen(name) && strncasecmp(data, name, strlen(name)) == 0)
                lane->has_digest = ferry_digest_parse(data, size, &lane->digest);
        return easy_count_header(&lane->easy, size);
}

static void note_progress(struct content *content)
{
        uint64_t bytes = content->bytes;

        for (size_t i = 0; i < content->n_lanes; i++)
                if (content->lanes[i].busy && !content->lanes[i].closing)
                        bytes += content->lanes[i].position - content->lanes[i].first;
        if (!content->claimed) {
                content->claimed = true;
                content->transfer.started(content->transfer.context);
        }
        content->failing_us = 0;
        content->transfer.progress(content->transfer.context, bytes);
}

static size_t on_body(char *data, size_t one, size_t size, void *context)
{
        struct content_lane *lane = context;
        struct content *content = lane->content;
        size_t room = sizeof(lane->text) - 1 - lane->n_text;

        (void)one;
        if (content->transfer.direction == ENGINE_WRITE || lane->closing || status_of(lane) != 206) {
                memcpy(lane->text + lane->n_text, data, size < room ? size : room);
                lane->n_text += size < room ? size : room;
                return size;
        }
        if (size > lane->end - lane->position)
                return 0;
        stream_store(&content->stream, lane->position, data, size);
        lane->position += size;
        note_progress(content);
        return size;
}

static size_t on_send(char *to, size_t one, size_t size, void *context)
{
        struct content_lane *lane = context;
        uint64_t left = lane->end - lane->position;
        uint8_t *address;

        size *= one;
        if (!left)
                return 0;
        size = stream_run(&lane->content->stream, lane->position, left < size ? left : size, &address);
        memcpy(to, address, size);
        lane->position += size;
        return size;
}

/* curl sends anew what it had read already, on a connection that turned out to be closed. */
static int on_seek(void *context, curl_off_t offset, int origin)
{
        struct content_lane *lane = context;

        if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > lane->end - lane->first)
                return CURL_SEEKFUNC_FAIL;
        lane->position = lane->first + (uint64_t)offset;
        return CURL_SEEKFUNC_OK;
}

/* ---- judging ---- */

/* The code of a problem document, as the table has it; -1 = none. */
static int problem_code(const struct content_lane *lane, const char *member, char code[64])
{
        struct ferry_json_errors errors = { 0 };
        struct ferry_json *json = NULL;
        struct json_object *value;

        code[0] = '\0';
        if (ferry_json_parse(lane->text, lane->n_text, &json, &errors))
                return -1;
        if (json_object_object_get_ex(ferry_json_root(json), member, &value) &&
            json_object_is_type(value, json_type_string))
                (void)snprintf(code, 64, "%s", json_object_get_string(value));
        (void)ferry_json_free(json);
        return ferry_error_from_code(code, 0);
}

/* What a status means that is not the one of success: FERRY_E_* and a sentence. */
static int judge_status(const struct content_lane *lane, long status, char detail[EASY_DETAIL_SIZE])
{
        char code[64];
        int error = problem_code(lane, "code", code);

        (void)snprintf(detail, EASY_DETAIL_SIZE, "The peer answered HTTP %ld%s%s", status, *code ? ", " : "", code);
        switch (error) {
        case FERRY_E_ALREADY_CLAIMED:
        case FERRY_E_CANCELLED_BY_PEER:
        case FERRY_E_EXPIRED:
        case FERRY_E_KIND_MISMATCH:
        case FERRY_E_CHECKSUM_MISMATCH:
                return error;
        case FERRY_E_NOT_FOUND:
                return FERRY_E_STALE_METADATA;
        case FERRY_E_GONE:
                return lane->content->claimed ? FERRY_E_PEER_LOST : FERRY_E_STALE_METADATA;
        case FERRY_E_UNAUTHENTICATED:
        case FERRY_E_FORBIDDEN:
                return FERRY_E_PEER_REFUSED;
        default:
                return FERRY_E_TRANSFER_FAILED;
        }
}

/* Another attempt may do better: the connection broke, or the peer has not yet noticed that it did. */
static bool may_retry(const struct content_lane *lane, CURLcode result, long status, int error)
{
        if (result != CURLE_OK)
                return lane->content->claimed && result != CURLE_WRITE_ERROR && result != CURLE_OUT_OF_MEMORY &&
                       result != CURLE_PEER_FAILED_VERIFICATION;
        return (lane->content->claimed && error == FERRY_E_ALREADY_CLAIMED) || status == 429 || status == 502 ||
               status == 504;
}

static void lane_failed(struct content_lane *lane, CURLcode result, long status)
{
        struct content *content = lane->content;
        uint64_t now = clock_now_us();
        char detail[EASY_DETAIL_SIZE];
        int error;

        if (result == CURLE_OK)
                error = judge_status(lane, status, detail);
        else
                error = easy_judge(&lane->easy, result, "the content", detail);
        if (content->ended)
                return;
        if (!content->failing_us)
                content->failing_us = now;
        if (may_retry(lane, result, status, error) && now - content->failing_us < PATIENCE_US) {
                lane->waiting = true;
                content->retry_us = now + RETRY_US;
                return;
        }
        if (result != CURLE_OK && content->claimed)
                error = FERRY_E_PEER_LOST;
        content_stop(content, error, detail);
}

/* Of a range that has arrived or was stored. */
static void lane_done(struct content_lane *lane)
{
        struct content *content = lane->content;

        if (content->transfer.direction == ENGINE_READ && content->transfer.verify &&
            (!lane->has_digest ||
             lane->digest != stream_checksum(&content->stream, lane->first, lane->end - lane->first))) {
                content_stop(content, lane->has_digest ? FERRY_E_CHECKSUM_MISMATCH : FERRY_E_TRANSFER_FAILED,
                             lane->has_digest ? "" : "The peer sent no digest");
                return;
        }
        content->bytes += lane->end - lane->first;
        note_progress(content);
        content_fill(content);
}

static void on_done(struct easy *easy, CURLcode result)
{
        struct content_lane *lane = FERRY_CONTAINER_OF(easy, struct content_lane, easy);
        struct content *content = lane->content;
        long status = status_of(lane);
        char word[64];

        lane->busy = false;
        if (content->ended)
                return;
        if (lane->closing) {
                if (result != CURLE_OK || status != 200)
                        lane_failed(lane, result, status);
                else if (problem_code(lane, "status", word), strcmp(word, "COMPLETE") == 0)
                        content_end(content, 0, "");
                else
                        content_end(content, FERRY_E_TRANSFER_FAILED, "The peer has not counted every byte");
                return;
        }
        if (result == CURLE_OK && lane->position == lane->end &&
            status == (content->transfer.direction == ENGINE_READ ? 206 : 204))
                lane_done(lane);
        else
                lane_failed(lane, result, status);
}

uint64_t content_run(struct content *content, uint64_t now_us)
{
        bool waits = false;

        for (size_t i = 0; i < content->n_lanes; i++) {
                if (!content->lanes[i].waiting)
                        continue;
                if (now_us >= content->retry_us)
                        lane_send(&content->lanes[i]);
                else
                        waits = true;
        }
        return waits ? content->retry_us : UINT64_MAX;
}

/* ---- life ---- */

void content_start(struct content *content, CURLM *multi)
{
        int reason = content->transfer.stopping(content->transfer.context);

        content->multi = multi;
        if (reason) /* a cancel that came before anybody here knew of the transfer */
                content_stop(content, reason, "");
        else
                content_fill(content);
}

static bool lane_prepare(struct content_lane *lane)
{
        struct easy *easy = &lane->easy;

        easy->done = on_done;
        return easy_prepare(easy) && curl_easy_setopt(easy->curl, CURLOPT_HEADERFUNCTION, on_header) == CURLE_OK &&
               curl_easy_setopt(easy->curl, CURLOPT_HEADERDATA, lane) == CURLE_OK &&
               curl_easy_setopt(easy->curl, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK &&
               curl_easy_setopt(easy->curl, CURLOPT_WRITEDATA, lane) == CURLE_OK &&
               curl_easy_setopt(easy->curl, CURLOPT_READFUNCTION, on_send) == CURLE_OK &&
               curl_easy_setopt(easy->curl, CURLOPT_READDATA, lane) == CURLE_OK &&
               curl_easy_setopt(easy->curl, CURLOPT_SEEKFUNCTION, on_seek) == CURLE_OK &&
               curl_easy_setopt(easy->curl, CURLOPT_SEEKDATA, lane) == CURLE_OK &&
               curl_easy_setopt(easy->curl, CURLOPT_BUFFERSIZE, 512L << 10) == CURLE_OK &&
               curl_easy_setopt(easy->curl, CURLOPT_UPLOAD_BUFFERSIZE, 512L << 10) == CURLE_OK;
}

static int lanes_prepare(struct content *content, const struct easy_settings *settings, const char *url, char *detail,
                         size_t detail_size)
{
        uint64_t parts = 1 + (content->stream.total + PART - 1) / PART;
        int r;

        for (size_t i = 0; i < CONTENT_LANES && i < parts; i++) {
                struct content_lane *lane = &content->lanes[i];

                lane->content = content;
                content->n_lanes = i + 1;
                r = easy_locate(&lane->easy, settings, url, detail, detail_size);
                if (r == 0)
                        r = easy_admit(&lane->easy, detail, detail_size);
                if (r)
                        return r;
                if (!lane_prepare(lane))
                        return -ENOMEM;
        }
        return 0;
}

static void cleanup_content(struct content **content)
{
        *content = content_free(*content);
}

int content_new(const struct easy_settings *settings, const struct engine_transfer *transfer,
                struct content **ret_content, char *detail, size_t detail_size)
{
        FERRY_CLEANUP(cleanup_content) struct content *content = calloc(1, sizeof(*content));
        FERRY_CLEANUP(cleanup_free) char *url = NULL;
        size_t length = strlen(transfer->peer.url);
        char id[FERRY_ID_TEXT_SIZE], key[FERRY_KEY_TEXT_SIZE];
        int r;

        if (!content)
                return -ENOMEM;
        content->transfer = *transfer;
        explicit_bzero(content->transfer.key, sizeof(content->transfer.key));
        content->secure = strncasecmp(transfer->peer.url, "https:", 6) == 0;
        r = stream_init(&content->stream, transfer->segments, transfer->n_segments);
        if (r < 0)
                return r;
        while (length > 0 && transfer->peer.url[length - 1] == '/')
                length--;
        ferry_id_format("op_", transfer->remote_operation, id);
        if (asprintf(&url, "%.*s/v1/operations/%s/content", (int)length, transfer->peer.url, id) < 0) {
                url = NULL;
                return -ENOMEM;
        }
        ferry_key_format(transfer->key, key);
        (void)snprintf(content->key_header, sizeof(content->key_header), "Authorization: Bearer %s", key);
        explicit_bzero(key, sizeof(key));
        ferry_id_format("xfr_", random_id(), id);
        (void)snprintf(content->transfer_header, sizeof(content->transfer_header), "Ferry-Transfer: %s", id);
        r = lanes_prepare(content, settings, url, detail, detail_size);
        if (r)
                return r;
        *ret_content = FERRY_STEAL(content);
        return 0;
}

struct content *content_free(struct content *content)
{
        if (!content)
                return NULL;
        for (size_t i = 0; i < content->n_lanes; i++) {
                lane_stop(&content->lanes[i]);
                easy_clear(&content->lanes[i].easy);
                headers_free(content->lanes[i].headers);
        }
        stream_clear(&content->stream);
        explicit_bzero(content->key_header, sizeof(content->key_header));
        free(content);
        return NULL;
}
