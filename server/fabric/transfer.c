/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/presence.h"
#include "fabric_internal.h"

/*
 * The active side drives: it cuts the logical stream into chunks and keeps a window of them in flight. A chunk is
 *
 *   READ    FREE → ASKED (READ sent) → MOVING (receive posted; eager data skip this) → FREE
 *   WRITE   FREE → MOVING (WRITE sent, owned until the send is done) → FREE when both sent and acknowledged
 *
 * While UCX may touch a chunk's memory it is owned; a transfer ends only when no chunk is owned.
 */

int transfer_new(struct fabric *fabric, const struct fabric_transfer *spec, struct transfer **ret_transfer)
{
        struct transfer *t = calloc(1, sizeof(*t));
        int r;

        if (!t)
                return -ENOMEM;
        t->spec = *spec;
        (void)snprintf(t->peer_data, sizeof(t->peer_data), "%s", spec->peer_data ? spec->peer_data : "");
        t->spec.peer_data = t->peer_data;
        t->fabric = fabric;
        r = stream_init(&t->stream, spec->segments, spec->n_segments);
        if (r == 0 && t->stream.total != spec->total)
                r = -EINVAL;
        if (r < 0) {
                transfer_free(t);
                return r;
        }
        *ret_transfer = t;
        return 0;
}

void transfer_free(struct transfer *t)
{
        stream_clear(&t->stream);
        explicit_bzero(t->spec.key, sizeof(t->spec.key));
        free(t);
}

static struct wire_header header_of(const struct transfer *t, enum wire_type type)
{
        struct wire_header h = {
                .type = type,
                .to_epoch = t->spec.peer_epoch,
                .from_epoch = t->fabric->epoch,
                .operation = t->spec.remote_operation,
                .transfer = t->spec.id,
                .total = t->spec.total,
        };

        memcpy(h.key, t->spec.key, sizeof(h.key));
        return h;
}

static void end(struct transfer *t)
{
        struct fabric *fabric = t->fabric;
        struct fabric_outcome outcome = { .error = t->error, .bytes = t->done };

        if (t->committed) {
                outcome.error = 0;
                outcome.bytes = t->done = t->spec.total;
        }
        HASH_DEL(fabric->transfers_by_id, t);
        if (t->peer) {
                if (t->done > 0)
                        (void)snprintf(outcome.transport, sizeof(outcome.transport), "%s", peer_transport(t->peer));
                DL_DELETE2(t->peer->transfers, t, peer_prev, peer_next);
                peer_released(t->peer);
        }
        if (outcome.error)
                (void)snprintf(outcome.detail, sizeof(outcome.detail), "%s", t->detail);
        t->spec.ended(t->spec.context, &outcome);
        transfer_free(t);
}

static void release_chunk(struct transfer *t, struct chunk *chunk)
{
        t->outstanding--;
        t->in_flight -= chunk->length;
        if (chunk->owned)
                t->owned--;
        *chunk = (struct chunk){ .state = CHUNK_FREE };
}

/* Nobody will touch the memory of a READ that was only asked for: its data is refused when it comes. */
static void drop_asked_chunks(struct transfer *t)
{
        for (size_t i = 0; i < FABRIC_WINDOW_MAX; i++)
                if (t->chunks[i].state != CHUNK_FREE && !t->chunks[i].owned)
                        release_chunk(t, &t->chunks[i]);
}

/* Ends a transfer whose end is decided as soon as it is quiet, and tells the peer. It may be gone afterwards. */
static void end_when_quiet(struct transfer *t)
{
        struct wire_header h;

        drop_asked_chunks(t);
        if (t->owned > 0)
                return;
        if (t->peer && !t->peer->failed && !t->finishing && !t->committed) {
                h = header_of(t, WIRE_DONE);
                h.flags = WIRE_QUIET;
                h.status = (uint32_t)t->error;
                h.length = t->done;
                message_send_header(t->peer, &h);
        }
        end(t);
}

/* Notes why the transfer has to end; the first reason counts. The transfer may be gone afterwards. */
__attribute__((format(printf, 3, 4))) static void fail(struct transfer *t, int error, const char *format, ...)
{
        if (t->error == 0) {
                va_list arguments;

                t->error = error;
                va_start(arguments, format);
                (void)vsnprintf(t->detail, sizeof(t->detail), format, arguments);
                va_end(arguments);
                t->grace_deadline_us = clock_now_us() + t->fabric->grace_us;
        }
        end_when_quiet(t);
}

