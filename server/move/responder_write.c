/* SPDX-License-Identifier: Apache-2.0 */
#include "engine_internal.h"
#include "responder.h"

/*
 * WRITEs: a responder receives bytes into its operation's memory. The transport stores them, or copies them from the
 * peer's memory, at the place that this worker's own list of segments gives; write_begins() is the last check before it
 * does. A chunk that comes in several messages is confirmed by one ACK, of the last.
 *
 * Thread: the holder of the progress lock. A message's owner is its responder, but the peer chooses the transfer's id
 * and may use it again: message->responder, a number of this engine, tells the two apart.
 */

/* A WRITE is in place. Returns the start of the contiguous fragments of its chunk that end with it. */
static uint64_t follow_fragments(struct responder *r, const struct wire_header *write)
{
        bool follows = r->fragments_end == write->offset && r->fragments_seq == write->seq;
        uint64_t start = follows ? r->fragments_start : write->offset;

        r->fragments_seq = write->seq;
        r->fragments_start = start;
        r->fragments_end = write->flags & WIRE_MORE ? write->offset + write->length : 0;
        return start;
}

/* The bytes of a WRITE are in place, unless it has failed: confirms them. */
static void stored(struct responder *r, const struct wire_header *write)
{
        struct wire_header ack = responder_header(r, WIRE_ACK);

        ack.seq = write->seq;
        ack.offset = follow_fragments(r, write);
        ack.length = write->offset + write->length - ack.offset;
        if (r->error)
                ack.status = (uint32_t)r->wire_error;
        else
                responder_add_progress(r, write->length);
        if ((write->flags & WIRE_FINAL) && write->length == r->total && !r->error) {
                ack.flags = WIRE_FINAL;
                responder_set_state(r, RESPONDER_COMPLETE);
        }
        if (ack.status || !(write->flags & WIRE_MORE))
                peer_send(r->peer, &ack);
        responder_mark(r);
}

/* The transport has done with a WRITE: its bytes are in place, or are not to come. */
static void write_received(struct message *message, enum message_result result)
{
        struct responder *r = message->owner;

        r->in_flight--;
        r->n_receives -= !message->force_inline;
        r->copying -= message->counted;
        responder_note_message(r, message, result);
        if (result == MESSAGE_DIFFERS)
                responder_fail(r, FERRY_E_CHECKSUM_MISMATCH, FERRY_E_CHECKSUM_MISMATCH,
                               "the chunk that arrived differs");
        if (result == MESSAGE_OK || result == MESSAGE_DIFFERS)
                stored(r, &message->header);
        responder_mark(r); /* after MESSAGE_LEASE_ENDED the requester's DONE says why */
}

/* Called when the transport is about to store: the responder may have failed or ended meanwhile. */
static bool write_begins(struct message *message)
{
        struct link *link = message->link;
        struct peer *peer = link->owner;
        struct responder *r = peer ? responder_find(peer->engine, message->transfer) : NULL;

        /* The peer chooses transfer ids, and may have reused this one: then owner and memory are another responder's.
         */
        if (!r || r->number != message->responder || r->state != RESPONDER_SERVING)
                return false;
        r->in_flight++;
        return true;
}

/* A WRITE that was the whole transfer and has completed it comes again, over a new link: its ACK was lost with the old.
 */
static bool confirm_again(struct peer *peer, const struct wire_header *h)
{
        const struct tombstone *tombstone = tombstone_find(peer->engine, h->transfer);

        if (!tombstone || tombstone->wire_error || !(h->flags & WIRE_FINAL) || h->length != h->total)
                return false;
        peer_answer(peer, h, WIRE_ACK, WIRE_FINAL, 0);
        return true;
}

/* Refuses a WRITE, and fails its responder. */
static void fail_write(struct responder *r, const struct wire_header *h, int wire_error, const char *detail)
{
        responder_refuse(r->peer, h, WIRE_ACK, wire_error);
        responder_fail(r, FERRY_E_TRANSFER_FAILED, wire_error, detail);
}

void responder_on_write(struct peer *peer, const struct wire_header *h, struct payload *payload)
{
        struct responder *r = NULL;
        struct message *message;
        int error = payload->length != h->length ? FERRY_E_TRANSFER_FAILED : responder_claim(peer, h, &r);

        if (error && confirm_again(peer, h))
                return;
        if (error) {
                responder_refuse(peer, h, WIRE_ACK, error);
                return;
        }
        if (!payload->bytes && r->n_receives == ENGINE_WINDOW_MAX) {
                fail_write(r, h, FERRY_E_LIMIT_REACHED, "the peer wrote more chunks at once than allowed");
                return;
        }
        message = peer_message_new(peer, h, &r->stream, h->offset, r);
        if (!message) {
                fail_write(r, h, FERRY_E_TRANSFER_FAILED, "out of memory");
                return;
        }
        r->n_receives += !payload->bytes;
        message->force_inline = payload->bytes != NULL;
        message->begin = write_begins;
        message->piece_done = responder_count_copied;
        message->done = write_received;
        message->responder = r->number;
        peer->link->transport->ops->receive(peer->link, message, payload);
}
