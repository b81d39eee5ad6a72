/* SPDX-License-Identifier: Apache-2.0 */
#include "responder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/util.h"
#include "engine_internal.h"
#include "tombstone.h"

/* ---- states ---- */

static const bool allowed[][RESPONDER_ENDED + 1] = {
        [RESPONDER_SERVING] = { [RESPONDER_SERVED] = true, [RESPONDER_COMPLETE] = true, [RESPONDER_FAILING] = true },
        [RESPONDER_SERVED] = { [RESPONDER_SERVING] = true, [RESPONDER_COMPLETE] = true, [RESPONDER_FAILING] = true },
        [RESPONDER_COMPLETE] = { [RESPONDER_ENDED] = true },
        [RESPONDER_FAILING] = { [RESPONDER_COMPLETE] = true, [RESPONDER_ENDED] = true },
        [RESPONDER_ENDED] = { false },
};

static void set_state(struct responder *r, enum responder_state state)
{
        if (r->state == state)
                return;
        if (!allowed[r->state][state]) {
                log_event(LOG_ERROR, "a responder's state cannot change so", LOG_U("from", r->state),
                          LOG_U("to", state));
                abort();
        }
        r->state = state;
}

static void mark(struct responder *r)
{
        if (r->marked)
                return;
        r->marked = true;
        DL_APPEND2(r->engine->marked_responders, r, marked_prev, marked_next);
}

/* ---- answers ---- */

static struct wire_header answer_to(const struct engine *engine, const struct wire_header *request, enum wire_type type,
                                    int status)
{
        return (struct wire_header){
                .type = type,
                .to_epoch = request->from_epoch,
                .from_epoch = engine->epoch,
                .operation = request->operation,
                .transfer = request->transfer,
                .seq = request->seq,
                .status = (uint32_t)status,
                .offset = request->offset,
                .length = request->length,
                .total = request->total,
        };
}

static void refuse(struct engine *engine, struct peer *peer, const struct wire_header *request, enum wire_type type,
                   int status)
{
        struct wire_header h = answer_to(engine, request, type, status);

        metric_add(engine->metric_refused, 1);
        peer_send(peer, &h);
}

/* The header of a message that answers no request by itself. */
static struct wire_header header_of(const struct responder *r, enum wire_type type)
{
        return (struct wire_header){
                .type = type,
                .to_epoch = r->peer_epoch,
                .from_epoch = r->engine->epoch,
                .operation = r->operation,
                .transfer = r->transfer,
                .total = r->stream.total,
        };
}

/* ---- claiming ---- */

static enum engine_direction direction_of(const struct wire_header *h)
{
        return h->type == WIRE_WRITE ? ENGINE_WRITE : ENGINE_READ;
}

static int claim(struct engine *engine, struct peer *peer, const struct wire_header *h, struct responder **ret)
{
        struct engine_request request = {
                .operation = h->operation,
                .transfer = h->transfer,
                .direction = direction_of(h),
                .total = h->total,
        };
        struct responder *r = calloc(1, sizeof(*r));
        int error;

        if (!r)
                return FERRY_E_TRANSFER_FAILED;
        memcpy(request.key, h->key, sizeof(request.key));
        error = engine->operations.claim(engine->operations.context, &request, &r->offer);
        explicit_bzero(request.key, sizeof(request.key));
        if (error != 0) {
                free(r);
                return error > 0 ? error : FERRY_E_TRANSFER_FAILED;
        }
        r->engine = engine;
        r->peer = peer;
        r->number = ++engine->n_responders;
        r->transfer = h->transfer;
        r->operation = h->operation;
        r->peer_epoch = h->from_epoch;
        r->direction = request.direction;
        memcpy(r->key, h->key, sizeof(r->key));
        HASH_ADD(hh, engine->responders_by_transfer, transfer, sizeof(r->transfer), r);
        DL_APPEND2(peer->responders, r, peer_prev, peer_next);
        if (!r->hh.tbl || stream_init(&r->stream, r->offer.segments, r->offer.n_segments) < 0) {
                responder_fail(r, FERRY_E_TRANSFER_FAILED, FERRY_E_TRANSFER_FAILED, "out of memory");
                return FERRY_E_TRANSFER_FAILED;
        }
        *ret = r;
        return 0;
}

static struct responder *find(struct engine *engine, uint64_t transfer)
{
        struct responder *r;

        HASH_FIND(hh, engine->responders_by_transfer, &transfer, sizeof(transfer), r);
        return r;
}

