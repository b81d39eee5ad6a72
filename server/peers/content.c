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
#include "base/space.h"
#include "base/util.h"

enum {
        FIRST_PART = 1 << 20, /* claims; the other connections wait for it */
        PART = 16 << 20,
        RETRY_US = 100000,
        PATIENCE_US = 1000000, /* how long nothing but failures is borne */
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

static void lane_start(struct content_lane *lane)
{
        lane->content->contacted = true;
        if (!lane_send(lane))
                content_stop(lane->content, FERRY_E_TRANSFER_FAILED,
                             space_error(lane->content->memory_error ? lane->content->memory_error : -ENOMEM));
}

/* After the last range it says that all has arrived, before it that the transfer is given up. */
static void lane_close(struct content_lane *lane)
{
        lane->closing = true;
        lane_start(lane);
}

/* Bytes of the next range. What is followed comes in small ones: with verify none is passed on before its end. */
static uint64_t part_size(const struct content *content)
{
        const struct engine_transfer *transfer = &content->transfer;
        uint64_t part = content->claimed ? PART : FIRST_PART, left = content->stream.total - content->next_offset;
        uint64_t most = transfer->request_max ? transfer->request_max(transfer->context) : UINT64_MAX;

        part = part < most ? part : most;
        return part < left ? part : left;
}

/* Gives idle lanes what is left. */
static void content_fill(struct content *content)
{
        bool any = false;

        for (size_t i = 0; i < content->n_lanes && !content->ended; i++) {
                struct content_lane *lane = &content->lanes[i];
                uint64_t size = part_size(content);

                if (lane->busy || lane->waiting || !size || (!content->claimed && i)) {
                        any |= lane->busy || lane->waiting;
                        continue;
                }
                lane->first = lane->position = content->next_offset;
                lane->end = lane->first + size;
                content->next_offset = lane->end;
                any = true;
                lane_start(lane);
        }
        if (!any && !content->ended)
                lane_close(&content->lanes[0]);
}

/* ---- what comes back ---- */

static void on_moved(struct content_lane *lane)
{
        struct content *content = lane->content;
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

/* ---- judging ---- */

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
                error = lane_judge(lane, status, detail);
        else
                error = easy_judge(&lane->easy, result, "the content", detail);
        if (content->ended)
                return;
        if (content->memory_error) {
                content_stop(content, FERRY_E_TRANSFER_FAILED, space_error(content->memory_error));
                return;
        }
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
        uint64_t checksum = 0;

        if (content->transfer.direction == ENGINE_READ && content->transfer.verify && lane->has_digest) {
                int r = stream_checksum(&content->stream, lane->first, lane->end - lane->first, &checksum);

                if (r < 0) {
                        content_stop(content, FERRY_E_TRANSFER_FAILED, space_error(r));
                        return;
                }
        }
        if (content->transfer.direction == ENGINE_READ && content->transfer.verify &&
            (!lane->has_digest || lane->digest != checksum)) {
                content_stop(content, lane->has_digest ? FERRY_E_CHECKSUM_MISMATCH : FERRY_E_TRANSFER_FAILED,
                             lane->has_digest ? "" : "The peer sent no digest");
                return;
        }
        if (content->transfer.verify)
                content_arrived(content, lane->first, lane->end - lane->first);
        content->bytes += lane->end - lane->first;
        on_moved(lane);
        content_fill(content);
}

static void on_done(struct easy *easy, CURLcode result)
{
        struct content_lane *lane = FERRY_CONTAINER_OF(easy, struct content_lane, easy);
        struct content *content = lane->content;
        long status = lane_status(lane);
        char word[64];

        lane->busy = false;
        if (content->ended)
                return;
        if (lane->closing) {
                if (result != CURLE_OK || status != 200)
                        lane_failed(lane, result, status);
                else if (lane_answer(lane, "status", word), strcmp(word, "COMPLETE") == 0)
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
                        lane_start(&content->lanes[i]);
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

static int lanes_prepare(struct content *content, const struct easy_settings *settings, const char *url, char *detail,
                         size_t detail_size)
{
        uint64_t parts = 1 + (content->stream.total + PART - 1) / PART;
        int r;

        for (size_t i = 0; i < CONTENT_LANES && i < parts; i++) {
                struct content_lane *lane = &content->lanes[i];

                lane->content = content;
                lane->easy.done = on_done;
                lane->moved = on_moved;
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
                lane_clear(&content->lanes[i]);
        }
        stream_clear(&content->stream);
        explicit_bzero(content->key_header, sizeof(content->key_header));
        free(content);
        return NULL;
}
