/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <ferry/encoding.h>
#include <ferry/error.h>
#include <ferry/json.h>

#include "base/space.h"
#include "base/util.h"
#include "message/ranges.h"
#include "mover_internal.h"

/*
 * A lane: one connection of the active side, which moves one range after the other. A request is made of the
 * requester's headers and the lane's range; its bytes go straight from and into the memory of the transfer. An answer
 * is not trusted: it must be of the range that was asked for, and not longer. What stopped a copy is in fault, since
 * libcurl only tells that a callback failed.
 *
 * Thread: libcurl's, or that of a GPU (mover.c). After lane_stop() no memory is touched.
 */

enum { CLOSE_MS = 2000 /* of the DELETE */ };

/* Whether the memory could be copied (error 0), else why not. */
static bool is_moved(struct http_lane *lane, int error)
{
        if (error)
                lane->fault = space_error(error);
        return error == 0;
}

/* ---- the request ---- */

/* Where a byte of the transfer is in the offer. */
static uint64_t offer_place(const struct http_lane *lane, uint64_t at)
{
        uint64_t run;

        return ranges_place(lane->requester->spec.remote, at, &run);
}

/*
 * Makes the headers of the next request. Returns false when memory is short, or the bytes for a digest cannot be read:
 * then fault says so.
 */
static bool headers_make(struct http_lane *lane)
{
        const struct http_requester *requester = lane->requester;
        const uint64_t total = requester->base.stream.total, whole = engine_transfer_whole(&requester->spec);
        const char *worker = lane->easy.settings->worker;
        struct curl_slist **headers = &lane->headers;
        char digest[FERRY_DIGEST_TEXT_SIZE];
        uint64_t checksum;

        ferry_headers_free(FERRY_STEAL(*headers));
        if (!ferry_header_add(headers, "Authorization: Bearer %s", requester->key) ||
            !ferry_header_add(headers, "Ferry-Transfer: %s", requester->id) || !ferry_header_add(headers, "Expect:") ||
            (worker && !ferry_header_add(headers, "Ferry-Worker: %s", worker)))
                return false;
        if (lane->closing)
                return !requester->error ||
                       ferry_header_add(headers, "Ferry-Error: %s", ferry_error_code(requester->error));
        if (!ferry_header_add(headers, "Ferry-Bytes: %" PRIu64 "/%" PRIu64, total, whole))
                return false;
        if (requester->spec.direction == ENGINE_READ)
                return !requester->spec.verify || ferry_header_add(headers, "Want-Content-Digest: xxh3=10");
        if (!ferry_header_add(headers, "Content-Range: bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64,
                              offer_place(lane, lane->first), offer_place(lane, lane->end - 1), whole) ||
            !ferry_header_add(headers, "Content-Type: application/octet-stream"))
                return false;
        if (!requester->spec.verify)
                return true;
        if (!is_moved(lane, stream_checksum(&requester->base.stream, lane->first, lane->end - lane->first, &checksum)))
                return false;
        ferry_digest_format(checksum, digest);
        return ferry_header_add(headers, "Content-Digest: %s", digest);
}

/* Makes the request a GET, a PUT or, at the end, a DELETE. Returns false when memory is short. */
static bool set_method(struct http_lane *lane)
{
        CURL *curl = lane->easy.curl;
        char range[64];

        if (lane->closing)
                return curl_easy_setopt(curl, CURLOPT_HTTPGET, 1L) == CURLE_OK && /* no upload any more */
                       curl_easy_setopt(curl, CURLOPT_RANGE, NULL) == CURLE_OK &&
                       curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)CLOSE_MS) == CURLE_OK &&
                       curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, "DELETE") == CURLE_OK;
        if (lane->requester->spec.direction == ENGINE_WRITE)
                return curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L) == CURLE_OK &&
                       curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)(lane->end - lane->first)) ==
                               CURLE_OK;
        (void)snprintf(range, sizeof(range), "%" PRIu64 "-%" PRIu64, offer_place(lane, lane->position),
                       offer_place(lane, lane->end - 1));
        return curl_easy_setopt(curl, CURLOPT_RANGE, range) == CURLE_OK;
}

