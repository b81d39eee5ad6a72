/* SPDX-License-Identifier: Apache-2.0 */
#include "content_transfer.h"

#include <inttypes.h>
#include <stdio.h>

/* A worker reconnects at once; after a cut link it retries no longer than its TCP does. */
enum { ABSENCE_NAMED_MS = 5000 };

/* The last reference must be given back without the lock. */
void content_transfer_put_unlock(struct content_transfer *transfer)
{
        struct operation *operation = transfer->operation;
        bool last = --transfer->references == 0;

        content_unlock(operation->store);
        if (!last)
                return;
        stream_clear(&transfer->stream);
        free(transfer);
        (void)operation_unref(operation);
}

void content_transfer_disarm(struct content_transfer *transfer)
{
        if (!transfer->timed || !loop_timer_stop(transfer->operation->store->config.loop, &transfer->timer))
                return;
        transfer->timed = false;
        transfer->references--;
}

void content_transfer_note(const struct content_transfer *transfer, const struct engine_outcome *outcome)
{
        const struct data_plane_ops *data_plane = &transfer->operation->store->config.data_plane;
        const struct engine_http_note note = { .peer = { .epoch = transfer->peer_epoch, .name = transfer->peer_name },
                                               .transport = transfer->transport,
                                               .accepted = true,
                                               .outcome = outcome };

        if (data_plane->note_http)
                data_plane->note_http(data_plane->context, &note);
}

void content_transfer_end_unlock(struct content_transfer *transfer, int error, const char *detail)
{
        struct operation_store *store = transfer->operation->store;
        struct engine_outcome outcome = { .error = error, .bytes = content_transfer_moved(transfer) };

        if (outcome.bytes < transfer->reported)
                outcome.bytes = transfer->reported;
        (void)snprintf(outcome.transport, sizeof(outcome.transport), "%s", transfer->transport);
        (void)snprintf(outcome.detail, sizeof(outcome.detail), "%s", detail);
        transfer->over = true;
        content_transfer_disarm(transfer);
        DL_DELETE(transfer->operation->contents, transfer);
        content_unlock(store);
        content_transfer_note(transfer, &outcome);
        transfer->claim.ended(transfer->claim.context, &outcome);
        operation_store_wake_waiters(store);
        content_lock(store);
        content_transfer_put_unlock(transfer);
}

void content_transfer_end_due_unlock(struct content_transfer *transfer)
{
        if (transfer->over || !transfer->claimed || transfer->copying)
                content_unlock(transfer->operation->store);
        else if (transfer->revoke_reason)
                content_transfer_end_unlock(transfer, transfer->revoke_reason,
                                            transfer->revoked_by_peer ? "the peer ended the transfer"
                                            : transfer->fault         ? transfer->fault
                                                                      : "");
        else if (!transfer->id && !transfer->parts && transfer->moved.total == transfer->stream.total)
                content_transfer_end_unlock(transfer, 0, "");
        else
                content_unlock(transfer->operation->store);
}

static void on_idle(struct loop_timer *timer);

void content_transfer_arm(struct content_transfer *transfer)
{
        struct operation_store *store = transfer->operation->store;
        uint64_t absence_ms = store->config.limits.absence_ms;

        if (transfer->over || transfer->parts || transfer->n_connections)
                return;
        if (transfer->id && absence_ms > ABSENCE_NAMED_MS)
                absence_ms = ABSENCE_NAMED_MS;
        transfer->absent_us = deadline_after(clock_now_us(), absence_ms);
        if (transfer->timed) /* on_idle is about to run */
                return;
        transfer->timer.fired = on_idle;
        if (loop_timer_start(store->config.loop, &transfer->timer, transfer->absent_us) < 0)
                return;
        transfer->timed = true;
        transfer->references++;
}

static void on_idle(struct loop_timer *timer)
{
        struct content_transfer *transfer = FERRY_CONTAINER_OF(timer, struct content_transfer, timer);
        struct operation_store *store = transfer->operation->store;
        char detail[OPERATION_DETAIL_SIZE];

        content_lock(store);
        transfer->timed = false;
        if (clock_now_us() < transfer->absent_us) { /* the client came and left before this took the lock */
                content_transfer_arm(transfer);
        } else if (!transfer->over && !transfer->parts && !transfer->n_connections && !transfer->copying) {
                (void)snprintf(detail, sizeof(detail), "The HTTP client left after %" PRIu64 " of %" PRIu64 " bytes",
                               content_transfer_moved(transfer), content_transfer_total(transfer));
                content_transfer_end_unlock(transfer, FERRY_E_PEER_LOST, detail);
                content_lock(store);
        }
        content_transfer_put_unlock(transfer);
}

void content_transfer_revoke_unlock(struct content_transfer *transfer, int reason, int wire_reason)
{
        if (!transfer->revoke_reason) {
                transfer->revoke_reason = reason;
                transfer->revoke_wire_reason = wire_reason;
        }
        content_transfer_end_due_unlock(transfer);
}

bool content_transfer_copy_begin(struct content_transfer *transfer)
{
        struct operation_store *store = transfer->operation->store;
        bool may;

        content_lock(store);
        may = !transfer->over && !transfer->revoke_reason;
        if (may)
                transfer->copying++;
        content_unlock(store);
        return may;
}

void content_transfer_copy_end(struct content_transfer *transfer)
{
        content_lock(transfer->operation->store);
        transfer->copying--;
        content_transfer_end_due_unlock(transfer);
}

void content_revoke(struct operation *operation, int reason, int wire_reason)
{
        struct operation_store *store = operation->store;
        struct content_transfer *transfer;
        bool any;

        do {
                content_lock(store);
                DL_FOREACH (operation->contents, transfer)
                        if (!transfer->revoke_reason)
                                break;
                any = transfer != NULL;
                if (any)
                        content_transfer_revoke_unlock(transfer, reason, wire_reason);
                else
                        content_unlock(store);
        } while (any);
}