/* The responder of a request, claimed when it is the first of its transfer. 0, or the FERRY_E_* to answer. */
static int responder_of(struct engine *engine, struct peer *peer, const struct wire_header *h, struct responder **ret)
{
        struct responder *r = find(engine, h->transfer);

        if (!r) {
                const struct tombstone *tombstone = tombstone_find(engine, h->transfer);

                if (tombstone)
                        return tombstone->wire_error ? tombstone->wire_error : FERRY_E_ALREADY_CLAIMED;
                if (h->offset != 0)
                        return FERRY_E_STALE_METADATA;
                if (engine->stopping)
                        return FERRY_E_CANCELLED_BY_PEER;
                return claim(engine, peer, h, ret);
        }
        if (r->operation != h->operation || !ferry_key_equal(r->key, h->key))
                return FERRY_E_PEER_REFUSED;
        if (r->peer != peer)
                return FERRY_E_PEER_LOST; /* the requester has lost the link of its claim, and tries another one */
        if (r->direction != direction_of(h))
                return FERRY_E_KIND_MISMATCH;
        if (h->total != r->stream.total)
                return FERRY_E_SIZE_MISMATCH;
        if (r->error)
                return r->wire_error;
        if (r->state != RESPONDER_SERVING)
                return FERRY_E_ALREADY_CLAIMED;
        *ret = r;
        return 0;
}

/* ---- progress ---- */

static void tell_progress(struct responder *r)
{
        uint64_t bytes = r->bytes + r->copying;

        if (bytes > 0 && !r->moved) {
                r->moved = true;
                (void)r->peer->link->transport->ops->carrier(r->peer->link); /* is kept for the outcome */
        }
        r->offer.progress(r->offer.context, bytes < r->stream.total ? bytes : r->stream.total);
}

static void add_progress(struct responder *r, uint64_t bytes)
{
        r->bytes += bytes;
        if (r->bytes > r->stream.total)
                r->bytes = r->stream.total;
        peer_moved(r->peer, bytes);
        tell_progress(r);
}

/* ---- READ ---- */

static void stop_pending(struct responder *r)
{
        if (!r->pending)
                return;
        r->pending = false;
        DL_DELETE2(r->peer->pending, r, pending_prev, pending_next);
}

static void data_sent(struct message *message, enum message_result result)
{
        struct responder *r = message->owner;

        r->in_flight--;
        r->peer->serving -= message->length;
        if (r->peer->pending)
                peer_ready(r->peer);
        switch (result) {
        case MESSAGE_OK:
                add_progress(r, message->length);
                break;
        case MESSAGE_NO_MEMORY:
                responder_fail(r, FERRY_E_TRANSFER_FAILED, FERRY_E_TRANSFER_FAILED, "out of memory");
                break;
        case MESSAGE_CANCELLED:
                if ((message->header.flags & WIRE_FINAL) && r->state == RESPONDER_SERVED)
                        set_state(r, RESPONDER_SERVING); /* the peer never gets it */
                break;
        case MESSAGE_REVOKED:
        case MESSAGE_LOST:
                break;
        }
        mark(r);
}

/* Its turn has come; meanwhile the responder may be about to end. It stays as long as messages of it are in flight. */
static bool data_wanted(struct message *message)
{
        const struct responder *r = message->owner;

        return r->error == 0;
}

/* Sends bytes that were asked for: all of them, or a part. false when memory is short. */
static bool send_data(struct responder *r, const struct responder_read *read, uint64_t offset, uint64_t length,
                      bool inside)
{
        struct message *message = message_new(r->peer->link->transport);

        if (!message)
                return false;
        message->header = header_of(r, WIRE_DATA);
        message->header.seq = read->seq;
        message->header.offset = offset;
        message->header.length = length;
        if (read->verify) {
                message->header.flags |= WIRE_VERIFY;
                message->header.checksum = stream_checksum(&r->stream, offset, length);
        }
        if (length == r->stream.total && length <= WIRE_INLINE_MAX) {
                message->header.flags |= WIRE_FINAL;
                set_state(r, RESPONDER_SERVED);
        }
        message->stream = &r->stream;
        message->offset = offset;
        message->length = length;
        message->inside = inside;
        message->begin = data_wanted;
        message->done = data_sent;
        message->owner = r;
        message->transfer = r->transfer;
        r->in_flight++;
        r->peer->serving += length;
        r->peer->link->transport->ops->send(r->peer->link, message);
        return true;
}

