/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "operations_internal.h"

/*
 * The transfers of an operation: what the data plane tells of them. Progress comes many times a second from the data
 * plane's threads and takes the store's lock ten times a second at most; the end gives back the transfer's reference,
 * and for an operation with one use is the operation's end.
 *
 * Thread: the data plane's, unless the store's lock is said to be held.
 */

void operation_transfer_begin(struct operation_transfer *transfer, struct operation *operation, uint64_t total,
                              uint64_t peer_epoch, const char *peer_name)
{
        transfer->total = total;
        transfer->peer.epoch = peer_epoch;
        (void)text_copy(transfer->peer.worker, sizeof(transfer->peer.worker), peer_name);
        operation->peer = transfer->peer;
        transfer->operation = operation_ref(operation);
        atomic_store(&transfer->bytes, 0);
        atomic_store(&operation->moved_us, clock_now_us());
        operation->n_active++;
}

/* Raises the count that users see, which never falls, although a transfer of several may be behind another. */
static void raise_bytes_done(struct operation *operation, uint64_t bytes)
{
        uint64_t furthest = atomic_load(&operation->bytes_done);

        while (bytes > furthest && !atomic_compare_exchange_weak(&operation->bytes_done, &furthest, bytes))
                ;
}

/* Counts what a transfer has moved since the last count. Any thread; several may report of one transfer over HTTP. */
static bool count_moved(struct operation_transfer *transfer, uint64_t bytes, uint64_t now_us)
{
        struct operation *operation = transfer->operation;
        uint64_t before = atomic_load_explicit(&transfer->bytes, memory_order_relaxed);

        do {
                if (bytes <= before)
                        return false;
        } while (!atomic_compare_exchange_weak_explicit(&transfer->bytes, &before, bytes, memory_order_relaxed,
                                                        memory_order_relaxed));
        throughput_add(&operation->store->throughput, operation->kind, bytes - before, now_us);
        raise_bytes_done(operation, bytes);
        return true;
}

/* Takes the lock at most ten times a second, whatever the engine's rate. */
void operation_transfer_progress(void *context, uint64_t bytes)
{
        struct operation_transfer *transfer = context;
        struct operation *operation = transfer->operation;
        struct deferred_actions deferred = { 0 };
        uint64_t now;

        if (bytes > transfer->total)
                bytes = transfer->total;
        now = clock_now_us();
        atomic_store_explicit(&operation->moved_us, now, memory_order_relaxed);
        if (!count_moved(transfer, bytes, now) || now < atomic_load(&operation->bumped_us) + OPERATION_PROGRESS_US)
                return;
        store_lock(operation->store);
        if (!operation_terminal(operation) && !operation->deleted) {
                atomic_store(&operation->bumped_us, now);
                operation_bump_often(operation, &deferred);
        }
        store_unlock(operation->store, &deferred);
}

void operation_transfer_over(struct operation *operation, int error, const char *detail,
                             struct deferred_actions *deferred)
{
        const uint64_t places = operation_uses_max(operation);

        operation->n_active--;
        if (!error)
                operation->n_completed++;
        if (places == 1) {
                operation_finish(operation, error, detail, deferred);
                return;
        }
        if (!operation->n_active && operation_is_used_up(operation)) {
                operation_finish(operation, 0, "", deferred);
        } else if (!operation->n_active && operation->state == OPERATION_STOPPING) {
                operation_finish(operation, operation->stop_reason, "", deferred);
        } else if (!operation->n_active && operation->store->stage >= STORE_DRAINING) {
                operation_finish(operation, FERRY_E_CANCELLED, "", deferred);
        } else {
                if (!operation->n_active) {
                        deadline_expire_after(operation, operation->ttl_ms);
                        if (deadline_arm(operation) < 0)
                                operation_stop(operation, FERRY_E_INTERNAL, deferred);
                }
                operation_bump_often(operation, deferred);
        }
}

/* For an operation with several uses, because the line about its end names the last one only. */
static void operation_transfer_log(const struct operation_transfer *transfer, const struct engine_outcome *outcome)
{
        const struct operation *operation = transfer->operation;
        char id[FERRY_ID_TEXT_SIZE], epoch[FERRY_ID_TEXT_SIZE];

        if (operation_uses_max(operation) == 1 || !log_enabled(LOG_INFO))
                return;
        ferry_id_format("op_", operation->id, id);
        ferry_id_format("", transfer->peer.epoch, epoch);
        log_event(LOG_INFO, "operation use ended", LOG_S("operation", id),
                  LOG_S("label", operation->label[0] ? operation->label : NULL),
                  LOG_S("peer", transfer->peer.worker[0] ? transfer->peer.worker : NULL),
                  LOG_S("peer_epoch", transfer->peer.epoch ? epoch : NULL),
                  LOG_S("error", outcome->error ? ferry_error_code(outcome->error) : NULL),
                  LOG_S("detail", outcome->error ? outcome->detail : NULL), LOG_U("bytes", outcome->bytes));
}

/* Called by the data plane, which calls operation_store_wake_waiters later. */
void operation_transfer_ended(void *context, const struct engine_outcome *outcome)
{
        struct operation_transfer *transfer = context;
        struct operation *operation = transfer->operation;
        struct operation_store *store = operation->store;
        struct deferred_actions deferred = { 0 };

        operation_metrics_bytes(&store->metrics, operation->kind, outcome);
        operation_transfer_log(transfer, outcome);
        store_lock(store);
        store_tell_started(operation); /* a start before its end */
        (void)count_moved(transfer, outcome->error ? outcome->bytes : transfer->total, clock_now_us());
        if (outcome->transport[0])
                memcpy(operation->transport, outcome->transport, sizeof(outcome->transport));
        operation->connect_us = outcome->connect_us;
        operation_transfer_over(operation, outcome->error, outcome->detail, &deferred);
        store_unlock_without_waking(store, &deferred);
        if (transfer != operation->own)
                free(transfer);
        (void)operation_unref(operation);
}
