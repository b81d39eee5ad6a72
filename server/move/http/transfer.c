/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <ferry/encoding.h>
#include <ferry/error.h>

#include "base/clock.h"
#include "base/space.h"
#include "base/util.h"
#include "wire/ranges.h"

enum {
        FIRST_PART = 1 << 20, /* of the range that claims; the other connections wait for it */
        PART = 16 << 20,
        RETRY_US = 100000,
        PATIENCE_US = 1000000, /* how long retries go on without a byte moved */
};

/* ---- telling ---- */

static const char *carrier_of(const struct http_transfer *transfer)
{
        return strncasecmp(transfer->url, "https:", 6) == 0 ? "https" : "http";
}

void http_transfer_note(const struct http_transfer *transfer, const struct engine_outcome *outcome)
{
        const unsigned others = ~(unsigned)(ENGINE_CARRIER_HTTP | ENGINE_CARRIER_HTTPS);
        const struct engine_http_note note = {
                .peer = transfer->spec.peer,
                .transport = carrier_of(transfer),
                .chosen = transfer->spec.carriers && !(transfer->spec.carriers & others),
                .outcome = outcome,
        };

        if (transfer->config->note)
                transfer->config->note(transfer->config->context, &note);
}

static void wake_waiters(const struct http_transfer *transfer)
{
        if (transfer->config->wake_waiters)
                transfer->config->wake_waiters(transfer->config->context);
}

/* ---- ends ---- */

static void http_transfer_end(struct http_transfer *transfer, int error, const char *detail)
{
        struct engine_outcome outcome = { .error = error, .bytes = error ? transfer->reported : transfer->bytes };

        if (transfer->ended)
                return;
        transfer->ended = true;
        transfer->error = error;
        if (transfer->claimed)
                (void)snprintf(outcome.transport, sizeof(outcome.transport), "%s", carrier_of(transfer));
        (void)snprintf(outcome.detail, sizeof(outcome.detail), "%s", detail);
        http_transfer_note(transfer, &outcome);
        transfer->spec.ended(transfer->spec.context, &outcome);
        wake_waiters(transfer);
}

static void lane_close(struct http_lane *lane);

void http_transfer_stop(struct http_transfer *transfer, int reason, const char *detail)
{
        if (transfer->ended)
                return;
        for (size_t i = 0; i < transfer->n_lanes; i++)
                lane_stop(&transfer->lanes[i]);
        http_transfer_end(transfer, reason, detail);
        if (transfer->contacted)
                lane_close(&transfer->lanes[0]);
}

void http_transfer_cancel(struct http_transfer *transfer, int reason)
{
        if (!transfer->lanes[0].closing)
                http_transfer_stop(transfer, reason, "");
}

bool http_transfer_is_over(const struct http_transfer *transfer)
{
        for (size_t i = 0; i < transfer->n_lanes; i++)
                if (transfer->lanes[i].busy)
                        return false;
        return transfer->ended;
}

static void lane_start(struct http_lane *lane)
{
        lane->transfer->contacted = true;
        if (!lane_send(lane))
                http_transfer_stop(lane->transfer, FERRY_E_TRANSFER_FAILED, lane->fault ?: space_error(-ENOMEM));
}

/* Sends the DELETE: after the last range it reports success, before it that the transfer is given up. */
static void lane_close(struct http_lane *lane)
{
        lane->closing = true;
        lane_start(lane);
}

/* Bytes of the next range, which ends where its range of the offer does. For a followed read it is small: with verify
 * no byte is passed on before the range ends. */
static uint64_t part_size(const struct http_transfer *transfer)
{
        const struct engine_transfer *spec = &transfer->spec;
        uint64_t part = transfer->claimed ? PART : FIRST_PART, left = transfer->stream.total - transfer->next_offset;
        uint64_t most = spec->request_max ? spec->request_max(spec->context) : UINT64_MAX, run;

        if (!left)
                return 0;
        (void)ranges_place(spec->remote, transfer->next_offset, &run);
        left = run < left ? run : left;
        part = part < most ? part : most;
        return part < left ? part : left;
}

/* Gives idle lanes the next ranges, or closes when none is left. */
static void http_transfer_fill(struct http_transfer *transfer)
{
        bool any = false;

        for (size_t i = 0; i < transfer->n_lanes && !transfer->ended; i++) {
                struct http_lane *lane = &transfer->lanes[i];
                uint64_t size = part_size(transfer), run;

                if (lane->busy || lane->waiting || !size || (!transfer->claimed && i)) {
                        any |= lane->busy || lane->waiting;
                        continue;
                }
                lane->first = lane->position = transfer->next_offset;
                lane->end = lane->first + size;
                lane->place = ranges_place(transfer->spec.remote, lane->first, &run);
                transfer->next_offset = lane->end;
                any = true;
                lane_start(lane);
        }
        if (!any && !transfer->ended)
                lane_close(&transfer->lanes[0]);
}