/* Answers READs while there is room. */
static void serve(struct responder *r)
{
        struct link *link = r->peer->link;
        const struct transport_ops *ops = link->transport->ops;
        uint64_t window = ops->window(link);

        while (r->n_reads > 0 && r->state == RESPONDER_SERVING && peer_is_usable(r->peer)) {
                struct responder_read *read = &r->reads[r->first_read];
                bool inside = false;
                uint64_t part;

                if (r->peer->serving >= window)
                        return;
                part = ops->fit(link, &r->stream, read->offset + read->sent, read->length - read->sent, &inside);
                if (part == 0)
                        return;
                if (!send_data(r, read, read->offset + read->sent, part, inside)) {
                        responder_fail(r, FERRY_E_TRANSFER_FAILED, FERRY_E_TRANSFER_FAILED, "out of memory");
                        return;
                }
                read->sent += part;
                if (read->sent < read->length)
                        continue;
                r->first_read = (r->first_read + 1) % ENGINE_READS_MAX;
                r->n_reads--;
        }
        if (r->n_reads == 0)
                stop_pending(r);
}

void responders_serve(struct peer *peer)
{
        struct responder *r, *next;

        DL_FOREACH_SAFE2(peer->pending, r, next, pending_next)
        serve(r);
}

static void queue_read(struct responder *r, const struct responder_read *read)
{
        if (!r->reads)
                r->reads = calloc(ENGINE_READS_MAX, sizeof(*r->reads));
        if (!r->reads) {
                responder_fail(r, FERRY_E_TRANSFER_FAILED, FERRY_E_TRANSFER_FAILED, "out of memory");
                return;
        }
        if (r->n_reads == ENGINE_READS_MAX) {
                responder_fail(r, FERRY_E_TRANSFER_FAILED, FERRY_E_LIMIT_REACHED,
                               "the peer asked for more chunks at once than it may");
                return;
        }
        r->reads[(r->first_read + r->n_reads++) % ENGINE_READS_MAX] = *read;
        if (!r->pending) {
                r->pending = true;
                DL_APPEND2(r->peer->pending, r, pending_prev, pending_next);
        }
        serve(r);
}

void responder_on_read(struct engine *engine, struct peer *peer, const struct wire_header *h, struct payload *payload)
{
        struct responder_read read = {
                .seq = h->seq,
                .verify = (h->flags & WIRE_VERIFY) != 0,
                .offset = h->offset,
                .length = h->length,
        };
        struct responder *r = NULL;
        int error = responder_of(engine, peer, h, &r);

        if (error) {
                refuse(engine, peer, h, WIRE_DATA, error);
                return;
        }
        if (h->length > WIRE_INLINE_MAX || r->n_reads > 0)
                queue_read(r, &read);
        else if (!send_data(r, &read, h->offset, h->length, false))
                responder_fail(r, FERRY_E_TRANSFER_FAILED, FERRY_E_TRANSFER_FAILED, "out of memory");
}

/* ---- WRITE ---- */

/* A WRITE is in place. Where the run of parts of its chunk begins that came one after the other; it is the last. */
static uint64_t follow_parts(struct responder *r, const struct wire_header *write)
{
        bool follows = r->part_end == write->offset && r->part_seq == write->seq;
        uint64_t start = follows ? r->part_start : write->offset;

        r->part_seq = write->seq;
        r->part_start = start;
        r->part_end = write->flags & WIRE_MORE ? write->offset + write->length : 0;
        return start;
}

/* The bytes of a WRITE are in place: checks and confirms them. flags and checksum are the WRITE's. */
static void stored(struct responder *r, const struct wire_header *write)
{
        struct wire_header ack = header_of(r, WIRE_ACK);

        ack.seq = write->seq;
        ack.offset = follow_parts(r, write);
        ack.length = write->offset + write->length - ack.offset;
        if ((write->flags & WIRE_VERIFY) &&
            stream_checksum(&r->stream, write->offset, write->length) != write->checksum)
                responder_fail(r, FERRY_E_CHECKSUM_MISMATCH, FERRY_E_CHECKSUM_MISMATCH,
                               "the chunk that arrived differs");
        if (r->error)
                ack.status = (uint32_t)r->wire_error;
        else
                add_progress(r, write->length);
        if ((write->flags & WIRE_FINAL) && write->length == r->stream.total && !r->error) {
                ack.flags = WIRE_FINAL;
                set_state(r, RESPONDER_COMPLETE);
        }
        if (ack.status || !(write->flags & WIRE_MORE))
                peer_send(r->peer, &ack);
        mark(r);
}

