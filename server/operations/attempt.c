/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "operations_internal.h"

void attempt_begin(struct operation_attempt *attempt, struct operation *operation, uint64_t peer_epoch,
                   const char *peer_name)
{
        attempt->peer.epoch = peer_epoch;
        (void)snprintf(attempt->peer.worker, sizeof(attempt->peer.worker), "%s", peer_name ? peer_name : "");
        operation->peer = attempt->peer;
        attempt->operation = operation_ref(operation);
        atomic_store(&attempt->bytes, 0);
        atomic_store(&operation->moved_us, clock_now_us());
        operation->n_active++;
}

/* Takes the lock at most ten times a second, whatever the engine's rate. */
void attempt_progress(void *context, uint64_t bytes)
{
        struct operation_attempt *attempt = context;
        struct operation *operation = attempt->operation;
        struct aftermath after = { 0 };
        uint64_t now, furthest;

        if (bytes > operation->bytes_total)
                bytes = operation->bytes_total;
        now = clock_now_us();
        atomic_store_explicit(&operation->moved_us, now, memory_order_relaxed);
        if (bytes <= atomic_load_explicit(&attempt->bytes, memory_order_relaxed))
                return;
        atomic_store_explicit(&attempt->bytes, bytes, memory_order_relaxed);
        furthest = atomic_load(&operation->bytes_done);
        while (bytes > furthest && !atomic_compare_exchange_weak(&operation->bytes_done, &furthest, bytes))
                ;

        if (now < atomic_load(&operation->bumped_us) + OPERATION_PROGRESS_US)
                return;
        store_lock(operation->store);
        if (!operation_terminal(operation) && !operation->deleted) {
                atomic_store(&operation->bumped_us, now);
                operation_bump_often(operation, &after);
        }
        store_unlock(operation->store, &after);
}

void attempt_over(struct operation *operation, int error, const char *detail, struct aftermath *after)
{
        uint32_t places = operation_places(operation);

        operation->n_active--;
        if (!error) {
                operation->n_completed++;
                atomic_store(&operation->bytes_done, operation->bytes_total);
        }
        if (places == 1) {
                operation_finish(operation, error, detail, after);
                return;
        }
        if (!operation->n_active && operation->n_completed == places) {
                operation_finish(operation, 0, "", after);
        } else if (!operation->n_active && operation->stop_reason) {
                operation_finish(operation, operation->stop_reason, "", after);
        } else {
                if (!operation->n_active) {
                        deadline_expire_after(operation, operation->ttl_ms);
                        if (deadline_arm(operation) < 0)
                                operation_stop(operation, FERRY_E_INTERNAL, after);
                }
                operation_bump_often(operation, after);
        }
}

/* Of an operation that serves several: the line about its end names the last one only. */
static void attempt_log(const struct operation_attempt *attempt, const struct engine_outcome *outcome)
{
        const struct operation *operation = attempt->operation;
        char id[FERRY_ID_TEXT_SIZE], epoch[FERRY_ID_TEXT_SIZE];

        if (operation_places(operation) == 1 || !log_enabled(LOG_INFO))
                return;
        ferry_id_format("op_", operation->id, id);
        ferry_id_format("", attempt->peer.epoch, epoch);
        log_event(LOG_INFO, "operation use ended", LOG_S("operation", id),
                  LOG_S("label", operation->label[0] ? operation->label : NULL),
                  LOG_S("peer", attempt->peer.worker[0] ? attempt->peer.worker : NULL),
                  LOG_S("peer_epoch", attempt->peer.epoch ? epoch : NULL),
                  LOG_S("error", outcome->error ? ferry_error_code(outcome->error) : NULL),
                  LOG_S("detail", outcome->error ? outcome->detail : NULL), LOG_U("bytes", outcome->bytes));
}

/* From the data plane. Who waits is woken when it settles. */
void attempt_ended(void *context, const struct engine_outcome *outcome)
{
        struct operation_attempt *attempt = context;
        struct operation *operation = attempt->operation;
        struct operation_store *store = operation->store;
        struct aftermath after = { 0 };

        tally_bytes(&store->tally, operation->kind, outcome);
        attempt_log(attempt, outcome);
        store_lock(store);
        if (outcome->transport[0])
                memcpy(operation->transport, outcome->transport, sizeof(outcome->transport));
        operation->connect_us = outcome->connect_us;
        attempt_over(operation, outcome->error, outcome->detail, &after);
        store_unlock_unsettled(store, &after);
        if (attempt != operation->own)
                free(attempt);
        (void)operation_unref(operation);
}
