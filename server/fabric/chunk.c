/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric_internal.h"

/*
 * The chunks of a transfer's window. A chunk is
 *
 *   READ    FREE → ASKED (READ sent) → MOVING (receive posted; eager data skip this) → FREE
 *   WRITE   FREE → MOVING (WRITE sent, owned until the send is done) → FREE when both sent and acknowledged
 *
 * While UCX may touch a chunk's memory it is owned; a transfer ends only when no chunk is owned.
 */

static void release_chunk(struct transfer *t, struct chunk *chunk)
{
        t->outstanding--;
        t->in_flight -= chunk->length;
        t->peer->asked -= chunk->length;
        if (t->peer->hungry)
                peer_ready(t->peer);
        if (chunk->owned)
                t->owned--;
        *chunk = (struct chunk){ .state = CHUNK_FREE };
}

/* Nobody will touch the memory of a READ that was only asked for: its data is refused when it comes. */
void chunks_drop_asked(struct transfer *t)
{
        for (size_t i = 0; i < FABRIC_WINDOW_MAX; i++)
                if (t->chunks[i].state != CHUNK_FREE && !t->chunks[i].owned)
                        release_chunk(t, &t->chunks[i]);
}

/* ---- asking ---- */

static uint64_t least(uint64_t a, uint64_t b)
{
        return a < b ? a : b;
}

static struct chunk *find_chunk(struct transfer *t, uint32_t seq)
{
        struct chunk *chunk = &t->chunks[seq % FABRIC_WINDOW_MAX];

        return chunk->state != CHUNK_FREE && chunk->seq == seq ? chunk : NULL;
}

static struct chunk *take_chunk(struct transfer *t)
{
        for (uint32_t i = 0; i < FABRIC_WINDOW_MAX; i++) {
                struct chunk *chunk = &t->chunks[i];

                if (chunk->state == CHUNK_FREE) {
                        chunk->seq = t->generation++ * FABRIC_WINDOW_MAX + i;
                        return chunk;
                }
        }
        return NULL;
}

static void count_done(struct transfer *t, const struct chunk *chunk)
{
        if (t->done == 0)
                (void)peer_transport(t->peer); /* is kept: UCX cannot tell any more once the endpoint has failed */
        t->done += chunk->length;
}

/* After a chunk: ends the transfer when its end is decided, else asks for more. */
static void advance(struct transfer *t)
{
        if (t->error || t->committed)
                transfer_end_when_quiet(t);
        else
                chunks_pump(t);
}

/* A chunk of a WRITE is done when UCX has let go of the memory and the peer has confirmed. */
static bool write_chunk_progress(struct transfer *t, struct chunk *chunk)
{
        if (chunk->owned || !chunk->acked)
                return false;
        count_done(t, chunk);
        release_chunk(t, chunk);
        t->spec.progress(t->spec.context, t->done);
        return true;
}

/* One message of a WRITE's chunk is done. The transfer may be gone afterwards. */
static void write_sent(struct transfer *t, struct chunk *chunk)
{
        if (--chunk->sends > 0)
                return;
        chunk->owned = false;
        t->owned--;
        if (write_chunk_progress(t, chunk) || t->error)
                advance(t);
}

static void request_sent(struct message *message, ucs_status_t status)
{
        struct fabric *fabric = message->fabric;
        struct transfer *t;
        struct chunk *chunk;

        HASH_FIND(hh, fabric->transfers_by_id, &message->transfer, sizeof(message->transfer), t);
        if (!t)
                return;
        if (status == UCS_OK)
                transfer_note_started(t);
        else if (status != UCS_ERR_CANCELED)
                peer_fail(t->peer, t->peer->heard ? FERRY_E_PEER_LOST : FERRY_E_PEER_UNREACHABLE,
                          ucs_status_string(status));
        chunk = find_chunk(t, message->seq);
        if (chunk && t->spec.direction == FABRIC_WRITE)
                write_sent(t, chunk);
}

/* Its turn has come; meanwhile the transfer may be about to end, and nobody wants the rest of it. */
static bool request_begin(struct message *message)
{
        struct transfer *t;

        HASH_FIND(hh, message->fabric->transfers_by_id, &message->transfer, sizeof(message->transfer), t);
        return t && t->error == 0;
}

