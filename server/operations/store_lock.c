/* SPDX-License-Identifier: Apache-2.0 */
#include "operations_internal.h"

/*
 * The store's lock, and the actions that a change under it defers: callbacks run without it, since they may call the
 * store again or take locks of their own. The order in store_unlock() is what users notice: the data plane hears first,
 * then those who wait, then the log and the observer; regions are let go last.
 *
 * After a message of the data plane what can wait is left in wakes (store_unlock_without_waking), so that the peer has
 * its answer before this host's processors run the woken threads; operation_store_wake_waiters() does it.
 */

void store_lock(struct operation_store *store)
{
        (void)pthread_mutex_lock(&store->lock);
}

void store_unlock_plain(struct operation_store *store)
{
        (void)pthread_mutex_unlock(&store->lock);
}

void store_revoke(struct operation *operation, int reason, int wire_reason)
{
        const struct data_plane_ops *data_plane = &operation->store->config.data_plane;

        struct operation_attachment *attachment = atomic_load(&operation->attachment);

        if (attachment)
                attachment->revoke(attachment, reason, wire_reason);
        data_plane->claims_revoke(data_plane->context, operation->id, reason, wire_reason);
}

/* The reason for the peers of a passive operation: only what concerns their own transfer. */
static int wire_reason(int reason)
{
        switch (reason) {
        case FERRY_E_CANCELLED:
                return FERRY_E_CANCELLED_BY_PEER;
        case FERRY_E_CANCELLED_BY_PEER:
        case FERRY_E_EXPIRED:
        case FERRY_E_TIMEOUT:
        case FERRY_E_STALLED:
        case FERRY_E_CHECKSUM_MISMATCH:
        case FERRY_E_PEER_LOST:
                return reason;
        case FERRY_E_PEER_UNREACHABLE: /* of the read that it follows: no fault of this worker, or of the peer */
                return FERRY_E_PEER_LOST;
        default:
                return FERRY_E_TRANSFER_FAILED;
        }
}

/* Tells the observer, if there is one. */
static void observe(struct operation *operation, enum operation_change change)
{
        const struct operation_observer *observer = &operation->store->config.observer;

        if (observer->changed)
                observer->changed(observer->context, operation->store, operation, change);
}

/* The data plane knows passive operations by their id, active ones by that of their transfer. */
static void data_plane_tell(const struct data_plane_ops *data_plane, struct operation *operation)
{
        int reason = operation->stop_reason;

        if (ferry_kind_is_passive((int)operation->kind))
                store_revoke(operation, reason, wire_reason(reason));
        else
                data_plane->transfer_cancel(data_plane->context, operation->transfer_id, reason);
}

/* Whose fault the error of an operation is; "peer" for all that are not listed. */
static const char *error_fault(const struct operation *operation)
{
        switch (operation->error) {
        case FERRY_E_TRANSFER_FAILED:
        case FERRY_E_INTERNAL:
        case FERRY_E_NO_SPACE:
        case FERRY_E_LIMIT_REACHED:
                return "worker";
        case FERRY_E_TIMEOUT:
                return operation->timeout_ms ? "caller" : "peer"; /* the timeout was the peer's */
        case FERRY_E_FORBIDDEN:
        case FERRY_E_INVALID_PARAMETER:
                return "caller";
        default:
                return "peer";
        }
}

/* Logs a change, at level debug. */
static void log_changed(const struct operation *operation, enum ferry_status status)
{
        char id[FERRY_ID_TEXT_SIZE];

        if (!log_enabled(LOG_DEBUG))
                return;
        ferry_id_format("op_", operation->id, id);
        log_event(LOG_DEBUG, "operation changed", LOG_S("operation", id),
                  LOG_S("label", operation->label[0] ? operation->label : NULL),
                  LOG_S("kind", ferry_kind_name((int)operation->kind)), LOG_S("status", ferry_status_name((int)status)),
                  LOG_U("bytes_total", operation->bytes_total));
}

