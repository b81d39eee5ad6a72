/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/util.h"
#include "engine_internal.h"
#include "message/ranges.h"
#include "requester.h"

/*
 * The requester's messages: PARTS, READ and WRITE. How much one names depends on the link: a transport that copies in
 * pieces (local) takes all of the transfer, UCX gives the size that keeps its window full (request_size). Where several
 * requesters share a link, requesters_send() lets each request one chunk in turn.
 *
 * Thread: the holder of the progress lock. A message's owner is its requester, which stays until the chunk is free; a
 * READ and PARTS have no bytes of the transfer and find their requester by its id.
 */

/* A message without bytes of the transfer was sent, or dropped: the requester may have ended meanwhile. */
static void request_sent(struct message *message, enum message_result result)
{
        struct session *session = message->link->owner;
        struct requester *r = session ? requester_find(session->engine, message->transfer) : NULL;

        if (r && r->session == session && result == MESSAGE_NO_MEMORY)
                requester_fail(r, FERRY_E_TRANSFER_FAILED, "out of memory");
}

/* ---- PARTS ---- */

/* The payload of a message, which may be sent after the transfer's end. */
struct named_parts {
        struct segment segment;
        struct stream stream;
        uint8_t bytes[];
};

static void parts_sent(struct message *message, enum message_result result)
{
        request_sent(message, result);
        free(message->owner);
}

/*
 * Sends n parts of the offer from the first on, in a message that owns its bytes. Returns false when memory is short.
 */
static bool send_parts(struct requester *r, size_t first, size_t n)
{
        const size_t size = n * RANGE_SIZE;
        struct named_parts *named = malloc(sizeof(*named) + size);
        struct wire_header header = requester_header(r, WIRE_PARTS);
        struct message *message;

        header.flags = WIRE_VERIFY | (r->spec.direction == ENGINE_WRITE ? WIRE_WRITES : 0);
        header.offset = r->spec.remote->list[first].at;
        header.length = size;
        message = named ? session_message_new(r->session, &header, &named->stream, 0, named) : NULL;
        if (!message) {
                free(named);
                return false;
        }
        ranges_encode(r->spec.remote, first, n, named->bytes);
        named->segment = (struct segment){ .address = named->bytes, .size = size };
        (void)stream_init(&named->stream, &named->segment, 1); /* of one segment it owns nothing */
        message->force_inline = true;
        message->done = parts_sent;
        session_send_message(r->session, message);
        return true;
}

void requester_name_parts(struct requester *r)
{
        enum { MOST = WIRE_INLINE_MAX / RANGE_SIZE };
        const struct ranges *parts = r->spec.remote;

        for (size_t first = 0; parts && first < parts->n && r->error == 0; first += MOST)
                if (!send_parts(r, first, parts->n - first < MOST ? parts->n - first : MOST))
                        requester_fail(r, FERRY_E_TRANSFER_FAILED, "out of memory");
}

/* ---- READ ---- */

/* The header of a READ, or of a WRITE without its checksum, which the transport adds. */
static struct wire_header request_header(const struct requester *r, const struct chunk *chunk, uint64_t offset,
                                         uint64_t length)
{
        bool write = r->spec.direction == ENGINE_WRITE;
        struct wire_header h = requester_header(r, write ? WIRE_WRITE : WIRE_READ);

        h.seq = chunk->seq;
        h.offset = offset;
        h.length = length;
        if (r->spec.remote)
                h.flags |= WIRE_PARTED;
        if (r->spec.verify)
                h.flags |= WIRE_VERIFY;
        /* A READ is final only if its data come inline, so that its memory is not touched afterwards. */
        if (length == r->spec.total && length <= (write ? WIRE_FINAL_MAX : WIRE_INLINE_MAX))
                h.flags |= WIRE_FINAL;
        if (offset + length < chunk->offset + chunk->length)
                h.flags |= WIRE_MORE;
        return h;
}

/* The most bytes that the next request may name. */
static uint64_t wanted_size(const struct requester *r)
{
        struct link *link = r->session->link;
        const struct transport_ops *ops = link->transport->ops;
        uint64_t left = r->spec.total - r->next;

        if (r->spec.verify && r->spec.direction == ENGINE_WRITE && left > WIRE_VERIFY_MAX)
                left = WIRE_VERIFY_MAX;
        return ops->request_size ? ops->request_size(link, &r->stream, r->next, left) : left;
}

/* The size of the next READ. What its transport tells the progress of need not be small to be passed on soon. */
static uint64_t read_size(const struct requester *r)
{
        uint64_t length = wanted_size(r);

        if (r->spec.request_max && r->session->link->transport->ops->request_size)
                length = at_most(length, r->spec.request_max(r->spec.context));
        return length;
}

/* Sends the next READ. Returns false when no chunk is free; true also when the requester has failed. */
static bool ask_read(struct requester *r)
{
        struct chunk *chunk = requester_take_chunk(r, read_size(r));
        struct wire_header header;
        struct message *message;

        if (!chunk)
                return false;
        header = request_header(r, chunk, chunk->offset, chunk->length);
        message = session_message_new(r->session, &header, NULL, 0, NULL);
        if (!message) {
                requester_fail(r, FERRY_E_TRANSFER_FAILED, "out of memory");
                return true;
        }
        message->done = request_sent;
        session_send_message(r->session, message);
        return true;
}

