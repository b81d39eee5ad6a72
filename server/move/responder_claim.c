/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include <ferry/buffer.h>

#include "base/metrics.h"
#include "contact.h"
#include "engine_internal.h"
#include "responder.h"

/*
 * The begin of a responder: its first request claims the operation (operations.claim) with the key that the metadata
 * carried, and each later one must agree with it. Everything in a header is the peer's word: sizes, direction and parts
 * are compared here, and bounds were checked when the header was decoded (move/message/header.c).
 *
 * Thread: the holder of the progress lock.
 */

/* PARTS come before the READ or WRITE that would tell the direction, so they have a flag. */
static enum engine_direction direction_of(const struct wire_header *h)
{
        return h->type == WIRE_WRITE || (h->flags & WIRE_WRITES) ? ENGINE_WRITE : ENGINE_READ;
}

/*
 * Claims the operation, and makes the responder. Returns 0, or the FERRY_E_* that the peer is told. Without memory for
 * the tables the responder fails like any other, so that the claim's ended() is called.
 */
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
        r->whole = h->whole;
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

/*
 * Whether a request fits a responder that exists. One that began with PARTS takes others only once all parts are named;
 * one that began otherwise takes none, since its stream is in use.
 */
static bool is_in_order(const struct responder *r, const struct wire_header *h)
{
        const bool parted = r->n_named > 0;

        if (h->type == WIRE_PARTS)
                return parted;
        return ((h->flags & WIRE_PARTED) != 0) == parted && parted == (r->parts != NULL);
}

int responder_claim(struct peer *peer, const struct wire_header *h, struct responder **ret)
{
        struct responder *r = responder_find(peer->engine, h->transfer);

        if (!r) {
                const struct tombstone *tombstone = tombstone_find(peer->engine, h->transfer);

                if (tombstone)
                        return tombstone->wire_error ? tombstone->wire_error : FERRY_E_ALREADY_CLAIMED;
                if (h->offset != 0 || (h->flags & WIRE_PARTED))
                        return FERRY_E_STALE_METADATA;
                if (h->type != WIRE_PARTS && h->total != h->whole)
                        return FERRY_E_SIZE_MISMATCH;
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
        if (h->total != r->total || h->whole != r->whole)
                return FERRY_E_SIZE_MISMATCH;
        if (r->error)
                return r->wire_error;
        if (r->state != RESPONDER_SERVING)
                return FERRY_E_ALREADY_CLAIMED;
        if (!is_in_order(r, h))
                return FERRY_E_SIZE_MISMATCH;
        *ret = r;
        return 0;
}

/* ---- parts ---- */

/* All parts are named: from now on the stream is of these. 0 or FERRY_E_*. */
static int take_parts(struct responder *r)
{
        struct stream offer = r->stream;
        const char *why;
        size_t n, bad;

        if (ranges_new(r->named, r->n_named, &r->parts, &bad, &why) != 0)
                return FERRY_E_TRANSFER_FAILED;
        free(r->named);
        r->named = NULL;
        if (r->parts->end > r->whole)
                return FERRY_E_SIZE_MISMATCH;
        n = ranges_segments(r->parts, &offer, &r->segments);
        if (n == 0 || stream_init(&r->stream, r->segments, n) < 0)
                return FERRY_E_TRANSFER_FAILED;
        stream_clear(&offer);
        return 0;
}

/*
 * Whether the payload of PARTS has come whole and unchanged. Its checksum is always there, since a wrong part would
 * move the wrong bytes.
 */
static bool is_whole(const struct wire_header *h, const struct payload *payload)
{
        const struct segment segment = { .address = (uint8_t *)(uintptr_t)payload->bytes, .size = payload->length };
        struct stream stream;
        uint64_t checksum;

        if (!payload->bytes || payload->length != h->length || stream_init(&stream, &segment, 1) < 0)
                return false;
        (void)stream_checksum(&stream, 0, h->length, &checksum);
        return checksum == h->checksum;
}

/*
 * Adds the parts of one message. Once they have as many bytes as the transfer they are complete. Returns 0 or
 * FERRY_E_*.
 */
static int name_parts(struct responder *r, const uint8_t *bytes, size_t size)
{
        for (; size >= RANGE_SIZE; bytes += RANGE_SIZE, size -= RANGE_SIZE) {
                struct range *more = ferry_reserve(r->named, &r->named_room, r->n_named + 1, sizeof(*more));

                if (!more)
                        return FERRY_E_TRANSFER_FAILED;
                r->named = more;
                r->named[r->n_named] = range_decode(bytes);
                if (r->n_named == RESPONDER_PARTS_MAX ||
                    __builtin_add_overflow(r->named_bytes, r->named[r->n_named].size, &r->named_bytes))
                        return FERRY_E_LIMIT_REACHED;
                r->n_named++;
        }
        if (r->named_bytes < r->total)
                return 0;
        return r->named_bytes == r->total ? take_parts(r) : FERRY_E_SIZE_MISMATCH;
}

void responder_on_parts(struct peer *peer, const struct wire_header *h, struct payload *payload)
{
        const struct tombstone *tombstone = tombstone_find(peer->engine, h->transfer);
        struct responder *r = NULL;
        int error;

        if (tombstone && !tombstone->wire_error)
                return; /* again, over a new link, before a WRITE that has completed it and is confirmed again */
        error = is_whole(h, payload) ? responder_claim(peer, h, &r) : FERRY_E_CHECKSUM_MISMATCH;
        if (error) {
                responder_refuse(peer, h, WIRE_DONE_ACK, error);
                return;
        }
        if (h->offset != r->named_bytes || r->parts)
                return; /* said before */
        error = name_parts(r, payload->bytes, payload->length);
        if (error)
                responder_fail(r, FERRY_E_TRANSFER_FAILED, error, "the parts that the peer named cannot be moved");
}