static void note_started(struct transfer *t)
{
        if (t->started)
                return;
        t->started = true;
        if (t->spec.started)
                t->spec.started(t->spec.context);
}

/* ---- asking ---- */

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

static void pump(struct transfer *t);

/* After a chunk: ends the transfer when its end is decided, else asks for more. */
static void advance(struct transfer *t)
{
        if (t->error || t->committed)
                end_when_quiet(t);
        else
                pump(t);
}

/* A chunk of a WRITE is done when UCX has let go of the memory and the peer has confirmed. */
static bool write_chunk_progress(struct transfer *t, struct chunk *chunk)
{
        if (chunk->owned || !chunk->acked)
                return false;
        t->done += chunk->length;
        release_chunk(t, chunk);
        t->spec.progress(t->spec.context, t->done);
        return true;
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
                note_started(t);
        else
                peer_fail(t->peer, t->peer->heard ? FERRY_E_PEER_LOST : FERRY_E_PEER_UNREACHABLE,
                          ucs_status_string(status));
        chunk = find_chunk(t, message->seq);
        if (!chunk || t->spec.direction == FABRIC_READ)
                return;
        chunk->owned = false;
        t->owned--;
        if (write_chunk_progress(t, chunk) || t->error)
                advance(t);
}

static void ask(struct transfer *t, struct chunk *chunk, uint8_t *address, uint64_t run)
{
        bool write = t->spec.direction == FABRIC_WRITE;
        struct wire_header h = header_of(t, write ? WIRE_WRITE : WIRE_READ);
        struct message *message = message_new(t->fabric);

        if (message && write && run < chunk->length &&
            stream_pieces(&t->stream, chunk->offset, chunk->length, &message->pieces) == 0) {
                message_free(message);
                message = NULL;
        }
        if (!message) {
                *chunk = (struct chunk){ .state = CHUNK_FREE };
                fail(t, FERRY_E_TRANSFER_FAILED, "out of memory");
                return;
        }

        h.seq = chunk->seq;
        h.offset = chunk->offset;
        h.length = chunk->length;
        if (t->spec.verify) {
                h.flags |= WIRE_VERIFY;
                if (write)
                        h.checksum = stream_checksum(&t->stream, chunk->offset, chunk->length);
        }
        /* A READ may only be final when its data comes inside the message: a rendezvous could still run when we are
         * gone. */
        if (chunk->length == t->spec.total && (write || chunk->length <= WIRE_EAGER_MAX))
                h.flags |= WIRE_FINAL;

        chunk->state = write ? CHUNK_MOVING : CHUNK_ASKED;
        chunk->owned = write;
        t->owned += write;
        t->outstanding++;
        t->in_flight += chunk->length;
        t->next += chunk->length;
        message->done = request_sent;
        message->transfer = t->spec.id;
        message->seq = chunk->seq;
        message_send(t->peer, message, &h, write ? address : NULL, write ? chunk->length : 0);
}

static void ask_done(struct transfer *t)
{
        struct wire_header h = header_of(t, WIRE_DONE);

        t->finishing = true;
        h.length = t->done;
        message_send_header(t->peer, &h);
}

/* Asks for as much as the window allows. Does not end the transfer, but a failing send may. */
static void pump(struct transfer *t)
{
        uint64_t id = t->spec.id, limit = (uint64_t)t->fabric->window * t->fabric->chunk_size;
        struct fabric *fabric = t->fabric;

        while (t && t->error == 0 && !t->peer->failed && t->next < t->spec.total && t->in_flight < limit) {
                struct chunk *chunk = take_chunk(t);
                uint64_t rest = t->spec.total - t->next;
                uint8_t *address;
                uint64_t run;

                if (!chunk)
                        return;
                run = stream_run(&t->stream, t->next, fabric->chunk_size, &address);
                chunk->offset = t->next;
                chunk->length = run;
                /* Small pieces travel together inside one message. */
                if (run < WIRE_EAGER_MAX)
                        chunk->length = rest < WIRE_EAGER_MAX ? rest : WIRE_EAGER_MAX;
                ask(t, chunk, address, run);
                HASH_FIND(hh, fabric->transfers_by_id, &id, sizeof(id), t);
        }
        if (t && t->error == 0 && !t->finishing && t->done == t->spec.total && !t->peer->failed)
                ask_done(t);
}