bool lane_send(struct http_lane *lane)
{
        struct http_requester *requester = lane->requester;

        lane->waiting = false;
        lane->n_text = 0;
        lane->has_digest = lane->in_range = false;
        if (requester->spec.direction == ENGINE_WRITE || requester->spec.verify)
                lane->position = lane->first;
        lane->busy = headers_make(lane) && set_method(lane) &&
                     curl_easy_setopt(lane->easy.curl, CURLOPT_HTTPHEADER, lane->headers) == CURLE_OK &&
                     easy_start(requester->multi, &lane->easy);
        return lane->busy;
}

void lane_stop(struct http_lane *lane)
{
        if (lane->busy)
                easy_stop(&lane->easy);
        lane->busy = lane->waiting = false;
}

/* ---- answers ---- */

long lane_status(const struct http_lane *lane)
{
        long status = 0;

        (void)curl_easy_getinfo(lane->easy.curl, CURLINFO_RESPONSE_CODE, &status);
        return status;
}

/* Whether the value of a Content-Range names what was asked for. */
static bool is_range_asked_for(const struct http_lane *lane, const char *value, size_t size)
{
        char range[64];
        size_t length = (size_t)snprintf(range, sizeof(range), "bytes %" PRIu64 "-%" PRIu64 "/",
                                         offer_place(lane, lane->position), offer_place(lane, lane->end - 1));

        for (; size > 0 && (*value == ' ' || *value == '\t'); size--)
                value++;
        return size > length && strncasecmp(value, range, length) == 0;
}

/* libcurl's callback for each line of the head: the digest and the range of the answer. */
static size_t on_header(char *data, size_t one, size_t size, void *context)
{
        static const char digest[] = "Content-Digest:", range[] = "Content-Range:";
        struct http_lane *lane = context;

        (void)one;
        if (size > strlen(digest) && strncasecmp(data, digest, strlen(digest)) == 0)
                lane->has_digest = ferry_digest_parse(data, size, &lane->digest);
        if (size > strlen(range) && strncasecmp(data, range, strlen(range)) == 0)
                lane->in_range = is_range_asked_for(lane, data + strlen(range), size - strlen(range));
        return easy_count_header(&lane->easy, size);
}

void http_requester_moved(struct http_requester *requester)
{
        uint64_t bytes = requester->bytes;

        for (size_t i = 0; i < requester->n_lanes; i++)
                if (requester->lanes[i].busy && !requester->lanes[i].closing)
                        bytes += requester->lanes[i].position - requester->lanes[i].first;
        if (!http_requester_is_claimed(requester)) {
                http_transfer_set_state(&requester->base, HTTP_MOVING);
                requester->spec.started(requester->spec.context);
                http_transfer_wake_waiters(&requester->base);
        }
        requester->failing_us = 0;
        if (bytes > requester->base.reported)
                requester->base.reported = bytes;
        requester->spec.progress(requester->spec.context, bytes);
}

/* libcurl's callback for the body: bytes of the range, stored at once, or a document. */
static size_t on_body(char *data, size_t one, size_t size, void *context)
{
        struct http_lane *lane = context;
        struct http_requester *requester = lane->requester;
        size_t room = sizeof(lane->text) - 1 - lane->n_text;

        (void)one;
        if (requester->spec.direction == ENGINE_WRITE || lane->closing || lane_status(lane) != 206) {
                memcpy(lane->text + lane->n_text, data, size < room ? size : room);
                lane->n_text += size < room ? size : room;
                return size;
        }
        if (!lane->in_range || size > lane->end - lane->position) {
                lane->fault = "The peer sent a range that was not requested";
                return 0;
        }
        if (!is_moved(lane, stream_store(&requester->base.stream, lane->position, data, size)))
                return 0;
        lane->position += size;
        if (!requester->spec.verify)
                http_requester_arrived(requester, lane->position - size, size);
        http_requester_moved(requester);
        return size;
}

