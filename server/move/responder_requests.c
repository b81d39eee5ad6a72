/* SPDX-License-Identifier: Apache-2.0 */
#include "engine_internal.h"
#include "responder.h"

/*
 * READs: a responder sends bytes of its operation. A short READ with no other before it is answered at once, unless the
 * operation follows another one; the rest are queued, at most ENGINE_WINDOW_MAX of them, and answered in order, in as
 * many DATA as the link takes. A READ of bytes that a followed read has not brought yet is held: the responder is in
 * held_responders, and the requester is told now and then, so that it does not take the pause for a stall.
 *
 * Thread: the holder of the progress lock. A DATA's owner is its responder, which stays until in_flight is 0.
 */

/*
 * The transport has done with a DATA. If the one that was to be the whole transfer never left, the responder goes on.
 */
static void data_sent(struct message *message, enum message_result result)
{
        struct responder *r = message->owner;
        bool untold = result != MESSAGE_OK && result != MESSAGE_LOST; /* the peer never gets it */

        r->in_flight--;
        r->copying -= message->counted;
        r->sending -= message->length;
        r->session->served -= message->length;
        if (r->session->pending)
                session_ready(r->session);
        if (untold && (message->header.flags & WIRE_FINAL) && r->state == RESPONDER_SERVED)
                responder_set_state(r, r->error ? RESPONDER_FAILING : RESPONDER_SERVING);
        responder_note_message(r, message, result);
        if (result == MESSAGE_OK)
                responder_add_progress(r, message->copied); /* DONE counts the rest */
        responder_mark(r);
}

/* Called when the transport is about to send: the responder may have failed meanwhile, but still exists. */
static bool data_wanted(struct message *message)
{
        const struct responder *r = message->owner;

        return r->error == 0;
}

/* Sends length of a READ's bytes, from its byte at on. */
static void send_data(struct responder *r, const struct responder_read *read, uint64_t at, uint64_t length,
                      bool force_inline)
{
        struct wire_header header = answer_header(&r->request, WIRE_DATA);
        struct message *message;

        header.seq = read->seq;
        header.offset = read->offset + at;
        header.length = length;
        if (read->verify)
                header.flags |= WIRE_VERIFY;
        if (length == r->request.total && length <= WIRE_INLINE_MAX)
                header.flags |= WIRE_FINAL;
        message = session_message_new(r->session, &header, &r->stream, header.offset, r);
        if (!message) {
                responder_fail(r, FERRY_E_TRANSFER_FAILED, FERRY_E_TRANSFER_FAILED, "out of memory");
                return;
        }
        if (header.flags & WIRE_FINAL)
                responder_set_state(r, RESPONDER_SERVED);
        message->force_inline = force_inline;
        message->begin = data_wanted;
        message->piece_done = responder_count_copied;
        message->done = data_sent;
        r->answered += length;
        r->in_flight++;
        r->sending += length;
        r->session->served += length;
        session_send_message(r->session, message);
}

/* How many of a READ's remaining bytes can be sent now. */
static uint64_t ready_bytes(const struct responder *r, const struct responder_read *read)
{
        uint64_t left = read->length - read->sent, found = 0, run, there;

        if (!r->claim.available)
                return left;
        do {
                uint64_t place = ranges_place(r->parts, read->offset + read->sent + found, &run);

                run = run < left - found ? run : left - found;
                there = r->claim.available(r->claim.context, place, run);
                found += there;
        } while (there == run && found < left);
        return found;
}

/* Whether the transport has as many messages of it as a requester may ask for. */
static bool is_full(const struct responder *r)
{
        return r->in_flight >= ENGINE_WINDOW_MAX;
}

/* Whether a READ has to wait until the bytes before it have been sent. */
static bool must_wait(const struct responder *r, const struct responder_read *read)
{
        return (read->sent == 0 && is_full(r)) || (read->verify && r->sending >= ENGINE_VERIFIED_MAX) ||
               !session_has_room(r->session, r->sending, r->session->served);
}

/* Answers READs while the link has room and the bytes are there. */
static void answer_reads(struct responder *r)
{
        struct link *link = r->session->link;
        const struct transport_ops *ops = link->transport->ops;

        while (r->n_reads > 0 && r->state == RESPONDER_SERVING && session_is_usable(r->session)) {
                struct responder_read *read = &r->reads[r->first_read];
                bool force_inline = false;
                uint64_t fragment;

                if (must_wait(r, read))
                        return;
                fragment = ready_bytes(r, read);
                responder_set_held(r, fragment == 0);
                if (fragment == 0)
                        return;
                if (read->verify && fragment > WIRE_VERIFY_MAX)
                        fragment = WIRE_VERIFY_MAX;
                fragment = ops->fit(link, &r->stream, read->offset + read->sent, fragment, &force_inline);
                if (fragment == 0)
                        return;
                send_data(r, read, read->sent, fragment, force_inline);
                read->sent += fragment;
                if (read->sent < read->length || r->error)
                        continue; /* a fragment of it is sent, or sending it has failed */
                r->first_read = (r->first_read + 1) % ENGINE_WINDOW_MAX;
                r->n_reads--;
        }
        if (r->n_reads == 0)
                responder_stop_pending(r);
}