/* ---- answers ---- */

static void on_moved(struct http_lane *lane)
{
        struct http_transfer *transfer = lane->transfer;
        uint64_t bytes = transfer->bytes;

        for (size_t i = 0; i < transfer->n_lanes; i++)
                if (transfer->lanes[i].busy && !transfer->lanes[i].closing)
                        bytes += transfer->lanes[i].position - transfer->lanes[i].first;
        if (!transfer->claimed) {
                transfer->claimed = true;
                transfer->spec.started(transfer->spec.context);
                wake_waiters(transfer);
        }
        transfer->failing_us = 0;
        if (bytes > transfer->reported)
                transfer->reported = bytes;
        transfer->spec.progress(transfer->spec.context, bytes);
}

/* ---- results ---- */

/*
 * A retry may succeed: the connection broke, or the peer has not yet noticed that it did. The peer takes a request that
 * it gets twice for one of the same transfer. Without a claim a peer that cannot be reached is given up at once.
 */
static bool may_retry(const struct http_lane *lane, CURLcode result, long status, int error)
{
        bool claimed = lane->transfer->claimed;

        switch (result) {
        case CURLE_OK:
                return ((claimed || lane->transfer->broken) && error == FERRY_E_ALREADY_CLAIMED) || status == 429 ||
                       status == 502 || status == 504;
        case CURLE_SEND_ERROR:
        case CURLE_RECV_ERROR:
        case CURLE_GOT_NOTHING:
        case CURLE_PARTIAL_FILE:
                return claimed || lane->easy.connected;
        default:
                return claimed && result != CURLE_WRITE_ERROR && result != CURLE_OUT_OF_MEMORY &&
                       result != CURLE_PEER_FAILED_VERIFICATION;
        }
}

static void lane_failed(struct http_lane *lane, CURLcode result, long status)
{
        struct http_transfer *transfer = lane->transfer;
        int stopping = lane->closing ? transfer->spec.stopping(transfer->spec.context) : 0, error;
        uint64_t now = clock_now_us();
        char detail[EASY_DETAIL_SIZE];

        if (result == CURLE_OK)
                error = lane_classify(lane, status, detail);
        else
                error = easy_classify(&lane->easy, result, "the content", detail);
        transfer->broken |= result != CURLE_OK || lane->easy.repeated;
        if (lane->fault) {
                http_transfer_stop(transfer, FERRY_E_TRANSFER_FAILED, lane->fault);
                return;
        }
        if (!transfer->failing_us)
                transfer->failing_us = now;
        if (!stopping && may_retry(lane, result, status, error) && now - transfer->failing_us < PATIENCE_US) {
                lane->waiting = true;
                transfer->retry_us = now + RETRY_US;
                return;
        }
        if (result != CURLE_OK && transfer->claimed)
                error = FERRY_E_PEER_LOST;
        else if (stopping)
                error = stopping;
        http_transfer_stop(transfer, error, detail);
}

/* A range has arrived or was stored. */
static void lane_done(struct http_lane *lane)
{
        struct http_transfer *transfer = lane->transfer;
        uint64_t checksum = 0;

        if (transfer->spec.direction == ENGINE_READ && transfer->spec.verify && lane->has_digest) {
                int r = stream_checksum(&transfer->stream, lane->first, lane->end - lane->first, &checksum);

                if (r < 0) {
                        http_transfer_stop(transfer, FERRY_E_TRANSFER_FAILED, space_error(r));
                        return;
                }
        }
        if (transfer->spec.direction == ENGINE_READ && transfer->spec.verify &&
            (!lane->has_digest || lane->digest != checksum)) {
                http_transfer_stop(transfer, lane->has_digest ? FERRY_E_CHECKSUM_MISMATCH : FERRY_E_TRANSFER_FAILED,
                                   lane->has_digest ? "" : "The peer sent no digest");
                return;
        }
        if (transfer->spec.verify)
                http_transfer_arrived(transfer, lane->first, lane->end - lane->first);
        transfer->bytes += lane->end - lane->first;
        on_moved(lane);
        http_transfer_fill(transfer);
}

static void on_done(struct easy *easy, CURLcode result)
{
        struct http_lane *lane = FERRY_CONTAINER_OF(easy, struct http_lane, easy);
        struct http_transfer *transfer = lane->transfer;
        long status = lane_status(lane);
        char word[64];

        lane->busy = false;
        if (transfer->ended)
                return;
        if (lane->closing) {
                if (result != CURLE_OK || status != 200)
                        lane_failed(lane, result, status);
                else if (lane_answer(lane, "status", word), strcmp(word, "COMPLETE") == 0)
                        http_transfer_end(transfer, 0, "");
                else
                        http_transfer_end(transfer,
                                          transfer->spec.stopping(transfer->spec.context) ?: FERRY_E_TRANSFER_FAILED,
                                          "The peer has not confirmed every byte");
                return;
        }
        if (result == CURLE_OK && lane->position == lane->end &&
            status == (transfer->spec.direction == ENGINE_READ ? 206 : 204))
                lane_done(lane);
        else
                lane_failed(lane, result, status);
}

