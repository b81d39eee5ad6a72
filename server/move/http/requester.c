/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <ferry/encoding.h>
#include <ferry/error.h>

#include "base/clock.h"
#include "base/space.h"
#include "base/util.h"
#include "message/ranges.h"
#include "mover_internal.h"

/*
 * The active side of a transfer over HTTP. The first range claims the operation; when it is answered the other lanes
 * join, each with the next range, until all have moved; the DELETE tells the peer and decides the end. A failed request
 * is retried while bytes move, and for PATIENCE_US after the last of them; ranges are idempotent, so a range that the
 * peer got twice does no harm.
 *
 * Thread: libcurl's, or that of a GPU (mover.c), but for http_requester_new(). Callbacks of the operation run on it.
 */

enum {
        FIRST_RANGE = 1 << 20, /* of the range that claims; the other connections wait for it */
        RANGE = 16 << 20,
        RETRY_US = 100000,
        PATIENCE_US = 1000000, /* how long retries go on without a byte moved */
};

/* ---- ends ---- */

/* Tells the operation, once. The requester lives on until its last request is over. */
static void http_requester_end(struct http_requester *requester, int error, const char *detail)
{
        struct http_transfer *base = &requester->base;
        struct engine_outcome outcome;

        if (base->state == HTTP_OVER)
                return;
        outcome = http_transfer_end(base, error, error ? base->reported : requester->bytes, detail);
        requester->error = error;
        http_transfer_tell_end(base, &outcome, requester->spec.ended, requester->spec.context);
}

static void lane_close(struct http_lane *lane);

void http_requester_stop(struct http_requester *requester, int reason, const char *detail)
{
        if (requester->base.state == HTTP_OVER)
                return;
        for (size_t i = 0; i < requester->n_lanes; i++)
                lane_stop(&requester->lanes[i]);
        http_requester_end(requester, reason, detail);
        if (requester->contacted)
                lane_close(&requester->lanes[0]);
}

bool http_requester_is_over(const struct http_requester *requester)
{
        for (size_t i = 0; i < requester->n_lanes; i++)
                if (requester->lanes[i].busy)
                        return false;
        return requester->base.state == HTTP_OVER;
}

/* Sends the lane's request; without memory the transfer ends. */
static void lane_start(struct http_lane *lane)
{
        lane->requester->contacted = true;
        if (!lane_send(lane))
                http_requester_stop(lane->requester, FERRY_E_TRANSFER_FAILED, lane->fault ?: space_error(-ENOMEM));
}

/* Sends the DELETE: after the last range it reports success, before it that the transfer is given up. */
static void lane_close(struct http_lane *lane)
{
        lane->closing = true;
        lane_start(lane);
}

/* Bytes of the next range, which ends where its range of the offer does. For a followed read it is small: with verify
 * no byte is passed on before the range ends. */
static uint64_t range_size(const struct http_requester *requester)
{
        const struct engine_transfer *spec = &requester->spec;
        uint64_t range = http_requester_is_claimed(requester) ? RANGE : FIRST_RANGE,
                 left = requester->base.stream.total - requester->next_offset;
        uint64_t most = spec->request_max ? spec->request_max(spec->context) : UINT64_MAX, run;

        if (!left)
                return 0;
        (void)ranges_place(spec->remote, requester->next_offset, &run);
        left = run < left ? run : left;
        range = range < most ? range : most;
        return range < left ? range : left;
}

/* Gives idle lanes the next ranges, or closes when none is left. */
static void http_requester_fill(struct http_requester *requester)
{
        bool any = false;

        for (size_t i = 0; i < requester->n_lanes && requester->base.state != HTTP_OVER; i++) {
                struct http_lane *lane = &requester->lanes[i];
                uint64_t size = range_size(requester);

                if (lane->busy || lane->waiting || !size || (!http_requester_is_claimed(requester) && i)) {
                        any |= lane->busy || lane->waiting;
                        continue;
                }
                lane->first = lane->position = requester->next_offset;
                lane->end = lane->first + size;
                requester->next_offset = lane->end;
                any = true;
                lane_start(lane);
        }
        if (!any && requester->base.state != HTTP_OVER)
                lane_close(&requester->lanes[0]);
}