/* libcurl's callback for the body of a PUT. */
static size_t on_send(char *to, size_t one, size_t size, void *context)
{
        struct http_lane *lane = context;
        struct http_requester *requester = lane->requester;
        uint64_t left = lane->end - lane->position;

        size *= one;
        if (!left)
                return 0;
        size = left < size ? left : size;
        if (!is_moved(lane, stream_load(&requester->base.stream, lane->position, to, size)))
                return CURL_READFUNC_ABORT;
        lane->position += size;
        return size;
}

/* The request is sent again: from the first byte of its range. */
static void on_rewind(struct easy *easy)
{
        struct http_lane *lane = FERRY_CONTAINER_OF(easy, struct http_lane, easy);

        if (lane->requester->spec.direction == ENGINE_WRITE)
                lane->position = lane->first;
}

/* libcurl sends the bytes that it had read again, when the connection that it reused turns out to be closed. */
static int on_seek(void *context, curl_off_t offset, int origin)
{
        struct http_lane *lane = context;

        if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > lane->end - lane->first)
                return CURL_SEEKFUNC_FAIL;
        lane->position = lane->first + (uint64_t)offset;
        return CURL_SEEKFUNC_OK;
}

int lane_answer(const struct http_lane *lane, const char *member, char code[64])
{
        struct ferry_json_errors errors = { 0 };
        struct json_object *json = NULL, *value;

        code[0] = '\0';
        if (ferry_json_parse(lane->text, lane->n_text, &json, &errors))
                return -1;
        if (json_object_object_get_ex(json, member, &value) && json_object_is_type(value, json_type_string))
                (void)snprintf(code, 64, "%s", json_object_get_string(value));
        json_object_put(json);
        return ferry_error_from_code(code, 0);
}

int lane_classify(const struct http_lane *lane, long status, char detail[EASY_DETAIL_SIZE])
{
        char code[64];
        int error = lane_answer(lane, "code", code);

        (void)snprintf(detail, EASY_DETAIL_SIZE, "The peer answered HTTP %ld%s%s", status, *code ? ", " : "", code);
        switch (error) {
        case FERRY_E_ALREADY_CLAIMED:
        case FERRY_E_CANCELLED_BY_PEER:
        case FERRY_E_EXPIRED:
        case FERRY_E_DECLINED:
        case FERRY_E_KIND_MISMATCH:
        case FERRY_E_CHECKSUM_MISMATCH:
        case FERRY_E_SIZE_MISMATCH:
                return error;
        case FERRY_E_NOT_FOUND:
                return FERRY_E_STALE_METADATA;
        case FERRY_E_GONE: /* the owner of a claimed operation has ended it */
                return http_requester_is_claimed(lane->requester) ? FERRY_E_CANCELLED_BY_PEER : FERRY_E_STALE_METADATA;
        case FERRY_E_UNAUTHENTICATED:
        case FERRY_E_FORBIDDEN:
                return FERRY_E_PEER_REFUSED;
        default:
                return FERRY_E_TRANSFER_FAILED;
        }
}

/* ---- life ---- */

bool lane_prepare(struct http_lane *lane)
{
        struct easy *easy = &lane->easy;
        long connect_ms = easy->settings->connect_timeout_ms, max_ms = (long)lane->requester->spec.connect_ms_max;

        if (max_ms && max_ms < connect_ms)
                connect_ms = max_ms;
        easy->rewind = on_rewind;
        return easy_prepare(easy) && curl_easy_setopt(easy->curl, CURLOPT_CONNECTTIMEOUT_MS, connect_ms) == CURLE_OK &&
               curl_easy_setopt(easy->curl, CURLOPT_HEADERFUNCTION, on_header) == CURLE_OK &&
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

void lane_clear(struct http_lane *lane)
{
        lane_stop(lane);
        easy_clear(&lane->easy);
        ferry_headers_free(FERRY_STEAL(lane->headers));
}