void responders_send(struct session *session)
{
        struct responder *r, *next;

        DL_FOREACH_SAFE2 (session->pending, r, next, pending_next)
                answer_reads(r);
}

/* Queues a READ, and answers as many as can be. A peer that has asked for more at once than it may fails. */
static void queue_read(struct responder *r, const struct responder_read *read)
{
        if (r->n_reads == ENGINE_WINDOW_MAX) {
                responder_fail(r, FERRY_E_TRANSFER_FAILED, FERRY_E_LIMIT_REACHED,
                               "the peer requested more chunks at once than allowed");
                return;
        }
        r->reads[(r->first_read + r->n_reads++) % ENGINE_WINDOW_MAX] = *read;
        if (!r->pending) {
                r->pending = true;
                DL_APPEND2(r->session->pending, r, pending_prev, pending_next);
        }
        answer_reads(r);
        if (r->held)
                responder_send_held(r, read->seq);
}

void responders_retry_held(struct engine *engine)
{
        struct responder *r;

        DL_FOREACH2 (engine->held_responders, r, held_next)
                session_ready(r->session);
}

void responder_on_read(struct session *session, const struct wire_header *h, struct payload *payload)
{
        struct responder_read read = {
                .seq = h->seq,
                .verify = (h->flags & WIRE_VERIFY) != 0,
                .offset = h->offset,
                .length = h->length,
        };
        struct responder *r = NULL;
        int error = responder_claim(session, h, &r);

        if (error) {
                responder_refuse(session, h, WIRE_DATA, error);
                return;
        }
        if (h->length > WIRE_INLINE_MAX || r->n_reads > 0 || is_full(r) || r->claim.available)
                queue_read(r, &read);
        else
                send_data(r, &read, 0, h->length, false);
}

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
        struct wire_header ack = answer_header(&r->request, WIRE_ACK);

        ack.seq = write->seq;
        ack.offset = follow_fragments(r, write);
        ack.length = write->offset + write->length - ack.offset;
        if (r->error)
                ack.status = (uint32_t)r->wire_error;
        else
                responder_add_progress(r, write->length);
        if ((write->flags & WIRE_FINAL) && write->length == r->request.total && !r->error) {
                ack.flags = WIRE_FINAL;
                responder_set_state(r, RESPONDER_COMPLETE);
        }
        if (ack.status || !(write->flags & WIRE_MORE))
                session_send(r->session, &ack);
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
        struct session *session = link->owner;
        struct responder *r = session ? responder_find(session->engine, message->transfer) : NULL;

        /* The peer chooses transfer ids, and may have reused this one: then owner and memory are another responder's.
         */
        if (!r || r->number != message->responder || r->state != RESPONDER_SERVING)
                return false;
        r->in_flight++;
        return true;
}

/* A WRITE that was the whole transfer and has completed it comes again, over a new link: its ACK was lost with the old.
 */
static bool confirm_again(struct session *session, const struct wire_header *h)
{
        const struct tombstone *tombstone = tombstone_find(session->engine, h->transfer);

        if (!tombstone || tombstone->wire_error || !(h->flags & WIRE_FINAL) || h->length != h->total)
                return false;
        session_answer(session, h, WIRE_ACK, WIRE_FINAL, 0);
        return true;
}

/* Refuses a WRITE, and fails its responder. */
static void fail_write(struct responder *r, const struct wire_header *h, int wire_error, const char *detail)
{
        responder_refuse(r->session, h, WIRE_ACK, wire_error);
        responder_fail(r, FERRY_E_TRANSFER_FAILED, wire_error, detail);
}

void responder_on_write(struct session *session, const struct wire_header *h, struct payload *payload)
{
        struct responder *r = NULL;
        struct message *message;
        int error = payload->length != h->length ? FERRY_E_TRANSFER_FAILED : responder_claim(session, h, &r);

        if (error && confirm_again(session, h))
                return;
        if (error) {
                responder_refuse(session, h, WIRE_ACK, error);
                return;
        }
        if (!payload->bytes && r->n_receives == ENGINE_WINDOW_MAX) {
                fail_write(r, h, FERRY_E_LIMIT_REACHED, "the peer wrote more chunks at once than allowed");
                return;
        }
        message = session_message_new(session, h, &r->stream, h->offset, r);
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
        session->link->transport->ops->receive(session->link, message, payload);
}
