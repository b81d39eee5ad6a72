/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "fabric_internal.h"

/*
 * The passive side answers out of the operations' own tables: an address never comes from the wire. Each request
 * carries the whole authority (operation, key), so there is no session; the first one claims.
 */

struct wire_header attempt_answer(const struct fabric *fabric, const struct wire_header *request, enum wire_type type,
                                  int status)
{
        return (struct wire_header){
                .type = type,
                .to_epoch = request->from_epoch,
                .from_epoch = fabric->epoch,
                .operation = request->operation,
                .transfer = request->transfer,
                .seq = request->seq,
                .status = (uint32_t)status,
                .offset = request->offset,
                .length = request->length,
                .total = request->total,
        };
}

void attempt_refuse(struct fabric *fabric, struct peer *peer, const struct wire_header *request, enum wire_type type,
                    int status)
{
        struct wire_header h = attempt_answer(fabric, request, type, status);

        metric_add(fabric->metric_refused, 1);
        message_send_header(peer, &h);
}

static void send_done_ack(struct attempt *a, int status)
{
        struct wire_header h = {
                .type = WIRE_DONE_ACK,
                .to_epoch = a->peer_epoch,
                .from_epoch = a->fabric->epoch,
                .operation = a->operation,
                .transfer = a->transfer,
                .status = (uint32_t)status,
                .length = a->bytes,
                .total = a->stream.total,
        };

        /* Unasked when it was us who ended it, so that an active side that waits for nothing hears of it too. */
        if ((a->ack_wanted || !a->peer_done) && !a->peer->failed)
                message_send_header(a->peer, &h);
}

static void end(struct attempt *a)
{
        struct fabric *fabric = a->fabric;
        struct fabric_outcome outcome = { .error = a->error, .bytes = a->bytes };

        if (a->bytes > 0)
                (void)snprintf(outcome.transport, sizeof(outcome.transport), "%s",
                               a->lease.leases && !a->by_message ? FABRIC_MAPPED : peer_transport(a->peer));
        if (a->lease.leases)
                lease_drop(&a->lease);
        (void)snprintf(outcome.detail, sizeof(outcome.detail), "%s", a->detail);
        fabric->epitaphs[fabric->epitaph_next++ % FABRIC_EPITAPHS] =
                (struct epitaph){ .transfer = a->transfer, .wire_error = a->wire_error };
        HASH_DEL(fabric->attempts_by_transfer, a);
        DL_DELETE2(a->peer->attempts, a, peer_prev, peer_next);
        a->offer.ended(a->offer.context, &outcome);
        fabric->unsettled = true;
        send_done_ack(a, a->wire_error);
        peer_released(a->peer);
        stream_clear(&a->stream);
        explicit_bzero(a->key, sizeof(a->key));
        free(a);
}

void attempt_end_when_quiet(struct attempt *a)
{
        bool decided = a->peer_done || (a->error && !a->final_served);

        if (decided && attempt_lease_is_quiet(a) && a->in_flight == 0 && !peer_is_settling(a->peer))
                end(a);
}

void attempt_note_error(struct attempt *a, int error, int wire_error, const char *detail)
{
        if (a->error || a->peer_done)
                return;
        a->error = error;
        a->wire_error = wire_error;
        (void)snprintf(a->detail, sizeof(a->detail), "%s", detail);
        a->grace_deadline_us = thread_grace(a->fabric);
}

void attempt_fail(struct attempt *a, int error, int wire_error, const char *detail)
{
        attempt_note_error(a, error, wire_error, detail);
        attempt_end_when_quiet(a);
}

/* ---- claiming ---- */

static enum fabric_direction direction_of(const struct wire_header *h)
{
        bool write = h->type == WIRE_WRITE || (h->type == WIRE_ATTACH && (h->flags & WIRE_STORE));

        return write ? FABRIC_WRITE : FABRIC_READ;
}

static int claim(struct fabric *fabric, struct peer *peer, const struct wire_header *h, struct attempt **ret_attempt)
{
        struct fabric_request request = {
                .operation = h->operation,
                .transfer = h->transfer,
                .direction = direction_of(h),
                .total = h->total,
        };
        struct attempt *a = calloc(1, sizeof(*a));
        int r;

        if (!a)
                return FERRY_E_TRANSFER_FAILED;
        memcpy(request.key, h->key, sizeof(request.key));
        r = fabric->operations.claim(fabric->operations.context, &request, &a->offer);
        explicit_bzero(request.key, sizeof(request.key));
        if (r != 0) {
                free(a);
                return r > 0 ? r : FERRY_E_TRANSFER_FAILED;
        }
        a->fabric = fabric;
        a->peer = peer;
        a->number = ++fabric->n_attempts;
        a->transfer = h->transfer;
        a->operation = h->operation;
        a->peer_epoch = h->from_epoch;
        a->direction = request.direction;
        memcpy(a->key, h->key, sizeof(a->key));
        HASH_ADD(hh, fabric->attempts_by_transfer, transfer, sizeof(a->transfer), a);
        DL_APPEND2(peer->attempts, a, peer_prev, peer_next);
        if (stream_init(&a->stream, a->offer.segments, a->offer.n_segments) < 0) {
                attempt_fail(a, FERRY_E_TRANSFER_FAILED, FERRY_E_TRANSFER_FAILED, "out of memory");
                return FERRY_E_TRANSFER_FAILED;
        }
        *ret_attempt = a;
        return 0;
}