/* The header of the request for a chunk, or for a part of it. */
static struct wire_header request_header(const struct transfer *t, const struct chunk *chunk, uint64_t offset,
                                         uint64_t length)
{
        bool write = t->spec.direction == FABRIC_WRITE;
        struct wire_header h = transfer_header(t, write ? WIRE_WRITE : WIRE_READ);

        h.seq = chunk->seq;
        h.offset = offset;
        h.length = length;
        if (t->spec.verify) {
                h.flags |= WIRE_VERIFY;
                if (write)
                        h.checksum = stream_checksum(&t->stream, offset, length);
        }
        /* A READ may only be final when its data comes inside the message: a rendezvous could still run when we are
         * gone. */
        if (length == t->spec.total && (write || length <= WIRE_EAGER_MAX))
                h.flags |= WIRE_FINAL;
        if (offset + length < chunk->offset + chunk->length)
                h.flags |= WIRE_MORE;
        return h;
}

/* false when memory is short. */
static bool send_request(struct transfer *t, const struct chunk *chunk, const struct wire_header *h, bool eager)
{
        struct message *message = message_new(t->fabric);
        uint8_t *address = NULL;
        uint64_t length = 0;

        if (!message)
                return false;
        if (h->type == WIRE_WRITE) {
                length = h->length;
                if (stream_run(&t->stream, h->offset, length, &address) < length &&
                    stream_pieces(&t->stream, h->offset, length, &message->pieces) == 0) {
                        message_free(message);
                        return false;
                }
                message->eager = eager;
        }
        message->begin = request_begin;
        message->done = request_sent;
        message->transfer = t->spec.id;
        message->seq = chunk->seq;
        message_send(t->peer, message, h, address, length);
        return true;
}

static void take(struct transfer *t, struct chunk *chunk, enum chunk_state state)
{
        chunk->state = state;
        t->outstanding++;
        t->in_flight += chunk->length;
        t->peer->asked += chunk->length;
        t->next += chunk->length;
        transfer_note_asked(t);
}

static void ask_read(struct transfer *t, struct chunk *chunk)
{
        struct wire_header h = request_header(t, chunk, chunk->offset, chunk->length);

        if (!t->unmapped && direct_may_borrow(t))
                h.flags |= WIRE_LEND;
        take(t, chunk, CHUNK_ASKED);
        if (!send_request(t, chunk, &h, false))
                transfer_fail(t, FERRY_E_TRANSFER_FAILED, "out of memory");
}

static void ask_write(struct transfer *t, struct chunk *chunk, bool in_parts)
{
        uint64_t part = in_parts && chunk->length > FABRIC_PART_SIZE ? FABRIC_PART_SIZE : chunk->length;
        uint64_t sent = 0;

        take(t, chunk, CHUNK_MOVING);
        chunk->owned = true;
        chunk->sends = 1; /* neither is it over before all of it is sent */
        t->owned++;
        for (; sent < chunk->length; sent += part) {
                struct wire_header h;

                part = least(part, chunk->length - sent);
                h = request_header(t, chunk, chunk->offset + sent, part);
                chunk->sends++;
                if (!send_request(t, chunk, &h, in_parts))
                        break;
        }
        if (sent < chunk->length) {
                chunk->sends--;
                transfer_fail(t, FERRY_E_TRANSFER_FAILED, "out of memory");
        }
        write_sent(t, chunk);
}

static void ask_done(struct transfer *t)
{
        struct wire_header h = transfer_header(t, WIRE_DONE);

        t->finishing = true;
        h.length = t->done;
        message_send_header(t->peer, &h);
}

/* The next chunk. The transfer may be gone afterwards. */
static void ask_next(struct transfer *t, struct chunk *chunk)
{
        uint64_t rest = t->spec.total - t->next, limit = message_limit(t->peer);
        uint8_t *address;
        uint64_t run = stream_run(&t->stream, t->next, limit, &address);
        bool gathered = run < FABRIC_GATHER_BELOW && run < rest;

        chunk->offset = t->next;
        /* Pieces that are not worth a rendezvous each travel together. */
        chunk->length = gathered ? least(rest, least(limit, FABRIC_GATHER_SIZE)) : run;
        if (t->spec.direction == FABRIC_READ)
                ask_read(t, chunk);
        else
                ask_write(t, chunk, gathered && peer_takes_parts(t->peer));
}

