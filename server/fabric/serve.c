/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/error.h>

#include "fabric_internal.h"

/*
 * The bytes of the passive side's transfers that messages carry: READ is answered, WRITE is stored. Who may ask, and
 * how it ends, is in attempt.c.
 */

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
        else if (status == UCS_ERR_CANCELED && (message->answer.flags & WIRE_FINAL))
                a->final_served = false;
        else if (status != UCS_ERR_CANCELED)
                peer_fail(a->peer, FERRY_E_PEER_LOST, ucs_status_string(status));
        attempt_end_when_quiet(a);
}

/* Its turn has come; meanwhile the attempt may be about to end. It is there as long as messages of it are in flight. */
static bool data_wanted(struct message *message)
{
        const struct attempt *a = message->owner;

        return a->error == 0;
}

/* Sends bytes that were asked for: all of them, or a part. false when memory is short. */
static bool send_data(struct attempt *a, const struct wire_header *h, uint64_t offset, uint64_t length, bool eager)
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
        message->begin = data_wanted;
        message->done = data_sent;
        message->owner = a;
        message->answer = answer;
        message->eager = eager;
        message_send(a->peer, message, &answer, address, length);
        return true;
}

/*
 * Whether a READ is answered in parts. Pieces in a rendezvous are packed into a buffer by UCX, which then sends that;
 * inside messages they go from where they are to the socket.
 */
static bool goes_in_parts(const struct attempt *a, const struct wire_header *h)
{
        uint8_t *address;
        uint64_t run = stream_run(&a->stream, h->offset, h->length, &address);

        return run < h->length && run < FABRIC_GATHER_BELOW && peer_takes_parts(a->peer);
}

ucs_status_t attempt_on_read(struct fabric *fabric, struct peer *peer, const struct wire_header *h)
{
        struct attempt *a = NULL;
        uint64_t part, sent = 0;
        bool in_parts;
        int r = attempt_of_request(fabric, peer, h, &a);

        if (r != 0) {
                attempt_refuse(fabric, peer, h, WIRE_DATA, r);
                return UCS_OK;
        }
        if (attempt_lend(a, h))
                return UCS_OK;
        in_parts = goes_in_parts(a, h);
        part = in_parts && h->length > FABRIC_PART_SIZE ? FABRIC_PART_SIZE : h->length;
        a->in_flight++; /* the messages may be over at once, and it with them */
        for (; sent < h->length; sent += part) {
                if (part > h->length - sent)
                        part = h->length - sent;
                if (!send_data(a, h, h->offset + sent, part, in_parts))
                        break;
        }
        a->in_flight--;
        if (sent < h->length) {
                attempt_refuse(fabric, peer, h, WIRE_DATA, FERRY_E_TRANSFER_FAILED);
                attempt_fail(a, FERRY_E_TRANSFER_FAILED, FERRY_E_TRANSFER_FAILED, "out of memory");
        } else {
                attempt_end_when_quiet(a);
        }
        return UCS_OK;
}

/* ---- WRITE ---- */

/* The bytes of a WRITE are in place: check, confirm, and end what is final. ack has the WRITE's flags and checksum. */
static void stored(struct attempt *a, const struct wire_header *ack)
{
        struct wire_header h = *ack;
        struct peer *peer = a->peer;

        h.flags &= WIRE_FINAL;
        h.checksum = 0;
        if ((ack->flags & WIRE_VERIFY) && stream_checksum(&a->stream, h.offset, h.length) != ack->checksum)
                attempt_note_error(a, FERRY_E_CHECKSUM_MISMATCH, FERRY_E_CHECKSUM_MISMATCH,
                                   "the chunk that arrived differs");
        if (a->error)
                h.status = (uint32_t)a->wire_error;
        else
                add_progress(a, h.length);
        if ((h.flags & WIRE_FINAL) && !a->error)
                a->peer_done = true;
        if (!peer->failed && (h.status || !(ack->flags & WIRE_MORE)))
                message_send_header(peer, &h);
}

static void data_stored(struct message *message, ucs_status_t status)
{
        struct attempt *a = message->owner;

        if (status != UCS_OK)
                peer_fail(a->peer, FERRY_E_PEER_LOST, ucs_status_string(status));
        else
                stored(a, &message->answer);
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
                attempt_fail(a, FERRY_E_TRANSFER_FAILED, FERRY_E_TRANSFER_FAILED, "out of memory");
                return UCS_OK;
        }
        message->owner = a;
        message->attempt = a->number;
        message->transfer = h->transfer;
        message->answer = attempt_answer(fabric, h, WIRE_ACK, 0);
        message->answer.checksum = h->checksum;
        message->answer.flags = h->flags & (WIRE_VERIFY | WIRE_MORE);
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
