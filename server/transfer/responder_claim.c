/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/metrics.h"
#include "contact.h"
#include "engine_internal.h"
#include "responder.h"

static enum engine_direction direction_of(const struct wire_header *h)
{
        return h->type == WIRE_WRITE ? ENGINE_WRITE : ENGINE_READ;
}

static int claim(struct peer *peer, const struct wire_header *h, struct responder **ret)
{
        struct engine *engine = peer->engine;
        struct engine_claim_request request = {
                .operation = h->operation,
                .transfer = h->transfer,
                .direction = direction_of(h),
                .total = h->total,
                .whole = h->whole,
                .peer_epoch = h->from_epoch,
                .peer_name = peer->contact && peer->contact->epoch == h->from_epoch ? peer->contact->name : NULL,
        };
        struct responder *r;
        int error;

        /* Ends finished transfers first: the requester may start its next one before the last has ended here. */
        (void)responders_step(engine);
        if (HASH_COUNT(engine->responders_by_transfer) >= engine->max_claims)
                return FERRY_E_LIMIT_REACHED;
        r = calloc(1, sizeof(*r));
        if (!r)
                return FERRY_E_TRANSFER_FAILED;
        memcpy(request.key, h->key, sizeof(request.key));
        error = engine->operations.claim(engine->operations.context, &request, &r->claim);
        explicit_bzero(request.key, sizeof(request.key));
        if (error != 0) {
                free(r);
                return error > 0 ? error : FERRY_E_TRANSFER_FAILED;
        }
        engine->wake_due = true;
        r->peer = peer;
        r->number = ++engine->n_responders;
        r->transfer = h->transfer;
        r->operation = h->operation;
        r->peer_epoch = h->from_epoch;
        r->direction = request.direction;
        r->total = h->total;
        memcpy(r->key, h->key, sizeof(r->key));
        HASH_ADD(hh, engine->responders_by_transfer, transfer, sizeof(r->transfer), r);
        DL_APPEND2(peer->responders, r, peer_prev, peer_next);
        peer->n_transfers++;
        metric_add(engine->metric_claims, 1);
        if (!r->hh.tbl || stream_init(&r->stream, r->claim.segments, r->claim.n_segments) < 0) {
                responder_fail(r, FERRY_E_TRANSFER_FAILED, FERRY_E_TRANSFER_FAILED, "out of memory");
                return FERRY_E_TRANSFER_FAILED;
        }
        *ret = r;
        return 0;
}

int responder_claim(struct peer *peer, const struct wire_header *h, struct responder **ret)
{
        struct responder *r = responder_find(peer->engine, h->transfer);

        if (!r) {
                const struct tombstone *tombstone = tombstone_find(peer->engine, h->transfer);

                if (tombstone)
                        return tombstone->wire_error ? tombstone->wire_error : FERRY_E_ALREADY_CLAIMED;
                if (h->offset != 0)
                        return FERRY_E_STALE_METADATA;
                if (peer->engine->stopping)
                        return FERRY_E_CANCELLED_BY_PEER;
                return claim(peer, h, ret);
        }
        if (r->operation != h->operation || !ferry_key_equal(r->key, h->key))
                return FERRY_E_PEER_REFUSED;
        if (r->peer != peer)
                return FERRY_E_PEER_LOST; /* the requester has lost the link of its claim, and tries another one */
        if (r->direction != direction_of(h))
                return FERRY_E_KIND_MISMATCH;
        if (h->total != r->total || h->whole != r->stream.total)
                return FERRY_E_SIZE_MISMATCH;
        if (r->error)
                return r->wire_error;
        if (r->state != RESPONDER_SERVING)
                return FERRY_E_ALREADY_CLAIMED;
        *ret = r;
        return 0;
}