uint64_t http_transfer_run(struct http_transfer *transfer, uint64_t now_us)
{
        bool waits = false;

        for (size_t i = 0; i < transfer->n_lanes; i++) {
                if (!transfer->lanes[i].waiting)
                        continue;
                if (now_us >= transfer->retry_us)
                        lane_start(&transfer->lanes[i]);
                else
                        waits = true;
        }
        return waits ? transfer->retry_us : UINT64_MAX;
}

/* ---- life ---- */

void http_transfer_start(struct http_transfer *transfer, struct easy_multi *multi)
{
        int reason = transfer->spec.stopping(transfer->spec.context);

        transfer->multi = multi;
        if (reason) /* cancelled before the thread knew of the transfer */
                http_transfer_stop(transfer, reason, "");
        else
                http_transfer_fill(transfer);
}

static int lanes_prepare(struct http_transfer *transfer, const struct easy_settings *settings, const char *url,
                         char *detail, size_t detail_size)
{
        const struct ranges *remote = transfer->spec.remote;
        uint64_t parts = 1 + (transfer->stream.total + PART - 1) / PART + (remote ? remote->n - 1 : 0);
        int r;

        for (size_t i = 0; i < HTTP_LANES && i < parts; i++) {
                struct http_lane *lane = &transfer->lanes[i];

                lane->transfer = transfer;
                lane->easy.done = on_done;
                lane->moved = on_moved;
                transfer->n_lanes = i + 1;
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

static void cleanup_transfer(struct http_transfer **transfer)
{
        *transfer = http_transfer_free(*transfer);
}

int http_transfer_new(const struct http_mover_config *config, const struct engine_transfer *spec,
                      struct http_transfer **ret_transfer, char *detail, size_t detail_size)
{
        FERRY_CLEANUP(cleanup_transfer) struct http_transfer *transfer = calloc(1, sizeof(*transfer));
        FERRY_CLEANUP(cleanup_free) char *url = NULL;
        size_t length = strlen(spec->peer.url);
        char id[FERRY_ID_TEXT_SIZE], key[FERRY_KEY_TEXT_SIZE];
        int r;

        if (!transfer)
                return -ENOMEM;
        transfer->config = config;
        transfer->spec = *spec;
        explicit_bzero(transfer->spec.key, sizeof(transfer->spec.key));
        (void)text_copy(transfer->name, sizeof(transfer->name), spec->peer.name);
        (void)text_copy(transfer->url, sizeof(transfer->url), spec->peer.url);
        transfer->spec.peer = (struct engine_peer){ spec->peer.epoch, NULL, transfer->name, transfer->url };
        r = stream_init(&transfer->stream, spec->segments, spec->n_segments);
        if (r < 0)
                return r;
        while (length > 0 && spec->peer.url[length - 1] == '/')
                length--;
        ferry_id_format("op_", spec->remote_operation, id);
        if (asprintf(&url, "%.*s/v1/operations/%s/content", (int)length, spec->peer.url, id) < 0) {
                url = NULL;
                return -ENOMEM;
        }
        ferry_key_format(spec->key, key);
        (void)snprintf(transfer->key_header, sizeof(transfer->key_header), "Authorization: Bearer %s", key);
        explicit_bzero(key, sizeof(key));
        ferry_id_format("xfr_", random_id(), id);
        (void)snprintf(transfer->transfer_header, sizeof(transfer->transfer_header), "Ferry-Transfer: %s", id);
        (void)snprintf(transfer->bytes_header, sizeof(transfer->bytes_header), "Ferry-Bytes: %" PRIu64 "/%" PRIu64,
                       transfer->stream.total, engine_transfer_whole(&transfer->spec));
        r = lanes_prepare(transfer, config->settings, url, detail, detail_size);
        if (r)
                return r;
        *ret_transfer = FERRY_STEAL(transfer);
        return 0;
}

struct http_transfer *http_transfer_free(struct http_transfer *transfer)
{
        if (!transfer)
                return NULL;
        for (size_t i = 0; i < transfer->n_lanes; i++) {
                lane_clear(&transfer->lanes[i]);
        }
        stream_clear(&transfer->stream);
        explicit_bzero(transfer->key_header, sizeof(transfer->key_header));
        free(transfer);
        return NULL;
}