static int epitaph_of(const struct fabric *fabric, uint64_t transfer)
{
        for (size_t i = 0; i < FABRIC_EPITAPHS; i++)
                if (fabric->epitaphs[i].transfer == transfer)
                        return fabric->epitaphs[i].wire_error ? fabric->epitaphs[i].wire_error
                                                              : FERRY_E_ALREADY_CLAIMED;
        return 0;
}

int attempt_of_request(struct fabric *fabric, struct peer *peer, const struct wire_header *h,
                       struct attempt **ret_attempt)
{
        struct attempt *a;
        int r;

        HASH_FIND(hh, fabric->attempts_by_transfer, &h->transfer, sizeof(h->transfer), a);
        if (!a) {
                r = epitaph_of(fabric, h->transfer);
                if (r != 0)
                        return r;
                if (h->offset != 0)
                        return FERRY_E_STALE_METADATA;
                if (fabric->stopping)
                        return FERRY_E_CANCELLED_BY_PEER;
                return claim(fabric, peer, h, ret_attempt);
        }
        if (a->peer != peer || a->operation != h->operation || !ferry_key_equal(a->key, h->key))
                return FERRY_E_PEER_REFUSED;
        if (a->direction != direction_of(h))
                return FERRY_E_KIND_MISMATCH;
        if (h->total != a->stream.total)
                return FERRY_E_SIZE_MISMATCH;
        if (a->error)
                return a->wire_error;
        if (a->peer_done || (a->final_served && !a->lease.leases))
                return FERRY_E_ALREADY_CLAIMED;
        *ret_attempt = a;
        return 0;
}

/* ---- the end ---- */

/* What the active side's reason means on this side. */
static int error_of_done(uint32_t status)
{
        switch (status) {
        case FERRY_E_TIMEOUT:
        case FERRY_E_STALLED:
        case FERRY_E_CHECKSUM_MISMATCH:
        case FERRY_E_PEER_LOST:
                return (int)status;
        case FERRY_E_CANCELLED:
                return FERRY_E_CANCELLED_BY_PEER;
        default:
                return FERRY_E_TRANSFER_FAILED;
        }
}

void attempt_on_done(struct fabric *fabric, struct peer *peer, const struct wire_header *h)
{
        bool quiet = (h->flags & WIRE_QUIET) != 0;
        struct attempt *a;
        int r;

        HASH_FIND(hh, fabric->attempts_by_transfer, &h->transfer, sizeof(h->transfer), a);
        if (!a || a->peer != peer || a->operation != h->operation || !ferry_key_equal(a->key, h->key)) {
                r = a ? FERRY_E_PEER_REFUSED : epitaph_of(fabric, h->transfer);
                if (!quiet)
                        attempt_refuse(fabric, peer, h, WIRE_DONE_ACK, r ? r : FERRY_E_STALE_METADATA);
                return;
        }
        if (a->peer_done)
                return;
        a->ack_wanted = !quiet;
        if (h->status != 0) {
                attempt_note_error(a, error_of_done(h->status), FERRY_E_TRANSFER_FAILED, "the peer ended the transfer");
        } else if (h->length != a->stream.total ||
                   (a->direction == FABRIC_WRITE && a->by_message && a->bytes != a->stream.total) ||
                   (a->direction == FABRIC_WRITE && !a->by_message && !a->lease.leases)) {
                attempt_note_error(a, FERRY_E_TRANSFER_FAILED, FERRY_E_SIZE_MISMATCH,
                                   "the peer says it is done too early");
        } else if (a->error == 0 || a->final_served) {
                /* The reader has every byte, whatever our own sends say; a cancel in between came too late. */
                a->error = a->wire_error = 0;
                a->detail[0] = '\0';
                a->bytes = a->stream.total;
        }
        a->peer_done = true;
        attempt_end_when_quiet(a);
}

void attempt_revoke(struct attempt *a, int reason, int wire_reason, const char *detail)
{
        attempt_fail(a, reason, wire_reason, detail);
}

void attempt_lost(struct attempt *a, int error, const char *detail)
{
        a->final_served = false;
        attempt_fail(a, error, error, detail);
}

void attempt_abandon(struct attempt *a, int error, const char *detail)
{
        a->in_flight = 0;
        attempt_lost(a, error, detail);
}

void attempt_forsake(struct attempt *a)
{
        attempt_note_error(a, FERRY_E_PEER_LOST, FERRY_E_PEER_LOST, "the worker is shutting down");
        end(a);
}

void attempt_tick(struct attempt *a, uint64_t now_us)
{
        if (!a->grace_deadline_us || now_us < a->grace_deadline_us) {
                attempt_end_when_quiet(a);
                return;
        }
        a->grace_deadline_us = 0;
        a->final_served = false;
        if (a->in_flight == 0)
                attempt_end_when_quiet(a);
        else
                peer_fail(a->peer, FERRY_E_PEER_LOST, "a cancelled transfer did not come to rest");
}
