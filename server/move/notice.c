/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <ferry/error.h>

#include "base/metrics.h"
#include "connect.h"
#include "engine_internal.h"

/*
 * Notices (connect.h): a DECLINE or a RENEW of a peer is put to the operations, and their answer sent back as a
 * NOTICE_ACK, which has no state here: whoever asked finds the question by the transfer's id. Keys are wiped from the
 * stack.
 */

static struct engine_notice notice_of(const struct wire_header *h)
{
        struct engine_notice notice = {
                .operation = h->operation,
                .transfer = h->transfer,
                .renews = h->type == WIRE_RENEW,
                .ttl_ms = h->length,
        };

        memcpy(notice.key, h->key, sizeof(notice.key));
        return notice;
}

void notice_on_request(struct peer *peer, const struct wire_header *h, struct payload *payload)
{
        struct engine *engine = peer->engine;
        struct engine_notice notice = notice_of(h);
        struct wire_header answer = {
                .type = WIRE_NOTICE_ACK,
                .to_epoch = h->from_epoch,
                .from_epoch = engine->epoch,
                .operation = h->operation,
                .transfer = h->transfer,
        };
        int status = 0, error = engine->stopping ? FERRY_E_CANCELLED_BY_PEER : FERRY_E_STALE_METADATA;

        if (!engine->stopping && engine->operations.notice)
                error = engine->operations.notice(engine->operations.context, &notice, &status, &answer.length);
        explicit_bzero(notice.key, sizeof(notice.key));
        if (error)
                metric_add(engine->metric_refused, 1);
        answer.status = (uint32_t)(error < 0 ? FERRY_E_INTERNAL : error);
        answer.seq = (uint32_t)status;
        peer_send(peer, &answer);
}

void notice_send(struct peer *peer, uint64_t to_epoch, const struct engine_notice *notice)
{
        struct wire_header h = {
                .type = notice->renews ? WIRE_RENEW : WIRE_DECLINE,
                .to_epoch = to_epoch,
                .from_epoch = peer->engine->epoch,
                .operation = notice->operation,
                .transfer = notice->transfer,
                .length = notice->ttl_ms,
        };

        memcpy(h.key, notice->key, sizeof(h.key));
        peer_send(peer, &h);
        explicit_bzero(h.key, sizeof(h.key));
}

int notice_error(uint32_t status)
{
        switch (status) {
        case 0:
        case FERRY_E_FORBIDDEN:
        case FERRY_E_GONE:
        case FERRY_E_STALE_METADATA:
        case FERRY_E_ALREADY_CLAIMED:
        case FERRY_E_CANCELLED_BY_PEER:
        case FERRY_E_DRAINING:
        case FERRY_E_INTERNAL:
                return (int)status;
        default:
                return FERRY_E_PEER_REFUSED;
        }
}
