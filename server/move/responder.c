/* SPDX-License-Identifier: Apache-2.0 */
#include "responder.h"

#include <stdlib.h>
#include <string.h>

#include <ferry/buffer.h>

#include "base/metrics.h"
#include "base/util.h"
#include "engine_internal.h"
#include "peer.h"

/*
 * The end of the passive side of a transfer. DONE of the requester says that it has all bytes, or why it stopped; a
 * requester whose one WRITE was confirmed as the last sends none. A responder ends once its sends and receives have,
 * and leaves a tombstone, by which late messages of the transfer are answered.
 *
 * Thread: the holder of the progress lock. The claim's ended() is called before DONE_ACK is sent, so that a peer that
 * has the answer finds the operation ended here, too.
 */

/* ---- the link's end ---- */

/* The requester may be complete, and can no longer say so: the link's error replaces any reason of this worker. */
static void lose_done(struct responder *r, int error, const char *detail)
{
        if (r->state != RESPONDER_SERVED)
                return;
        r->error = r->wire_error = error;
        (void)text_copy(r->detail, sizeof(r->detail), detail);
        responder_set_state(r, RESPONDER_FAILING);
}

void responder_link_ended(struct responder *r, int error, const char *detail)
{
        responder_fail(r, error, error, detail);
        lose_done(r, error, detail);
        responder_mark(r);
}

/* ---- DONE ---- */

int engine_error_of_peer(uint32_t reason)
{
        switch (reason) {
        case FERRY_E_TIMEOUT:
        case FERRY_E_STALLED:
        case FERRY_E_CHECKSUM_MISMATCH:
        case FERRY_E_PEER_LOST:
                return (int)reason;
        case FERRY_E_CANCELLED:
                return FERRY_E_CANCELLED_BY_PEER;
        default:
                return FERRY_E_TRANSFER_FAILED;
        }
}

/* Answers a DONE of a transfer without a responder. */
static void answer_late_done(struct session *session, const struct wire_header *h)
{
        const struct tombstone *tombstone = tombstone_find(session->engine, h->transfer);
        int status = tombstone ? tombstone->wire_error : FERRY_E_STALE_METADATA;

        /* Its first request may come later: it must not claim then. */
        if (!tombstone && h->status != 0)
                tombstone_add(session->engine, h->transfer, FERRY_E_CANCELLED_BY_PEER);
        if (!(h->flags & WIRE_QUIET))
                responder_refuse(session, h, WIRE_DONE_ACK, status);
}

/*
 * Whether the requester can have all bytes: all are stored, or were sent. A requester that got them in one message
 * is complete, even if the followed read fails now.
 */
static bool has_all(const struct responder *r)
{
        if (r->state == RESPONDER_COMPLETE || r->state == RESPONDER_SERVED)
                return true;
        if (r->direction == ENGINE_WRITE)
                return r->bytes == r->request.total;
        return r->answered >= r->request.total;
}

void responder_on_done(struct session *session, const struct wire_header *h, struct payload *payload)
{
        bool quiet = (h->flags & WIRE_QUIET) != 0;
        struct responder *r = responder_find(session->engine, h->transfer);

        if (!r) {
                answer_late_done(session, h);
                return;
        }
        if (r->session != session || r->request.operation != h->operation || !ferry_key_equal(r->request.key, h->key)) {
                if (!quiet)
                        responder_refuse(session, h, WIRE_DONE_ACK, FERRY_E_PEER_REFUSED);
                return;
        }
        r->done_received = true;
        r->wants_done_ack |= !quiet;
        if (h->status != 0) {
                responder_fail(r, engine_error_of_peer(h->status), FERRY_E_TRANSFER_FAILED,
                               "the peer ended the transfer");
        } else if (h->length != r->request.total || !has_all(r)) {
                responder_fail(r, FERRY_E_TRANSFER_FAILED, FERRY_E_SIZE_MISMATCH,
                               "the peer reported completion before all bytes had moved");
        } else if (r->error == 0 || r->state == RESPONDER_SERVED) {
                /* The reader has every byte, whatever the results of the sends; a cancel meanwhile was too late. */
                r->error = r->wire_error = 0;
                r->detail[0] = '\0';
                r->bytes = r->request.total;
                responder_set_state(r, RESPONDER_COMPLETE);
        }
        if (r->state == RESPONDER_SERVED)
                responder_set_state(r, RESPONDER_FAILING);
        responder_mark(r);
}

/* ---- the end ---- */

/*
 * Tells the operation, then the peer, and frees. What can wait, waking the operation's waiters, is left to the end of
 * the round (wake_due).
 */
static void end(struct responder *r)
{
        struct engine *engine = r->session->engine;
        struct engine_outcome outcome = { .error = r->error, .bytes = r->error ? r->reported : r->bytes };
        struct wire_header done = answer_header(&r->request, WIRE_DONE_ACK);

        responder_set_state(r, RESPONDER_ENDED);
        if (outcome.bytes > 0)
                session_name_transport(r->session, r->gpu_path, outcome.transport);
        (void)text_copy(outcome.detail, sizeof(outcome.detail), r->detail);
        peer_count(r->session->peer, &outcome);
        tombstone_add(engine, r->request.transfer, r->wire_error);
        responder_stop_pending(r);
        if (r->hh.tbl)
                HASH_DEL(engine->responders_by_transfer, r);
        DL_DELETE2(r->session->responders, r, session_prev, session_next);
        r->session->n_transfers--;
        metric_add(engine->metric_claims, -1);
        r->claim.ended(r->claim.context, &outcome);
        engine->wake_due = true;
        /* Unasked if the responder has failed, so that a requester that waits for no answer learns of it, too. */
        if (r->wants_done_ack || (r->error && !r->done_received)) {
                done.status = (uint32_t)r->wire_error;
                done.length = r->bytes;
                session_send(r->session, &done);
        }
        session_released(r->session);
        stream_clear(&r->stream);
        free(r->named);
        free(r->parts);
        free(r->segments);
        explicit_bzero(r->request.key, sizeof(r->request.key));
        free(r);
}