static void write_received(struct message *message, enum message_result result)
{
        struct responder *r = message->owner;

        r->in_flight--;
        r->copying -= message->answer.total;
        if (result == MESSAGE_OK)
                stored(r, &message->answer);
        else if (result == MESSAGE_NO_MEMORY)
                responder_fail(r, FERRY_E_TRANSFER_FAILED, FERRY_E_TRANSFER_FAILED, "out of memory");
        mark(r); /* after MESSAGE_REVOKED the requester's DONE says why */
}

/* Its turn has come; meanwhile the responder may have been revoked, and have told the peer so, or be gone. */
static bool write_begins(struct message *message)
{
        struct link *link = message->link;
        struct peer *peer = link->owner;
        struct responder *r = peer ? find(peer->engine, message->transfer) : NULL;

        /* The peer chose the transfer's id, perhaps once more since: then neither owner nor memory is what it was. */
        if (!r || r->number != message->responder || r->state != RESPONDER_SERVING)
                return false;
        r->in_flight++;
        return true;
}

bool responder_owns(const struct message *message)
{
        return message->done == write_received;
}

void responder_copied(struct message *message)
{
        struct responder *r = message->owner;
        uint64_t before = message->answer.total; /* not used in a receive: what was counted of it so far */

        r->copying += message->copied - before;
        message->answer.total = message->copied;
        peer_moved(r->peer, message->copied - before);
        tell_progress(r);
}

/* A WRITE that was the whole transfer and has completed it comes again, over a new link: its ACK was lost with the old.
 */
static bool confirm_again(struct engine *engine, struct peer *peer, const struct wire_header *h)
{
        const struct tombstone *tombstone = tombstone_find(engine, h->transfer);
        struct wire_header ack = answer_to(engine, h, WIRE_ACK, 0);

        if (!tombstone || tombstone->wire_error || !(h->flags & WIRE_FINAL) || h->length != h->total)
                return false;
        ack.flags = WIRE_FINAL;
        peer_send(peer, &ack);
        return true;
}

void responder_on_write(struct engine *engine, struct peer *peer, const struct wire_header *h, struct payload *payload)
{
        struct responder *r = NULL;
        struct message *message;
        int error = payload->length != h->length ? FERRY_E_TRANSFER_FAILED : responder_of(engine, peer, h, &r);

        if (error && confirm_again(engine, peer, h))
                return;
        if (error) {
                refuse(engine, peer, h, WIRE_ACK, error);
                return;
        }
        if (payload->bytes) {
                stream_store(&r->stream, h->offset, payload->bytes, h->length);
                stored(r, h);
                return;
        }
        message = message_new(peer->link->transport);
        if (!message) {
                refuse(engine, peer, h, WIRE_ACK, FERRY_E_TRANSFER_FAILED);
                responder_fail(r, FERRY_E_TRANSFER_FAILED, FERRY_E_TRANSFER_FAILED, "out of memory");
                return;
        }
        message->stream = &r->stream;
        message->offset = h->offset;
        message->length = h->length;
        message->begin = write_begins;
        message->done = write_received;
        message->owner = r;
        message->transfer = r->transfer;
        message->responder = r->number;
        message->answer = *h;
        message->answer.total = 0;
        peer->link->transport->ops->receive(peer->link, message, payload);
}

/* ---- the end ---- */

void responder_fail(struct responder *r, int error, int wire_error, const char *detail)
{
        if (r->error || r->state == RESPONDER_COMPLETE || r->state == RESPONDER_ENDED)
                return;
        r->error = error;
        r->wire_error = wire_error;
        (void)snprintf(r->detail, sizeof(r->detail), "%s", detail);
        r->grace_deadline_us = engine_grace(r->engine);
        r->n_reads = 0;
        stop_pending(r);
        if (r->state == RESPONDER_SERVING)
                set_state(r, RESPONDER_FAILING); /* else DONE decides, or the grace time */
        if (peer_is_usable(r->peer))
                r->peer->link->transport->ops->cancel(r->peer->link, r->transfer);
        if (r->state == RESPONDER_SERVING)
                set_state(r, RESPONDER_FAILING); /* the one message was taken back */
        mark(r);
}

/* The requester may be complete, and will not say so any more: then no reason of this side's own is the end of both. */
static void lose_done(struct responder *r, int error, const char *detail)
{
        if (r->state != RESPONDER_SERVED)
                return;
        r->error = r->wire_error = error;
        (void)snprintf(r->detail, sizeof(r->detail), "%s", detail);
        set_state(r, RESPONDER_FAILING);
}

void responder_link_ended(struct responder *r, int error, const char *detail)
{
        responder_fail(r, error, error, detail);
        lose_done(r, error, detail);
        mark(r);
}

