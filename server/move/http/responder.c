/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
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
        struct operation *operation = responder->offer->operation;
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
                http_transfer_end(&responder->base, error, moved < told ? told : moved, detail);

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
                http_responder_end_unlock(responder, responder->revoke_reason, responder->revoke_detail);
        else if (!responder->id && !responder->open_ranges && responder->moved.total == responder->base.stream.total)
                http_responder_end_unlock(responder, 0, "");
        else
                offer_unlock(responder->offer);
}

void http_responder_revoke_unlock(struct http_responder *responder, int reason, int wire_reason, const char *detail)
{
        if (!responder->revoke_reason) {
                responder->revoke_reason = reason;
                responder->revoke_wire_reason = wire_reason;
                responder->revoke_detail = detail;
        }
        http_responder_end_due_unlock(responder);
}

void http_responder_fault(struct http_responder *responder, int error)
{
        offer_lock(responder->offer);
        http_responder_revoke_unlock(responder, FERRY_E_TRANSFER_FAILED, FERRY_E_TRANSFER_FAILED, space_error(error));
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

/*
 * The part of a passive operation that HTTP keeps: its transfers, and the ends that their clients have told. An offer
 * is made by the first request and attached to the operation, which frees it; it holds no reference to the operation.
 * The ends are remembered since a client may repeat its DELETE, and since a DELETE may overtake the first range over
 * another connection.
 *
 * Thread: any. Lock: the offer's; see struct http_offer.
 */

/* How many are remembered: of complete ones, and of those given up, which may come before their first request. */
enum { ENDS_MAX = 64, ENDS_EARLY = 8 };

bool http_content_key(const struct operation *operation, const uint8_t key[FERRY_KEY_SIZE])
{
        return ferry_key_equal(key, operation_key(operation));
}

/* ---- life ---- */

/* The operation ends: revokes each transfer, one at a time, since a revocation may give back the lock. */
static void on_revoke(struct operation_attachment *attachment, int reason, int wire_reason)
{
        struct http_offer *offer = FERRY_CONTAINER_OF(attachment, struct http_offer, attachment);
        struct http_responder *responder;

        do {
                offer_lock(offer);
                DL_FOREACH (offer->responders, responder)
                        if (!responder->revoke_reason)
                                break;
                if (responder)
                        http_responder_revoke_unlock(responder, reason, wire_reason, NULL);
                else
                        offer_unlock(offer);
        } while (responder);
}

static void on_free(struct operation_attachment *attachment)
{
        struct http_offer *offer = FERRY_CONTAINER_OF(attachment, struct http_offer, attachment);

        (void)pthread_mutex_destroy(&offer->lock);
        free(offer);
}

/* 0; FERRY_E_NOT_PASSIVE; -ENOMEM. */
static int offer_new(struct operation_store *store, struct operation *operation,
                     struct operation_attachment **ret_attachment)
{
        struct operation_view view;
        struct http_offer *offer;
        uint32_t ends_max;

        operation_get_view(store, operation, &view);
        if (!ferry_kind_is_passive((int)view.kind))
                return FERRY_E_NOT_PASSIVE;
        ends_max = ENDS_EARLY + (view.uses < 1 ? 1 : view.uses < ENDS_MAX ? view.uses : ENDS_MAX);
        offer = calloc(1, sizeof(*offer) + ends_max * sizeof(offer->ends[0]));
        if (!offer)
                return -ENOMEM;
        *offer = (struct http_offer){ .attachment = { .revoke = on_revoke, .free = on_free },
                                      .store = store,
                                      .operation = operation,
                                      .readable = view.kind == FERRY_READABLE,
                                      .total = view.bytes_total,
                                      .ends_max = ends_max };
        (void)pthread_mutex_init(&offer->lock, NULL);
        *ret_attachment = operation_attach(operation, &offer->attachment);
        if (*ret_attachment != &offer->attachment) /* by another thread */
                on_free(&offer->attachment);
        return 0;
}

int offer_get(struct operation_store *store, struct operation *operation, struct http_offer **ret_offer)
{
        struct operation_attachment *attachment = operation_attached(operation);
        int r = attachment ? 0 : offer_new(store, operation, &attachment);

        if (r)
                return r;
        *ret_offer = FERRY_CONTAINER_OF(attachment, struct http_offer, attachment);
        return 0;
}

/* ---- the ends that clients have told ---- */

const struct http_end *offer_find_end(const struct http_offer *offer, uint64_t id)
{
        for (uint32_t i = 0; id && i < offer->ends_max; i++)
                if (offer->ends[i].id == id)
                        return &offer->ends[i];
        return NULL;
}

/*
 * With the lock held. Counts the open ranges that are read as moved, because the client knows best what has arrived;
 * those that are written count as their bytes are stored.
 */
static bool every_byte(struct http_responder *responder)
{
        const struct http_content *content;

        if (responder->offer->readable)
                DL_FOREACH (responder->open_ranges, content)
                        http_responder_note_moved(responder, content->first, content->position);
        return http_responder_moved(responder) == http_responder_total(responder);
}

int http_content_end(struct operation_store *store, struct operation *operation, uint64_t id, int error,
                     bool *ret_complete)
{
        const struct http_end *before;
        struct http_responder *responder;
        struct http_offer *offer;
        int r = offer_get(store, operation, &offer);

        if (r)
                return r;
        offer_lock(offer);
        DL_FOREACH (offer->responders, responder)
                if (responder->id == id && !responder->revoke_reason)
                        break;
        before = offer_find_end(offer, id);
        *ret_complete = responder ? !error && responder->base.state == HTTP_MOVING && !responder->copying &&
                                            every_byte(responder)
                                  : before && before->complete;
        if (id && !before)
                offer->ends[offer->n_ends++ % offer->ends_max] = (struct http_end){ id, *ret_complete };
        if (!responder) {
                offer_unlock(offer);
                return *ret_complete ? 0 : FERRY_E_GONE;
        }
        if (*ret_complete) {
                http_responder_end_unlock(responder, 0, "");
        } else {
                http_responder_revoke_unlock(responder,
                                             error ? engine_error_of_peer((uint32_t)error) : FERRY_E_CANCELLED_BY_PEER,
                                             FERRY_E_GONE, "the peer ended the transfer");
        }
        return 0;
}
