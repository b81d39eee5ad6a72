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
 * The life of the active side's transfers: connecting, ending, cancelling. How bytes move is in chunk.c.
 */

int transfer_new(struct fabric *fabric, const struct fabric_transfer *spec, struct transfer **ret_transfer)
{
        struct transfer *t = calloc(1, sizeof(*t));
        int r;

        if (!t)
                return -ENOMEM;
        t->spec = *spec;
        t->fabric = fabric;
        r = stream_init(&t->stream, spec->segments, spec->n_segments);
        if (r == 0 && t->stream.total != spec->total)
                r = -EINVAL;
        if (r < 0) {
                transfer_free(t);
                return r;
        }
        way_init(&t->way, spec->peer_epoch, spec->peer_data);
        t->spec.peer_data = t->way.data;
        *ret_transfer = t;
        return 0;
}

void transfer_free(struct transfer *t)
{
        stream_clear(&t->stream);
        explicit_bzero(t->spec.key, sizeof(t->spec.key));
        free(t);
}

struct wire_header transfer_header(const struct transfer *t, enum wire_type type)
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
        direct_end(t);
        if (t->peer) {
                if (t->done > 0)
                        (void)snprintf(outcome.transport, sizeof(outcome.transport), "%s",
                                       t->mapped ? FABRIC_MAPPED : peer_transport(t->peer));
                if (t->cold && t->peer->heard)
                        outcome.connect_us = t->peer->connect_us;
                chunks_leave(t);
                DL_DELETE2(t->peer->transfers, t, peer_prev, peer_next);
                peer_released(t->peer);
        }
        if (outcome.error)
                (void)snprintf(outcome.detail, sizeof(outcome.detail), "%s", t->detail);
        t->spec.ended(t->spec.context, &outcome);
        fabric->unsettled = true;
        transfer_free(t);
}

/* Ends a transfer whose end is decided as soon as it is quiet, and tells the peer. It may be gone afterwards. */
void transfer_end_when_quiet(struct transfer *t)
{
        struct wire_header h;

        chunks_drop_asked(t);
        if (t->owned > 0 || (t->peer && peer_is_settling(t->peer)))
                return;
        if (t->peer && !t->peer->failed && !t->finishing && !t->committed) {
                h = transfer_header(t, WIRE_DONE);
                h.flags = WIRE_QUIET;
                h.status = (uint32_t)t->error;
                h.length = t->done;
                message_send_header(t->peer, &h);
        }
        end(t);
}

/* Notes why the transfer has to end; the first reason counts. The transfer may be gone afterwards. */
void transfer_fail(struct transfer *t, int error, const char *format, ...)
{
        if (t->error == 0) {
                va_list arguments;

                t->error = error;
                va_start(arguments, format);
                (void)vsnprintf(t->detail, sizeof(t->detail), format, arguments);
                va_end(arguments);
                t->grace_deadline_us = thread_grace(t->fabric);
        }
        transfer_end_when_quiet(t);
}

void transfer_note_started(struct transfer *t)
{
        if (t->started)
                return;
        t->started = true;
        if (t->spec.started)
                t->spec.started(t->spec.context);
}

/* Over a connection that does not stand yet, the first answer or the end of the first send tells. */
void transfer_note_asked(struct transfer *t)
{
        if (t->peer->heard)
                transfer_note_started(t);
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

struct transfer *transfer_of_answer(struct fabric *fabric, struct peer *peer, const struct wire_header *header)
{
        struct transfer *t;

        HASH_FIND(hh, fabric->transfers_by_id, &header->transfer, sizeof(header->transfer), t);
        if (!t || t->peer != peer)
                return NULL;
        /* A worker that took the place of the one in the metadata answers with its own epoch, and refuses. */
        if (header->from_epoch != t->spec.peer_epoch && header->status == 0)
                return NULL;
        transfer_note_started(t);
        return t;
}

void transfer_refused(struct transfer *t, const struct wire_header *header)
{
        int error = error_of_status(header->status);

        transfer_fail(t, error, "the peer answered: %s", ferry_error_title(error));
}

void transfer_on_done_ack(struct fabric *fabric, struct peer *peer, const struct wire_header *header)
{
        struct transfer *t = transfer_of_answer(fabric, peer, header);

        if (!t || (!t->finishing && header->status == 0))
                return;
        if (header->status) {
                transfer_refused(t, header);
                return;
        }
        t->error = 0; /* a cancel that came after DONE came too late */
        end(t);
}

/* ---- commands and events ---- */

/* The transfer may be gone afterwards. */
static void use_peer(struct transfer *t, struct peer *peer)
{
        t->peer = peer;
        t->cold = !peer->heard;
        DL_APPEND2(peer->transfers, t, peer_prev, peer_next);
        t->connect_deadline_us = clock_now_us() + t->fabric->connect_us;
        if (!direct_attach(t))
                chunks_pump(t);
}

/* The peer never heard of it, and has another address now: begins anew. false: it cannot. */
static bool try_again(struct transfer *t)
{
        struct peer *old = t->peer, *peer;
        int error;

        if (!old->moved || t->error || t->owned > 0 || t->done > 0 || t->fabric->stopping)
                return false;
        peer = peer_local(t->fabric, t->spec.peer_epoch, &error);
        if (!peer)
                return false;
        chunks_drop_asked(t);
        direct_end(t);
        chunks_leave(t);
        DL_DELETE2(old->transfers, t, peer_prev, peer_next);
        peer_released(old);
        t->next = 0;
        use_peer(t, peer);
        return true;
}

void transfer_run(struct fabric *fabric, struct transfer *t)
{
        char reason[sizeof(t->detail)];
        struct peer *peer;

        HASH_ADD(hh, fabric->transfers_by_id, spec.id, sizeof(t->spec.id), t);
        if (fabric->stopping) {
                transfer_fail(t, FERRY_E_CANCELLED, "the worker is shutting down");
                return;
        }
        peer = way_take(fabric, &t->way, reason, sizeof(reason));
        if (peer)
                use_peer(t, peer);
        else
                transfer_fail(t, FERRY_E_PEER_UNREACHABLE, "%s", reason);
}

void transfer_cancel(struct transfer *t, int reason, const char *detail)
{
        if (t->error == 0 && t->finishing) {
                /* The peer decides whether it came in time; grace bounds how long we wait for its word. */
                t->error = reason;
                (void)snprintf(t->detail, sizeof(t->detail), "%s", detail);
                t->grace_deadline_us = thread_grace(t->fabric);
                return;
        }
        transfer_fail(t, reason, "%s", detail);
}

void transfer_lost(struct transfer *t, int error, const char *detail)
{
        if (try_again(t))
                return;
        t->finishing = false;
        transfer_fail(t, error, "%s", detail);
}

void transfer_abandon(struct transfer *t, int error, const char *detail)
{
        for (size_t i = 0; i < FABRIC_WINDOW_MAX; i++)
                t->chunks[i].owned = false;
        t->owned = 0;
        transfer_lost(t, error, detail);
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