/* ---- answers ---- */

/*
 * A retry may succeed: the connection broke, or the peer has not yet noticed that it did. The peer takes a request that
 * it gets twice for one of the same transfer. Without a claim a peer that cannot be reached is given up at once.
 */
static bool may_retry(const struct http_lane *lane, CURLcode result, long status, int error)
{
        bool claimed = http_requester_is_claimed(lane->requester);

        switch (result) {
        case CURLE_OK:
                return ((claimed || lane->requester->broken) && error == FERRY_E_ALREADY_CLAIMED) || status == 429 ||
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

/* A request has failed: retries, or ends the transfer with the error that tells most. */
static void lane_failed(struct http_lane *lane, CURLcode result, long status)
{
        struct http_requester *requester = lane->requester;
        int stopping = lane->closing ? requester->spec.stopping(requester->spec.context) : 0, error;
        uint64_t now = clock_now_us();
        char detail[EASY_DETAIL_SIZE];

        if (result == CURLE_OK)
                error = lane_classify(lane, status, detail);
        else
                error = easy_classify(&lane->easy, result, "the content", detail);
        requester->broken |= result != CURLE_OK || lane->easy.repeated;
        if (lane->fault) {
                http_requester_stop(requester, FERRY_E_TRANSFER_FAILED, lane->fault);
                return;
        }
        if (!requester->failing_us)
                requester->failing_us = now;
        if (!stopping && may_retry(lane, result, status, error) && now - requester->failing_us < PATIENCE_US) {
                lane->waiting = true;
                requester->retry_us = now + RETRY_US;
                return;
        }
        if (result != CURLE_OK && http_requester_is_claimed(requester))
                error = FERRY_E_PEER_LOST;
        else if (stopping)
                error = stopping;
        http_requester_stop(requester, error, detail);
}

/* A range has arrived or was stored. */
static void lane_done(struct http_lane *lane)
{
        struct http_requester *requester = lane->requester;
        const uint64_t size = lane->end - lane->first;

        if (requester->spec.direction == ENGINE_READ && requester->spec.verify) {
                uint64_t checksum;
                int r = stream_checksum(&requester->base.stream, lane->first, size, &checksum);

                if (r < 0 || !lane->has_digest) {
                        http_requester_stop(requester, FERRY_E_TRANSFER_FAILED,
                                            r < 0 ? space_error(r) : "The peer sent no digest");
                        return;
                }
                if (lane->digest != checksum) {
                        http_requester_stop(requester, FERRY_E_CHECKSUM_MISMATCH, "");
                        return;
                }
                http_requester_arrived(requester, lane->first, size);
        }
        requester->bytes += size;
        http_requester_moved(requester);
        http_requester_fill(requester);
}

/* libcurl has done with a lane's request. */
static void on_done(struct easy *easy, CURLcode result)
{
        struct http_lane *lane = FERRY_CONTAINER_OF(easy, struct http_lane, easy);
        struct http_requester *requester = lane->requester;
        long status = lane_status(lane);
        char word[64];

        lane->busy = false;
        if (requester->base.state == HTTP_OVER)
                return;
        if (lane->closing) {
                if (result != CURLE_OK || status != 200)
                        lane_failed(lane, result, status);
                else if (lane_answer(lane, "status", word), strcmp(word, "COMPLETE") == 0)
                        http_requester_end(requester, 0, "");
                else
                        http_requester_end(requester,
                                           requester->spec.stopping(requester->spec.context) ?: FERRY_E_TRANSFER_FAILED,
                                           "The peer has not confirmed every byte");
                return;
        }
        if (result == CURLE_OK && lane->position == lane->end &&
            status == (requester->spec.direction == ENGINE_READ ? 206 : 204))
                lane_done(lane);
        else
                lane_failed(lane, result, status);
}

uint64_t http_requester_run(struct http_requester *requester, struct easy_multi *multi, uint64_t now_us)
{
        int reason = atomic_load(&requester->stop_reason);
        bool waits = false;

        if (!requester->multi) {
                requester->multi = multi;
                reason = requester->spec.stopping(requester->spec.context) ?: reason;
                if (!reason)
                        http_requester_fill(requester);
        }
        if (reason && !requester->lanes[0].closing)
                http_requester_stop(requester, reason, "");
        for (size_t i = 0; i < requester->n_lanes; i++) {
                if (!requester->lanes[i].waiting)
                        continue;
                if (now_us >= requester->retry_us)
                        lane_start(&requester->lanes[i]);
                else
                        waits = true;
        }
        return waits ? requester->retry_us : UINT64_MAX;
}

/* ---- life ---- */

/* Makes as many lanes as there can be ranges. Returns 0; FERRY_E_* with a sentence; -ENOMEM. */
static int lanes_prepare(struct http_requester *requester, const struct easy_settings *settings, const char *url,
                         char *detail, size_t detail_size)
{
        const struct ranges *remote = requester->spec.remote;
        uint64_t n_ranges = 1 + (requester->base.stream.total + RANGE - 1) / RANGE + (remote ? remote->n - 1 : 0);
        int r;

        for (size_t i = 0; i < HTTP_LANES && i < n_ranges; i++) {
                struct http_lane *lane = &requester->lanes[i];

                lane->requester = requester;
                lane->easy.done = on_done;
                requester->n_lanes = i + 1;
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

static void cleanup_requester(struct http_requester **requester)
{
        *requester = http_requester_free(*requester);
}

int http_requester_new(const struct http_mover_config *config, const struct engine_transfer *spec,
                       struct http_requester **ret_requester, char *detail, size_t detail_size)
{
        FERRY_CLEANUP(cleanup_requester) struct http_requester *requester = calloc(1, sizeof(*requester));
        FERRY_CLEANUP(cleanup_free) char *url = NULL;
        size_t length = strlen(spec->peer.url);
        char id[FERRY_ID_TEXT_SIZE];
        int r;

        if (!requester)
                return -ENOMEM;
        requester->spec = *spec;
        requester->spec.peer = (struct engine_peer){ 0 };
        explicit_bzero(requester->spec.key, sizeof(requester->spec.key));
        requester->base = (struct http_transfer){
                .config = config,
                .carrier = strncasecmp(spec->peer.url, "https:", 6) == 0 ? "https" : "http",
                .peer_epoch = spec->peer.epoch,
        };
        (void)text_copy(requester->base.peer_name, sizeof(requester->base.peer_name), spec->peer.name);
        r = stream_init(&requester->base.stream, spec->segments, spec->n_segments);
        if (r < 0)
                return r;
        while (length > 0 && spec->peer.url[length - 1] == '/')
                length--;
        ferry_id_format("op_", spec->remote_operation, id);
        if (asprintf(&url, "%.*s/v1/operations/%s/content", (int)length, spec->peer.url, id) < 0) {
                url = NULL;
                return -ENOMEM;
        }
        ferry_key_format(spec->key, requester->key);
        ferry_id_format("xfr_", random_id(), requester->id);
        r = lanes_prepare(requester, config->settings, url, detail, detail_size);
        if (r)
                return r;
        *ret_requester = FERRY_STEAL(requester);
        return 0;
}

struct http_requester *http_requester_free(struct http_requester *requester)
{
        if (!requester)
                return NULL;
        for (size_t i = 0; i < requester->n_lanes; i++)
                lane_clear(&requester->lanes[i]);
        stream_clear(&requester->base.stream);
        explicit_bzero(requester->key, sizeof(requester->key));
        free(requester);
        return NULL;
}