/* Ends a responder that is over, if nothing is in flight any more; else gives what is in flight the grace time. */
static void step(struct responder *r)
{
        if (r->state != RESPONDER_COMPLETE && r->state != RESPONDER_FAILING)
                return;
        /* A link that has failed may still bring bytes until it has ended. */
        if (r->in_flight == 0 && r->session->link->state != LINK_FAILED)
                end(r);
        else if (!r->grace_deadline_us) /* complete, but the peer does not release a lease */
                r->grace_deadline_us = engine_grace(r->session->engine);
}

bool responders_step(struct engine *engine)
{
        struct responder *r;
        bool any = engine->marked_responders != NULL;

        while ((r = engine->marked_responders)) {
                DL_DELETE2(engine->marked_responders, r, marked_prev, marked_next);
                r->marked = false;
                step(r);
        }
        return any;
}

void responder_tick(struct responder *r, uint64_t now_us)
{
        if (r->held) { /* what fills the memory has a stall limit of its own */
                responder_report_progress(r);
                if (now_us >= r->held_us + ENGINE_TICK_MS * UINT64_C(500)) /* each regular tick */
                        responder_send_held(r, r->reads[r->first_read].seq);
        }
        engine_tick_before(r->session->engine, r->grace_deadline_us > now_us ? r->grace_deadline_us : 0);
        if (!r->grace_deadline_us || now_us < r->grace_deadline_us)
                return;
        r->grace_deadline_us = 0;
        lose_done(r, FERRY_E_PEER_LOST, "the peer did not say whether it has the bytes");
        if (r->in_flight > 0)
                session_fail(r->session, FERRY_E_PEER_LOST, "an ended transfer did not come to rest");
        responder_mark(r);
}

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
static int claim(struct session *session, const struct wire_header *h, struct responder **ret)
{
        struct engine *engine = session->engine;
        const struct engine_peer_view *view = session->peer ? &session->peer->view : NULL;
        struct engine_claim_request request = {
                .operation = h->operation,
                .transfer = h->transfer,
                .direction = direction_of(h),
                .total = h->total,
                .whole = h->whole,
                .peer_epoch = h->from_epoch,
                .peer_name = view && view->epoch == h->from_epoch && view->name[0] ? view->name : NULL,
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
        r->session = session;
        r->number = ++engine->n_responders;
        r->request = *h;
        r->direction = request.direction;
        HASH_ADD(hh, engine->responders_by_transfer, request.transfer, sizeof(h->transfer), r);
        DL_APPEND2(session->responders, r, session_prev, session_next);
        session->n_transfers++;
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

int responder_claim(struct session *session, const struct wire_header *h, struct responder **ret)
{
        struct responder *r = responder_find(session->engine, h->transfer);

        if (!r) {
                const struct tombstone *tombstone = tombstone_find(session->engine, h->transfer);

                if (tombstone)
                        return tombstone->wire_error ? tombstone->wire_error : FERRY_E_ALREADY_CLAIMED;
                if (h->offset != 0 || (h->flags & WIRE_PARTED))
                        return FERRY_E_STALE_METADATA;
                if (h->type != WIRE_PARTS && h->total != h->whole)
                        return FERRY_E_SIZE_MISMATCH;
                if (session->engine->stopping)
                        return FERRY_E_CANCELLED_BY_PEER;
                return claim(session, h, ret);
        }
        if (r->request.operation != h->operation || !ferry_key_equal(r->request.key, h->key))
                return FERRY_E_PEER_REFUSED;
        if (r->session != session)
                return FERRY_E_PEER_LOST; /* the requester has lost the link of its claim, and tries another one */
        if (r->direction != direction_of(h))
                return FERRY_E_KIND_MISMATCH;
        if (h->total != r->request.total || h->whole != r->request.whole)
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
        if (r->parts->end > r->request.whole)
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
        if (r->named_bytes < r->request.total)
                return 0;
        return r->named_bytes == r->request.total ? take_parts(r) : FERRY_E_SIZE_MISMATCH;
}

void responder_on_parts(struct session *session, const struct wire_header *h, struct payload *payload)
{
        const struct tombstone *tombstone = tombstone_find(session->engine, h->transfer);
        struct responder *r = NULL;
        int error;

        if (tombstone && !tombstone->wire_error)
                return; /* again, over a new link, before a WRITE that has completed it and is confirmed again */
        error = is_whole(h, payload) ? responder_claim(session, h, &r) : FERRY_E_CHECKSUM_MISMATCH;
        if (error) {
                responder_refuse(session, h, WIRE_DONE_ACK, error);
                return;
        }
        if (h->offset != r->named_bytes || r->parts)
                return; /* said before */
        error = name_parts(r, payload->bytes, payload->length);
        if (error)
                responder_fail(r, FERRY_E_TRANSFER_FAILED, error, "the parts that the peer named cannot be moved");
}
