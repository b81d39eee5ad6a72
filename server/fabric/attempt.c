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

/* Notes why the attempt has to end; the first reason counts, and none counts after the peer's DONE. */
static void note_error(struct attempt *a, int error, int wire_error, const char *detail)
{
        if (a->error || a->peer_done)
                return;
        a->error = error;
        a->wire_error = wire_error;
        (void)snprintf(a->detail, sizeof(a->detail), "%s", detail);
        a->grace_deadline_us = thread_grace(a->fabric);
}

/* The same, and ends it when it is quiet; it may be gone afterwards. */
static void fail(struct attempt *a, int error, int wire_error, const char *detail)
{
        note_error(a, error, wire_error, detail);
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
                fail(a, FERRY_E_TRANSFER_FAILED, FERRY_E_TRANSFER_FAILED, "out of memory");
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
        if (a->peer_done || a->final_served)
                return FERRY_E_ALREADY_CLAIMED;
        *ret_attempt = a;
        return 0;
}

static void add_progress(struct attempt *a, uint64_t bytes)
{
        if (a->bytes == 0)
                (void)peer_transport(a->peer); /* is kept: UCX cannot tell any more once the endpoint has failed */
        a->by_message = true;
        a->bytes += bytes;
        if (a->bytes > a->stream.total)
                a->bytes = a->stream.total;
        a->offer.progress(a->offer.context, a->bytes);
}

/* The message's memory: one run, or pieces. false when memory is short. */
static bool place(const struct attempt *a, uint64_t offset, uint64_t length, struct message *message,
                  uint8_t **ret_address)
{
        if (stream_run(&a->stream, offset, length, ret_address) == length)
                return true;
        return stream_pieces(&a->stream, offset, length, &message->pieces) > 0;
}

/* ---- READ ---- */

static void data_sent(struct message *message, ucs_status_t status)
{
        struct attempt *a = message->owner;

        a->in_flight--;
        if (status == UCS_OK)
                add_progress(a, message->answer.length);
        else
                peer_fail(a->peer, FERRY_E_PEER_LOST, ucs_status_string(status));
        attempt_end_when_quiet(a);
}

/* Sends bytes that were asked for: all of them, or a part. false when memory is short. */
static bool send_data(struct attempt *a, const struct wire_header *h, uint64_t offset, uint64_t length)
{
        struct message *message = message_new(a->fabric);
        struct wire_header answer = attempt_answer(a->fabric, h, WIRE_DATA, 0);
        uint8_t *address = NULL;

        if (!message || !place(a, offset, length, message, &address)) {
                if (message)
                        message_free(message);
                return false;
        }
        answer.offset = offset;
        answer.length = length;
        if (h->flags & WIRE_VERIFY) {
                answer.flags |= WIRE_VERIFY;
                answer.checksum = stream_checksum(&a->stream, offset, length);
        }
        if ((h->flags & WIRE_FINAL) && length == a->stream.total && length <= WIRE_EAGER_MAX) {
                answer.flags |= WIRE_FINAL;
                a->final_served = true;
        }
        a->in_flight++;
        message->done = data_sent;
        message->owner = a;
        message->answer = answer;
        message->eager = length < h->length;
        message_send(a->peer, message, &answer, address, length);
        return true;
}

/*
 * How much of a READ goes into one message. Pieces in a rendezvous are packed into a buffer by UCX, which then sends
 * that; inside messages they go from where they are to the socket.
 */
static uint64_t part_size(const struct attempt *a, const struct wire_header *h)
{
        uint8_t *address;

        if (h->length <= FABRIC_PART_SIZE || !peer_takes_parts(a->peer))
                return h->length;
        return stream_run(&a->stream, h->offset, h->length, &address) < FABRIC_GATHER_BELOW ? FABRIC_PART_SIZE
                                                                                            : h->length;
}

ucs_status_t attempt_on_read(struct fabric *fabric, struct peer *peer, const struct wire_header *h)
{
        struct attempt *a = NULL;
        uint64_t part, sent = 0;
        int r = attempt_of_request(fabric, peer, h, &a);

        if (r != 0) {
                attempt_refuse(fabric, peer, h, WIRE_DATA, r);
                return UCS_OK;
        }
        part = part_size(a, h);
        a->in_flight++; /* the messages may be over at once, and it with them */
        for (; sent < h->length; sent += part) {
                if (part > h->length - sent)
                        part = h->length - sent;
                if (!send_data(a, h, h->offset + sent, part))
                        break;
        }
        a->in_flight--;
        if (sent < h->length) {
                attempt_refuse(fabric, peer, h, WIRE_DATA, FERRY_E_TRANSFER_FAILED);
                fail(a, FERRY_E_TRANSFER_FAILED, FERRY_E_TRANSFER_FAILED, "out of memory");
        } else {
                attempt_end_when_quiet(a);
        }
        return UCS_OK;
}