/* ---- answers ---- */

/* Only what a passive side can have to say is believed; everything else is a refusal. */
static int error_of_status(uint32_t status)
{
        switch (status) {
        case FERRY_E_KIND_MISMATCH:
        case FERRY_E_SIZE_MISMATCH:
        case FERRY_E_METADATA_EXPIRED:
        case FERRY_E_STALE_METADATA:
        case FERRY_E_ALREADY_CLAIMED:
        case FERRY_E_CANCELLED_BY_PEER:
        case FERRY_E_EXPIRED:
        case FERRY_E_TIMEOUT:
        case FERRY_E_STALLED:
        case FERRY_E_CHECKSUM_MISMATCH:
        case FERRY_E_TRANSFER_FAILED:
                return (int)status;
        default:
                return FERRY_E_PEER_REFUSED;
        }
}

static struct transfer *transfer_of(struct fabric *fabric, struct peer *peer, const struct wire_header *header)
{
        struct transfer *t;

        HASH_FIND(hh, fabric->transfers_by_id, &header->transfer, sizeof(header->transfer), t);
        if (!t || t->peer != peer)
                return NULL;
        /* A worker that took the place of the one in the metadata answers with its own epoch, and refuses. */
        if (header->from_epoch != t->spec.peer_epoch && header->status == 0)
                return NULL;
        note_started(t);
        return t;
}

static void refused(struct transfer *t, const struct wire_header *header)
{
        int error = error_of_status(header->status);

        fail(t, error, "the peer answered: %s", ferry_error_title(error));
}

/* Bytes of a READ's chunk are in place. */
static void read_chunk_done(struct transfer *t, struct chunk *chunk, bool verify, uint64_t checksum, bool final)
{
        if (verify && stream_checksum(&t->stream, chunk->offset, chunk->length) != checksum) {
                uint64_t offset = chunk->offset;

                release_chunk(t, chunk);
                fail(t, FERRY_E_CHECKSUM_MISMATCH, "the chunk at byte %llu differs", (unsigned long long)offset);
                return;
        }
        t->done += chunk->length;
        release_chunk(t, chunk);
        t->spec.progress(t->spec.context, t->done);
        if (final && t->done == t->spec.total)
                end_when_quiet(t); /* tells the peer DONE without waiting for an answer */
        else
                advance(t);
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
                        end_when_quiet(t);
                return;
        }
        read_chunk_done(t, chunk, t->spec.verify, chunk->checksum, false);
}

static ucs_status_t receive_rendezvous(struct transfer *t, struct chunk *chunk, const struct wire_header *header,
                                       const struct payload *payload)
{
        struct message *message = message_new(t->fabric);
        uint8_t *address;

        if (!message || stream_run(&t->stream, chunk->offset, chunk->length, &address) != chunk->length) {
                if (message)
                        message_free(message);
                fail(t, FERRY_E_TRANSFER_FAILED, "the peer sent a rendezvous where none was asked for");
                return UCS_OK;
        }
        chunk->state = CHUNK_MOVING;
        chunk->owned = true;
        chunk->checksum = header->checksum;
        t->owned++;
        message->done = data_received;
        message->transfer = t->spec.id;
        message->seq = chunk->seq;
        message_receive(t->peer->side, message, payload->data, address, chunk->length);
        return UCS_INPROGRESS;
}

ucs_status_t transfer_on_data(struct fabric *fabric, struct peer *peer, const struct wire_header *header,
                              const struct payload *payload)
{
        struct transfer *t = transfer_of(fabric, peer, header);
        struct chunk *chunk = t && t->spec.direction == FABRIC_READ ? find_chunk(t, header->seq) : NULL;

        if (!chunk || chunk->state != CHUNK_ASKED)
                return UCS_OK;
        if (header->status) {
                refused(t, header);
                return UCS_OK;
        }
        if (payload->length != chunk->length || header->offset != chunk->offset ||
            (t->spec.verify && !(header->flags & WIRE_VERIFY))) {
                fail(t, FERRY_E_TRANSFER_FAILED, "the peer sent other bytes than were asked for");
                return UCS_OK;
        }
        if (payload->rendezvous)
                return receive_rendezvous(t, chunk, header, payload);
        stream_store(&t->stream, chunk->offset, payload->data, chunk->length);
        read_chunk_done(t, chunk, t->spec.verify, header->checksum, (header->flags & WIRE_FINAL) != 0);
        return UCS_OK;
}