/* What the requester's reason means on this side. */
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

/* DONE of a transfer that has no responder here. */
static void answer_late_done(struct engine *engine, struct peer *peer, const struct wire_header *h)
{
        const struct tombstone *tombstone = tombstone_find(engine, h->transfer);
        int status = tombstone ? tombstone->wire_error : FERRY_E_STALE_METADATA;

        /* Its first request may still be on its way: it must not claim any more. */
        if (!tombstone && h->status != 0)
                tombstone_add(engine, h->transfer, FERRY_E_CANCELLED_BY_PEER);
        if (!(h->flags & WIRE_QUIET))
                refuse(engine, peer, h, WIRE_DONE_ACK, status);
}

void responder_on_done(struct engine *engine, struct peer *peer, const struct wire_header *h, struct payload *payload)
{
        bool quiet = (h->flags & WIRE_QUIET) != 0;
        struct responder *r = find(engine, h->transfer);

        if (!r) {
                answer_late_done(engine, peer, h);
                return;
        }
        if (r->peer != peer || r->operation != h->operation || !ferry_key_equal(r->key, h->key)) {
                if (!quiet)
                        refuse(engine, peer, h, WIRE_DONE_ACK, FERRY_E_PEER_REFUSED);
                return;
        }
        r->done_came = true;
        r->ack_wanted |= !quiet;
        if (h->status != 0) {
                responder_fail(r, error_of_done(h->status), FERRY_E_TRANSFER_FAILED, "the peer ended the transfer");
                if (r->state == RESPONDER_SERVED)
                        set_state(r, RESPONDER_FAILING);
        } else if (h->length != r->stream.total ||
                   (r->direction == ENGINE_WRITE && r->bytes != r->stream.total && r->state != RESPONDER_COMPLETE)) {
                responder_fail(r, FERRY_E_TRANSFER_FAILED, FERRY_E_SIZE_MISMATCH, "the peer says it is done too early");
        } else if (r->error == 0 || r->state == RESPONDER_SERVED) {
                /* The reader has every byte, whatever our own sends say; a cancel in between came too late. */
                r->error = r->wire_error = 0;
                r->detail[0] = '\0';
                r->bytes = r->stream.total;
                set_state(r, RESPONDER_COMPLETE);
        }
        mark(r);
}

static void send_done_ack(const struct responder *r)
{
        struct wire_header h = header_of(r, WIRE_DONE_ACK);

        h.status = (uint32_t)r->wire_error;
        h.length = r->bytes;
        peer_send(r->peer, &h);
}

static void end(struct responder *r)
{
        struct engine *engine = r->engine;
        struct engine_outcome outcome = { .error = r->error, .bytes = r->bytes };

        set_state(r, RESPONDER_ENDED);
        if (r->moved || r->bytes > 0)
                (void)snprintf(outcome.transport, sizeof(outcome.transport), "%s", r->peer->link->carrier);
        (void)snprintf(outcome.detail, sizeof(outcome.detail), "%s", r->detail);
        tombstone_add(engine, r->transfer, r->wire_error);
        stop_pending(r);
        if (r->hh.tbl)
                HASH_DEL(engine->responders_by_transfer, r);
        DL_DELETE2(r->peer->responders, r, peer_prev, peer_next);
        r->offer.ended(r->offer.context, &outcome);
        engine->unsettled = true;
        /* Unasked when this side ended it, so that a requester that waits for nothing hears of it too. */
        if (r->ack_wanted || (r->error && !r->done_came))
                send_done_ack(r);
        peer_released(r->peer);
        stream_clear(&r->stream);
        free(r->reads);
        explicit_bzero(r->key, sizeof(r->key));
        free(r);
}

static void step(struct responder *r)
{
        bool decided = r->state == RESPONDER_COMPLETE || r->state == RESPONDER_FAILING;

        /* A link that has failed may still bring bytes until it has ended. */
        if (decided && r->in_flight == 0 && r->peer->link->state != LINK_FAILED)
                end(r);
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
        engine_tick_before(r->engine, r->grace_deadline_us > now_us ? r->grace_deadline_us : 0);
        if (!r->grace_deadline_us || now_us < r->grace_deadline_us)
                return;
        r->grace_deadline_us = 0;
        lose_done(r, FERRY_E_PEER_LOST, "the peer did not say whether it has the bytes");
        if (r->in_flight > 0)
                peer_fail(r->peer, FERRY_E_PEER_LOST, "a cancelled transfer did not come to rest");
        mark(r);
}