/* ---- WRITE ---- */

/* The bytes of a WRITE are in place: check, confirm, and end what is final. */
static void stored(struct attempt *a, const struct wire_header *ack, uint64_t checksum, bool verify)
{
        struct wire_header h = *ack;
        struct peer *peer = a->peer;

        if (verify && stream_checksum(&a->stream, h.offset, h.length) != checksum)
                note_error(a, FERRY_E_CHECKSUM_MISMATCH, FERRY_E_CHECKSUM_MISMATCH, "the chunk that arrived differs");
        if (a->error)
                h.status = (uint32_t)a->wire_error;
        else
                add_progress(a, h.length);
        if ((h.flags & WIRE_FINAL) && !a->error)
                a->peer_done = true;
        if (!peer->failed)
                message_send_header(peer, &h);
}

static void data_stored(struct message *message, ucs_status_t status)
{
        struct attempt *a = message->owner;
        struct wire_header h = message->answer;
        uint64_t checksum = h.checksum;
        bool verify = (h.flags & WIRE_VERIFY) != 0;

        h.checksum = 0;
        h.flags &= WIRE_FINAL;
        if (status != UCS_OK)
                peer_fail(a->peer, FERRY_E_PEER_LOST, ucs_status_string(status));
        else
                stored(a, &h, checksum, verify);
        a->in_flight--;
        attempt_end_when_quiet(a);
}

/* Its turn has come; meanwhile the attempt may have been revoked, and have told the peer so, or be gone. */
static bool data_begin(struct message *message)
{
        struct attempt *a;

        HASH_FIND(hh, message->fabric->attempts_by_transfer, &message->transfer, sizeof(message->transfer), a);
        /* The peer chose the transfer's id, perhaps once more since: then neither owner nor memory is what it was. */
        if (!a || a->number != message->attempt || a->error || a->peer_done)
                return false;
        a->in_flight++;
        return true;
}

ucs_status_t attempt_on_write(struct fabric *fabric, struct peer *peer, const struct wire_header *h,
                              const struct payload *payload)
{
        struct attempt *a = NULL;
        struct message *message;
        uint8_t *address = NULL;
        int r = payload->length != h->length ? FERRY_E_TRANSFER_FAILED : attempt_of_request(fabric, peer, h, &a);

        if (r != 0) {
                attempt_refuse(fabric, peer, h, WIRE_ACK, r);
                return UCS_OK;
        }
        message = message_new(fabric);
        if (!message || (payload->rendezvous && !place(a, h->offset, h->length, message, &address))) {
                if (message)
                        message_free(message);
                attempt_refuse(fabric, peer, h, WIRE_ACK, FERRY_E_TRANSFER_FAILED);
                fail(a, FERRY_E_TRANSFER_FAILED, FERRY_E_TRANSFER_FAILED, "out of memory");
                return UCS_OK;
        }
        message->owner = a;
        message->attempt = a->number;
        message->transfer = h->transfer;
        message->answer = attempt_answer(fabric, h, WIRE_ACK, 0);
        message->answer.checksum = h->checksum;
        message->answer.flags = h->flags & WIRE_VERIFY;
        if ((h->flags & WIRE_FINAL) && h->length == a->stream.total)
                message->answer.flags |= WIRE_FINAL;
        if (payload->rendezvous) {
                message->begin = data_begin;
                message->done = data_stored;
                message_receive(peer, message, payload->data, address, h->length);
                return UCS_INPROGRESS;
        }
        a->in_flight++;
        stream_store(&a->stream, h->offset, payload->data, h->length);
        data_stored(message, UCS_OK);
        message_free(message);
        return UCS_OK;
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
                note_error(a, error_of_done(h->status), FERRY_E_TRANSFER_FAILED, "the peer ended the transfer");
        } else if (h->length != a->stream.total ||
                   (a->direction == FABRIC_WRITE && a->by_message && a->bytes != a->stream.total) ||
                   (a->direction == FABRIC_WRITE && !a->by_message && !a->lease.leases)) {
                note_error(a, FERRY_E_TRANSFER_FAILED, FERRY_E_SIZE_MISMATCH, "the peer says it is done too early");
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
        fail(a, reason, wire_reason, detail);
}

void attempt_lost(struct attempt *a, int error, const char *detail)
{
        a->final_served = false;
        fail(a, error, error, detail);
}

void attempt_abandon(struct attempt *a, int error, const char *detail)
{
        a->in_flight = 0;
        attempt_lost(a, error, detail);
}

void attempt_forsake(struct attempt *a)
{
        note_error(a, FERRY_E_PEER_LOST, FERRY_E_PEER_LOST, "the worker is shutting down");
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
