/* SPDX-License-Identifier: Apache-2.0 */
#include "engine_internal.h"
#include "requester.h"

/*
 * The responder's messages to a requester: DATA, ACK, DONE_ACK and the notice that a READ is held. All comes from a
 * peer that may err or lie, so each is compared with the chunk that was requested; bytes that nobody requested end the
 * transfer.
 *
 * Thread: the holder of the progress lock, inside a transport's progress(). The callbacks of a message (begin,
 * piece_done, done) may come after the requester has failed, but not after it was freed: a chunk whose memory a
 * transport touches keeps it.
 */

/* The sentence for users that goes with an error of the peer. */
static const char *sentence_of(int error)
{
        switch (error) {
        case FERRY_E_LIMIT_REACHED:
                return "its limit of transfers (claims_max), or of requests of one transfer, is reached";
        case FERRY_E_TRANSFER_FAILED:
                return "it could not read or write its memory, or has none left; its own operation tells which";
        default:
                return ferry_error_title(error);
        }
}

/* The responder has ended, for the reason in h; the requester's own reason, if any, takes precedence. */
static void refused(struct requester *r, const struct wire_header *h)
{
        int error = session_error(h->status);

        /* A retry over a new link, and the peer does not remember the transfer's end. */
        if (r->retried && r->accord == REQUESTER_ASKS &&
            (error == FERRY_E_ALREADY_CLAIMED || error == FERRY_E_STALE_METADATA)) {
                error = FERRY_E_PEER_LOST;
                r->error = 0;
        }
        if (r->accord == REQUESTER_WAITS)
                r->error = 0;
        r->accord = REQUESTER_TOLD;
        requester_fail(r, error, "the peer answered: %s", sentence_of(error));
}

/* Finds the requester of a message; NULL when it has ended, belongs to another link, or another worker confirms. */
static struct requester *requester_of(struct session *session, const struct wire_header *h)
{
        struct requester *r = requester_find(session->engine, h->transfer);

        if (!r || r->session != session)
                return NULL;
        /* Another worker at the address of the one in the metadata answers with its own epoch, and refuses. */
        if (h->from_epoch != r->spec.peer.epoch && h->status == 0)
                return NULL;
        return r;
}

/* ---- DATA ---- */

/* Tells the operation that the first bytes of a message are in place. Those that were told before are left out. */
static void tell_arrived(struct requester *r, struct message *message, uint64_t bytes)
{
        if (r->spec.arrived && bytes > message->arrived)
                r->spec.arrived(r->spec.context, message->offset + message->arrived, bytes - message->arrived);
        message->arrived = bytes;
}

/* The bytes of a DATA are in place and checked. The last one of a chunk frees it. */
static void data_is_there(struct requester *r, struct chunk *chunk, struct message *message)
{
        chunk->arrived += message->length;
        requester_count_done(r, message->length);
        tell_arrived(r, message, message->length);
        if (chunk->arrived < chunk->length || chunk_is_busy(chunk))
                return;
        requester_release_chunk(r, chunk);
        /* The end tells the responder, and waits for no answer. */
        if ((message->header.flags & WIRE_FINAL) && r->done == r->spec.total)
                requester_set_state(r, REQUESTER_COMPLETE);
}

/* The transport has done with a DATA and no longer touches the memory. */
static void data_received(struct message *message, enum message_result result)
{
        struct requester *r = message->owner;
        struct chunk *chunk = window_find(&r->window, message->header.seq);

        chunk->receives--;
        r->copying -= message->counted;
        requester_note_message(r, message, result);
        if (result == MESSAGE_OK && r->error == 0) {
                data_is_there(r, chunk, message);
        } else if (result == MESSAGE_DIFFERS) {
                requester_fail(r, FERRY_E_CHECKSUM_MISMATCH, "the chunk at byte %llu differs",
                               (unsigned long long)(message->offset + message->copied));
        } else if (result == MESSAGE_LEASE_ENDED) {
                if (r->error == 0)
                        r->accord = REQUESTER_WAITS;
                requester_fail(r, FERRY_E_CANCELLED_BY_PEER, "the peer withdrew its memory");
        }
        if (result != MESSAGE_OK)
                tell_arrived(r, message, message->copied); /* a new read may go on behind them */
        requester_mark(r);
}