static void enlist(struct transfer *t)
{
        if (t->hungry)
                return;
        t->hungry = true;
        DL_APPEND2(t->peer->hungry, t, hungry_prev, hungry_next);
}

static void delist(struct transfer *t)
{
        if (!t->hungry)
                return;
        t->hungry = false;
        DL_DELETE2(t->peer->hungry, t, hungry_prev, hungry_next);
}

void chunks_leave(struct transfer *t)
{
        delist(t);
        t->peer->asked -= t->in_flight;
        t->in_flight = 0;
        if (t->peer->hungry)
                peer_ready(t->peer);
}

void chunks_serve(struct peer *peer)
{
        struct fabric *fabric = peer->side->fabric;
        uint64_t limit = (uint64_t)fabric->window * message_limit(peer);
        struct transfer *t;

        while (!peer->failed && (t = peer->hungry) && peer->asked < limit) {
                struct chunk *chunk = take_chunk(t);
                uint64_t id = t->spec.id;

                delist(t);
                if (!chunk)
                        continue; /* the next of its chunks that ends brings it back */
                ask_next(t, chunk);
                HASH_FIND(hh, fabric->transfers_by_id, &id, sizeof(id), t);
                if (t && t->error == 0 && t->next < t->spec.total)
                        enlist(t);
        }
}

/* What fits inside one message does not wait for its turn. */
void chunks_pump(struct transfer *t)
{
        if (t->error || t->peer->failed)
                return;
        if (t->spec.total <= WIRE_EAGER_MAX && t->next == 0) {
                ask_next(t, take_chunk(t));
        } else if (t->next < t->spec.total) {
                enlist(t);
                peer_ready(t->peer);
        } else if (!t->finishing && t->done == t->spec.total) {
                ask_done(t);
        }
}

/* ---- answers ---- */

/* Bytes of a READ's chunk are in place: as they were sent? If not, the transfer has failed. */
static bool check_bytes(struct transfer *t, struct chunk *chunk, uint64_t offset, uint64_t length, uint64_t checksum)
{
        if (!t->spec.verify || stream_checksum(&t->stream, offset, length) == checksum)
                return true;
        release_chunk(t, chunk);
        transfer_fail(t, FERRY_E_CHECKSUM_MISMATCH, "the chunk at byte %llu differs", (unsigned long long)offset);
        return false;
}

/* All bytes of a READ's chunk are in place. */
static void read_chunk_done(struct transfer *t, struct chunk *chunk, bool final)
{
        count_done(t, chunk);
        release_chunk(t, chunk);
        t->spec.progress(t->spec.context, t->done);
        if (final && t->done == t->spec.total)
                transfer_end_when_quiet(t); /* tells the peer DONE without waiting for an answer */
        else
                advance(t);
}

/* Its turn has come; meanwhile the transfer may have been cancelled, or be gone. */
static bool data_begin(struct message *message)
{
        struct transfer *t;
        struct chunk *chunk;

        HASH_FIND(hh, message->fabric->transfers_by_id, &message->transfer, sizeof(message->transfer), t);
        chunk = t && t->error == 0 ? find_chunk(t, message->seq) : NULL;
        if (!chunk)
                return false;
        chunk->owned = true;
        t->owned++;
        return true;
}

static void data_received(struct message *message, ucs_status_t status)
{
        struct transfer *t;
        struct chunk *chunk;

        HASH_FIND(hh, message->fabric->transfers_by_id, &message->transfer, sizeof(message->transfer), t);
        chunk = t ? find_chunk(t, message->seq) : NULL;
        if (!chunk)
                return;
        if (status != UCS_OK) {
                release_chunk(t, chunk);
                peer_fail(t->peer, FERRY_E_PEER_LOST, ucs_status_string(status));
                if (t->error)
                        transfer_end_when_quiet(t);
                return;
        }
        if (check_bytes(t, chunk, chunk->offset, chunk->length, chunk->checksum))
                read_chunk_done(t, chunk, false);
}