void transfer_on_ack(struct fabric *fabric, struct peer *peer, const struct wire_header *header)
{
        struct transfer *t = transfer_of(fabric, peer, header);
        struct chunk *chunk = t && t->spec.direction == FABRIC_WRITE ? find_chunk(t, header->seq) : NULL;

        if (!chunk || chunk->acked)
                return;
        if (header->status) {
                refused(t, header);
                return;
        }
        chunk->acked = true;
        /* The other side is complete already; no DONE is needed, and neither a cancel nor its death changes that. */
        if ((header->flags & WIRE_FINAL) && chunk->length == t->spec.total)
                t->committed = true;
        if (write_chunk_progress(t, chunk))
                advance(t);
}

void transfer_on_done_ack(struct fabric *fabric, struct peer *peer, const struct wire_header *header)
{
        struct transfer *t = transfer_of(fabric, peer, header);

        if (!t || (!t->finishing && header->status == 0))
                return;
        if (header->status) {
                refused(t, header);
                return;
        }
        t->error = 0; /* a cancel that came after DONE came too late */
        end(t);
}

/* ---- commands and events ---- */

static const char *local_reason(int error)
{
        switch (error) {
        case -ENOENT:
                return "no such worker of this user on this machine";
        case -ESRCH:
                return "the worker of this metadata is dead";
        case -EXDEV:
                return "the worker is on this machine, but in other namespaces";
        case -EACCES:
                return "the worker on this machine belongs to another user";
        case -ENODEV:
                return "the shared-memory side is off";
        default:
                return "the shared-memory side cannot connect";
        }
}

void transfer_run(struct fabric *fabric, const struct command *command)
{
        struct transfer *t = command->transfer;
        struct peer *peer;
        int local = -ENODEV, network = -ENODEV;

        HASH_ADD(hh, fabric->transfers_by_id, spec.id, sizeof(t->spec.id), t);
        if (fabric->stopping) {
                fail(t, FERRY_E_CANCELLED, "the worker is shutting down");
                return;
        }
        peer = peer_local(fabric, t->spec.peer_epoch, &local);
        if (!peer && command->address.ss_family != 0)
                peer = peer_network(fabric, t->peer_data, (const struct sockaddr *)&command->address,
                                    command->address_length, &network);
        if (!peer) {
                const char *why = command->address.ss_family == 0 ? "the metadata names no network address to try"
                                  : !fabric->sides[SIDE_NETWORK].worker
                                          ? "the network side of this worker is off (--data-listen)"
                                          : "its network address cannot be connected";

                fail(t, FERRY_E_PEER_UNREACHABLE, "%s; %s", local_reason(local), why);
                return;
        }
        t->peer = peer;
        DL_APPEND2(peer->transfers, t, peer_prev, peer_next);
        t->connect_deadline_us = clock_now_us() + fabric->connect_us;
        pump(t);
}

void transfer_cancel(struct transfer *t, int reason, const char *detail)
{
        if (t->error == 0 && t->finishing) {
                /* The peer decides whether it came in time; grace bounds how long we wait for its word. */
                t->error = reason;
                (void)snprintf(t->detail, sizeof(t->detail), "%s", detail);
                t->grace_deadline_us = clock_now_us() + t->fabric->grace_us;
                return;
        }
        fail(t, reason, "%s", detail);
}

void transfer_lost(struct transfer *t, int error, const char *detail)
{
        t->finishing = false;
        fail(t, error, "%s", detail);
}

void transfer_tick(struct transfer *t, uint64_t now_us)
{
        if (t->grace_deadline_us && now_us >= t->grace_deadline_us) {
                t->grace_deadline_us = 0;
                if (t->owned == 0)
                        end(t);
                else
                        peer_fail(t->peer, FERRY_E_PEER_LOST, "a cancelled transfer did not come to rest");
        } else if (!t->peer->heard && !t->peer->failed && now_us >= t->connect_deadline_us) {
                peer_fail(t->peer, FERRY_E_PEER_UNREACHABLE, "no answer within the connect time");
        }
}