/* ---- WRITE ---- */

/* Called when the transport is about to send: a requester that has failed sends no more bytes. */
static bool still_wanted(struct message *message)
{
        const struct requester *r = message->owner; /* stays as long as a chunk of it is busy */

        return r->error == 0;
}

void requester_chunk_written(struct requester *r, struct chunk *chunk)
{
        uint64_t length = chunk->length;

        if (chunk->sends > 0 || !chunk->acked)
                return;
        requester_release_chunk(r, chunk);
        requester_count_done(r, length);
}

/* The peer has copied a piece; the rest of the chunk and its ACK are to come. */
static void piece_written(struct message *message)
{
        struct requester *r = message->owner;

        window_find(&r->window, message->header.seq)->copied += requester_count_copied(message);
}

/* The transport has done with a fragment of a WRITE. What has become of it the ACK says, or the end of the link. */
static void write_sent(struct message *message, enum message_result result)
{
        struct requester *r = message->owner;
        struct chunk *chunk = window_find(&r->window, message->header.seq);

        requester_note_message(r, message, result);
        chunk->sends--;
        requester_chunk_written(r, chunk);
        requester_mark(r);
}

/* Sends a fragment of a WRITE. Returns false when the requester has failed. */
static bool send_fragment(struct requester *r, struct chunk *chunk, uint64_t offset, uint64_t length, bool force_inline)
{
        const struct wire_header header = request_header(r, chunk, offset, length);
        struct message *message = session_message_new(r->session, &header, &r->stream, offset, r);

        if (!message) {
                requester_fail(r, FERRY_E_TRANSFER_FAILED, "out of memory");
                return false;
        }
        message->force_inline = force_inline;
        message->begin = still_wanted;
        message->piece_done = piece_written;
        message->done = write_sent;
        if (header.flags & WIRE_FINAL)
                r->accord = REQUESTER_ASKS;
        chunk->sends++;
        session_send_message(r->session, message);
        return r->error == 0;
}

/*
 * The size of the next chunk of a write: what one message carries, or several messages with their bytes inline, which
 * arrive in order, so that the ACK of the last confirms all. 0 = no room for a message.
 */
static uint64_t write_size(const struct requester *r, uint64_t wanted)
{
        struct link *link = r->session->link;
        bool force_inline = false;
        uint64_t size = link->transport->ops->fit(link, &r->stream, r->next, wanted, &force_inline);

        if (!link->transport->ops->request_size)
                return size; /* its chunks are single messages */
        while (force_inline && size < wanted) {
                uint64_t more =
                        link->transport->ops->fit(link, &r->stream, r->next + size, wanted - size, &force_inline);

                if (force_inline)
                        size += more;
        }
        return size;
}

/*
 * Sends the next WRITE, in one message or in several. Returns false when no chunk is free, the link has no room for a
 * message, or the bytes before it have to be written first; true also when the requester has failed.
 */
static bool ask_write(struct requester *r)
{
        struct link *link = r->session->link;
        const struct transport_ops *ops = link->transport->ops;
        uint64_t size = write_size(r, wanted_size(r)), fragment;
        bool must_wait = r->spec.verify && r->in_flight >= ENGINE_VERIFIED_MAX;
        struct chunk *chunk = size > 0 && !must_wait ? requester_take_chunk(r, size) : NULL;

        if (!chunk)
                return false;
        chunk->sends++; /* it is not over before all of it is sent */
        for (uint64_t sent = 0; sent < size; sent += fragment) {
                bool force_inline = false;

                fragment = ops->fit(link, &r->stream, chunk->offset + sent, size - sent, &force_inline);
                if (fragment == 0) {
                        if (session_is_usable(r->session)) /* else the end of the link ends it */
                                requester_fail(r, FERRY_E_TRANSFER_FAILED, "the link has no room for a whole request");
                        break;
                }
                if (!send_fragment(r, chunk, chunk->offset + sent, fragment, force_inline))
                        break;
        }
        chunk->sends--;
        requester_chunk_written(r, chunk);
        requester_mark(r);
        return true;
}

/* ---- round-robin ---- */

bool requester_request_next(struct requester *r)
{
        return r->spec.direction == ENGINE_READ ? ask_read(r) : ask_write(r);
}

void requesters_send(struct session *session)
{
        const struct requester *first = NULL; /* of those that have had no room since the last request */
        struct requester *r;

        while (session_is_usable(session) && (r = session->waiting) && r != first) {
                bool requested;

                requester_dequeue(r);
                requested = session_has_room(session, r->in_flight, session->requested) && requester_request_next(r);
                if (r->error || r->next == r->spec.total)
                        continue;
                if (!requested && r->window.n_taken == ENGINE_WINDOW_MAX)
                        continue;  /* the next of its chunks that ends brings it back */
                r->waiting = true; /* behind the others */
                DL_APPEND2(session->waiting, r, waiting_prev, waiting_next);
                if (requested)
                        first = NULL;
                else if (!first) /* the next of its chunks that ends makes room, or the transport (handlers.room) */
                        first = r;
        }
}