/* Without the lock: what it reads of a terminal operation does not change. */
static void log_ended(const struct operation *operation)
{
        enum log_level level = operation->state == OPERATION_ERRORED ? LOG_WARN : LOG_INFO;
        int error = operation->error;
        uint64_t start_us = operation->started_us ? operation->started_us : operation->created_us;
        char id[FERRY_ID_TEXT_SIZE], epoch[FERRY_ID_TEXT_SIZE];

        if (!log_enabled(level))
                return;
        ferry_id_format("op_", operation->id, id);
        ferry_id_format("", operation->peer.epoch, epoch);
        log_event(level, "operation ended", LOG_S("operation", id),
                  LOG_S("label", operation->label[0] ? operation->label : NULL),
                  LOG_S("kind", ferry_kind_name((int)operation->kind)),
                  LOG_S("status", ferry_status_name((int)operation_status(operation))),
                  LOG_S("peer", operation->peer.worker[0] ? operation->peer.worker : NULL),
                  LOG_S("peer_epoch", operation->peer.epoch ? epoch : NULL),
                  LOG_S("request_id", operation->request_id[0] ? operation->request_id : NULL),
                  LOG_S("error", error ? ferry_error_code(error) : NULL),
                  LOG_S("fault", operation->state == OPERATION_ERRORED ? error_fault(operation) : NULL),
                  LOG_S("detail", error ? operation_detail(operation) : NULL),
                  LOG_S("transport", operation->transport[0] ? operation->transport : NULL),
                  LOG_U("bytes", atomic_load(&operation->bytes_done)), LOG_U("bytes_total", operation->bytes_total),
                  LOG_U("duration_us", operation->ended_us - start_us));
}

/* Two threads may tell of it at once: the one that is about to end the operation does not wait for the other. */
static void tell_started(struct operation *operation)
{
        if (!atomic_load(&operation->untold))
                return;
        log_changed(operation, FERRY_IN_PROGRESS);
        observe(operation, OPERATION_CHANGED);
        atomic_store(&operation->untold, false);
}

void store_unlock(struct operation_store *store, struct deferred_actions *deferred)
{
        bool closed = store->stage == STORE_CLOSED;
        struct operation_waiter *waiter;
        struct operation *operation;

        store_unlock_plain(store);
        while ((operation = deferred->stopping)) {
                deferred->stopping = operation->stopping_next;
                if (!closed)
                        data_plane_tell(&store->config.data_plane, operation);
                if (operation->stop_reason == FERRY_E_CANCELLED) /* otherwise users see no change yet */
                        observe(operation, OPERATION_CHANGED);
                (void)operation_unref(operation);
        }
        if (deferred->held_reads_due && !closed)
                store->config.data_plane.held_reads_retry(store->config.data_plane.context);
        while ((waiter = deferred->woken)) {
                DL_DELETE2(deferred->woken, waiter, previous, next);
                waiter->wake(waiter); /* may free it */
        }
        if (deferred->made) {
                log_changed(deferred->made, FERRY_INITIALIZED);
                observe(deferred->made, OPERATION_MADE);
        }
        while ((operation = deferred->started)) {
                deferred->started = operation->started_next;
                tell_started(operation);
                (void)operation_unref(operation);
        }
        if (deferred->moved)
                observe(deferred->moved, OPERATION_CHANGED);
        while ((operation = deferred->ended)) {
                deferred->ended = operation->ended_next;
                log_ended(operation);
                observe(operation, OPERATION_ENDED);
                operation->pins = operation_pins_free(operation->pins);
                (void)operation_unref(operation);
        }
        if (deferred->drained)
                deferred->drained(deferred->drained_context);
}

void store_unlock_without_waking(struct operation_store *store, struct deferred_actions *deferred)
{
        struct deferred_actions *later = &store->wakes;
        struct operation *operation;

        while ((operation = deferred->started)) {
                deferred->started = operation->started_next;
                operation->started_next = later->started;
                later->started = operation;
        }
        DL_CONCAT2(later->woken, deferred->woken, previous, next);
        deferred->woken = NULL;
        while ((operation = deferred->ended)) {
                deferred->ended = operation->ended_next;
                operation->ended_next = later->ended;
                later->ended = operation;
        }
        if (deferred->drained) {
                later->drained = FERRY_STEAL(deferred->drained);
                later->drained_context = deferred->drained_context;
        }
        store_unlock(store, deferred);
}

void store_tell_started(struct operation *operation)
{
        if (!atomic_load(&operation->untold))
                return;
        store_unlock_plain(operation->store);
        tell_started(operation);
        store_lock(operation->store);
}

void operation_store_wake_waiters(void *context)
{
        struct operation_store *store = context;
        struct deferred_actions deferred;

        store_lock(store);
        deferred = store->wakes;
        store->wakes = (struct deferred_actions){ 0 };
        store_unlock(store, &deferred);
}