/* Followers get the bytes piece by piece as long as they may be asked for so. */
static void piece_received(struct message *message)
{
        struct requester *r = message->owner;

        (void)requester_count_copied(message);
        if (r->error == 0 && r->spec.request_max &&
            message->copied - message->arrived >= r->spec.request_max(r->spec.context))
                tell_arrived(r, message, message->copied);
}

/* Called when the transport is about to store: the transfer may have been cancelled or ended meanwhile. */
static bool data_begins(struct message *message)
{
        struct session *session = message->link->owner;
        struct requester *r = session ? requester_find(session->engine, message->transfer) : NULL;
        struct chunk *chunk = r && r->error == 0 ? window_find(&r->window, message->header.seq) : NULL;

        if (!chunk)
                return false;
        chunk->receives++;
        return true;
}

/* Hands the payload to the transport, which may store it now or later. */
static void receive(struct requester *r, const struct wire_header *h, struct payload *payload)
{
        struct link *link = r->session->link;
        struct message *message = session_message_new(r->session, h, &r->stream, h->offset, r);

        if (!message) {
                requester_fail(r, FERRY_E_TRANSFER_FAILED, "out of memory");
                return;
        }
        message->begin = data_begins;
        message->piece_done = piece_received;
        message->done = data_received;
        link->transport->ops->receive(link, message, payload);
}

/* Whether h is the next fragment of the chunk, or all of it. */
static bool is_expected(const struct requester *r, const struct chunk *chunk, const struct wire_header *h,
                        const struct payload *payload)
{
        if (r->spec.verify && !(h->flags & WIRE_VERIFY))
                return false;
        if (!payload->bytes && h->length <= WIRE_INLINE_MAX)
                return false; /* each message takes memory until its bytes are fetched */
        return h->offset == chunk->offset + chunk->announced && h->length == payload->length && h->length > 0 &&
               h->length <= chunk->length - chunk->announced;
}

void requester_on_data(struct session *session, const struct wire_header *h, struct payload *payload)
{
        struct requester *r = requester_of(session, h);
        struct chunk *chunk = r && r->spec.direction == ENGINE_READ ? window_find(&r->window, h->seq) : NULL;

        if (!chunk)
                return;
        if (h->status) {
                refused(r, h);
                return;
        }
        if (r->error)
                return;
        if (!is_expected(r, chunk, h, payload)) {
                requester_fail(r, FERRY_E_TRANSFER_FAILED, "the peer sent bytes that were not requested");
                return;
        }
        chunk->announced += h->length;
        receive(r, h, payload);
}

void requester_on_held(struct session *session, const struct wire_header *h)
{
        struct requester *r = h->status ? NULL : requester_of(session, h);

        if (r && r->spec.direction == ENGINE_READ && r->next > 0 && r->state == REQUESTER_MOVING && !r->error)
                requester_report_progress(r); /* not a stall: the peer waits for the bytes, too */
}

/* ---- ACK, DONE_ACK ---- */

void requester_on_ack(struct session *session, const struct wire_header *h, struct payload *payload)
{
        struct requester *r = requester_of(session, h);
        struct chunk *chunk = r && r->spec.direction == ENGINE_WRITE ? window_find(&r->window, h->seq) : NULL;

        if (!chunk || chunk->acked)
                return;
        if (h->status) {
                refused(r, h);
                return;
        }
        if (h->offset != chunk->offset || h->length != chunk->length) {
                requester_fail(r, FERRY_E_TRANSFER_FAILED, "the peer confirmed other bytes than were sent");
                return;
        }
        chunk->acked = true;
        /* The responder is complete; no DONE is needed, and neither a cancel nor the peer's death changes that. */
        if ((h->flags & WIRE_FINAL) && chunk->length == r->spec.total) {
                r->accord = REQUESTER_TOLD;
                requester_set_state(r, REQUESTER_COMPLETE);
        }
        requester_chunk_written(r, chunk);
        requester_mark(r);
}

void requester_on_done_ack(struct session *session, const struct wire_header *h, struct payload *payload)
{
        struct requester *r = requester_of(session, h);

        if (!r || r->state == REQUESTER_COMPLETE)
                return;
        if (h->status) {
                refused(r, h);
        } else if (r->state == REQUESTER_FINISHING || r->accord == REQUESTER_ASKS) {
                r->accord = REQUESTER_TOLD; /* a cancel after DONE is too late */
                requester_set_state(r, REQUESTER_COMPLETE);
                requester_mark(r);
        }
}
