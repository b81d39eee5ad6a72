/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <utlist.h>

#include "base/clock.h"
#include "base/space.h"
#include "base/util.h"
#include "mover_internal.h"

/*
 * The passive side of one transfer over HTTP: which bytes have moved, whether its client is there, and its end. It is
 * listed with its offer until it is over; open ranges, connections and the timer have references, and the last one
 * frees it. It ends when its client says so (a client without an id: when all has moved), when it is revoked, or when
 * the client stays away; a thread that copies keeps it from ending until its piece is done.
 *
 * Thread: any. Lock: the offer's; functions whose names end in _unlock give it back, since they may call the operation.
 */

/* A worker reconnects at once; after a cut link it retries no longer than its TCP does. */
enum { ABSENCE_NAMED_MS = 5000 };

/* The store's loop and limits. Fixed; no lock. */
static const struct operation_config *config_of(const struct http_responder *responder)
{
        return operation_store_config(responder->offer->store);
}

/* The last reference must be given back without the lock. */
void http_responder_put_unlock(struct http_responder *responder)
{
        struct operation *operation = responder->operation;
        bool last = --responder->references == 0;

        offer_unlock(responder->offer);
        if (!last)
                return;
        stream_clear(&responder->base.stream);
        free(responder);
        (void)operation_unref(operation);
}

void http_responder_note_moved(struct http_responder *responder, uint64_t first, uint64_t end)
{
        if (!responder->announced)
                content_ranges_add(&responder->moved, first, end);
        else if (end > first)
                responder->bytes += end - first;
}

/* ---- its end ---- */

void http_responder_disarm(struct http_responder *responder)
{
        if (!responder->timed || !loop_timer_stop(config_of(responder)->loop, &responder->timer))
                return;
        responder->timed = false;
        responder->references--;
}

void http_responder_end_unlock(struct http_responder *responder, int error, const char *detail)
{
        const uint64_t moved = http_responder_moved(responder), told = responder->base.reported;
        const struct engine_outcome outcome =
                http_transfer_outcome(&responder->base, error, moved < told ? told : moved, detail);

        http_transfer_set_state(&responder->base, HTTP_OVER);
        http_responder_disarm(responder);
        DL_DELETE(responder->offer->responders, responder);
        offer_unlock(responder->offer);
        http_transfer_tell_end(&responder->base, &outcome, responder->claim.ended, responder->claim.context);
        offer_lock(responder->offer);
        http_responder_put_unlock(responder);
}

void http_responder_end_due_unlock(struct http_responder *responder)
{
        if (responder->base.state != HTTP_MOVING || responder->copying)
                offer_unlock(responder->offer);
        else if (responder->revoke_reason)
                http_responder_end_unlock(responder, responder->revoke_reason,
                                          responder->revoked_by_peer ? "the peer ended the transfer"
                                                                     : responder->fault);
        else if (!responder->id && !responder->open_ranges && responder->moved.total == responder->base.stream.total)
                http_responder_end_unlock(responder, 0, "");
        else
                offer_unlock(responder->offer);
}

void http_responder_revoke_unlock(struct http_responder *responder, int reason, int wire_reason)
{
        if (!responder->revoke_reason) {
                responder->revoke_reason = reason;
                responder->revoke_wire_reason = wire_reason;
        }
        http_responder_end_due_unlock(responder);
}

void http_responder_fault(struct http_responder *responder, int error)
{
        offer_lock(responder->offer);
        if (!responder->revoke_reason)
                responder->fault = space_error(error);
        http_responder_revoke_unlock(responder, FERRY_E_TRANSFER_FAILED, FERRY_E_TRANSFER_FAILED);
}

/* ---- a client that is away ---- */

/* Whether no range and no connection of the client is open. */
static bool is_away(const struct http_responder *responder)
{
        return responder->base.state != HTTP_OVER && !responder->open_ranges && !responder->n_connections;
}

static void on_idle(struct loop_timer *timer);

void http_responder_arm(struct http_responder *responder)
{
        uint64_t absence_ms = config_of(responder)->limits.absence_ms;

        if (!is_away(responder))
                return;
        if (responder->id && absence_ms > ABSENCE_NAMED_MS)
                absence_ms = ABSENCE_NAMED_MS;
        responder->absent_us = clock_now_us() + absence_ms * 1000;
        if (responder->timed) /* on_idle is about to run */
                return;
        responder->timer.fired = on_idle;
        if (loop_timer_start(config_of(responder)->loop, &responder->timer, responder->absent_us) < 0)
                return;
        responder->timed = true;
        responder->references++;
}

/* The timer's callback, on the loop's thread. It owns the timer's reference. */
static void on_idle(struct loop_timer *timer)
{
        struct http_responder *responder = FERRY_CONTAINER_OF(timer, struct http_responder, timer);
        char detail[OPERATION_DETAIL_SIZE];

        offer_lock(responder->offer);
        responder->timed = false;
        if (clock_now_us() < responder->absent_us) { /* the client came and left before this took the lock */
                http_responder_arm(responder);
        } else if (is_away(responder) && !responder->copying) {
                (void)snprintf(detail, sizeof(detail), "The HTTP client left after %" PRIu64 " of %" PRIu64 " bytes",
                               http_responder_moved(responder), http_responder_total(responder));
                http_responder_end_unlock(responder, FERRY_E_PEER_LOST, detail);
                offer_lock(responder->offer);
        }
        http_responder_put_unlock(responder);
}

/* ---- threads that copy ---- */

bool http_responder_copy_begin(struct http_responder *responder)
{
        bool may;

        offer_lock(responder->offer);
        may = responder->base.state != HTTP_OVER && !responder->revoke_reason;
        if (may)
                responder->copying++;
        offer_unlock(responder->offer);
        return may;
}

void http_responder_copy_end(struct http_responder *responder)
{
        offer_lock(responder->offer);
        responder->copying--;
        http_responder_end_due_unlock(responder);
}