static ucs_status_t receive_rendezvous(struct transfer *t, struct chunk *chunk, const struct wire_header *header,
                                       const struct payload *payload)
{
        struct message *message = message_new(t->fabric);
        uint8_t *address;

        if (!message || (stream_run(&t->stream, chunk->offset, chunk->length, &address) != chunk->length &&
                         stream_pieces(&t->stream, chunk->offset, chunk->length, &message->pieces) == 0)) {
                if (message)
                        message_free(message);
                transfer_fail(t, FERRY_E_TRANSFER_FAILED, "out of memory");
                return UCS_OK;
        }
        chunk->state = CHUNK_MOVING;
        chunk->checksum = header->checksum;
        message->begin = data_begin;
        message->done = data_received;
        message->transfer = t->spec.id;
        message->seq = chunk->seq;
        message_receive(t->peer, message, payload->data, address, chunk->length);
        return UCS_INPROGRESS;
}

/* What comes is all of the chunk, or the next part of it. */
static bool is_expected(const struct transfer *t, const struct chunk *chunk, const struct wire_header *header,
                        const struct payload *payload)
{
        uint64_t left = chunk->length - chunk->arrived;

        if (t->spec.verify && !(header->flags & WIRE_VERIFY))
                return false;
        return header->offset == chunk->offset + chunk->arrived && payload->length > 0 &&
               (payload->rendezvous ? payload->length == chunk->length : payload->length <= left);
}

/* A payload that came inside its message. */
static void store_data(struct transfer *t, struct chunk *chunk, const struct wire_header *header,
                       const struct payload *payload)
{
        stream_store(&t->stream, header->offset, payload->data, payload->length);
        if (!check_bytes(t, chunk, header->offset, payload->length, header->checksum))
                return;
        chunk->arrived += payload->length;
        if (chunk->arrived == chunk->length)
                read_chunk_done(t, chunk, (header->flags & WIRE_FINAL) != 0);
}

void chunk_borrowed(struct transfer *t, uint32_t seq)
{
        read_chunk_done(t, find_chunk(t, seq), true);
}

void chunk_ask_again(struct transfer *t, uint32_t seq)
{
        struct chunk *chunk = find_chunk(t, seq);

        t->next -= chunk->length;
        release_chunk(t, chunk);
        t->unmapped = true;
        chunks_pump(t);
}

bool chunk_is_asked(struct transfer *t, uint32_t seq)
{
        const struct chunk *chunk = find_chunk(t, seq);

        return chunk && chunk->state == CHUNK_ASKED;
}

ucs_status_t transfer_on_data(struct fabric *fabric, struct peer *peer, const struct wire_header *header,
                              const struct payload *payload)
{
        struct transfer *t = transfer_of_answer(fabric, peer, header);
        struct chunk *chunk = t && t->spec.direction == FABRIC_READ ? find_chunk(t, header->seq) : NULL;

        if (!chunk || chunk->state != CHUNK_ASKED)
                return UCS_OK;
        if (header->status) {
                transfer_refused(t, header);
                return UCS_OK;
        }
        if (!is_expected(t, chunk, header, payload)) {
                transfer_fail(t, FERRY_E_TRANSFER_FAILED, "the peer sent other bytes than were asked for");
                return UCS_OK;
        }
        if (payload->rendezvous)
                return receive_rendezvous(t, chunk, header, payload);
        store_data(t, chunk, header, payload);
        return UCS_OK;
}

void transfer_on_ack(struct fabric *fabric, struct peer *peer, const struct wire_header *header)
{
        struct transfer *t = transfer_of_answer(fabric, peer, header);
        struct chunk *chunk = t && t->spec.direction == FABRIC_WRITE ? find_chunk(t, header->seq) : NULL;

        if (!chunk || chunk->acked)
                return;
        if (header->status) {
                transfer_refused(t, header);
                return;
        }
        chunk->acked = true;
        /* The other side is complete already; no DONE is needed, and neither a cancel nor its death changes that. */
        if ((header->flags & WIRE_FINAL) && chunk->length == t->spec.total)
                t->committed = true;
        if (write_chunk_progress(t, chunk))
                advance(t);
}
