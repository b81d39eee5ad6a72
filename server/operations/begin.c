/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
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

/*
 * The begin of an active operation: its peer's metadata are compared with what it asks for, then the data plane gets
 * its transfer. An operation has one transfer, which lies in its own memory (own), and the data plane may begin it
 * again by another carrier. The peer's metadata are borrowed; the key is wiped off the stack after use.
 *
 * Thread: any. The store's lock is not held while the data plane is called: the state STARTING bridges the gap, in
 * which a cancel is only noted (stop_reason) and told afterwards (operation_was_started).
 */

/* What an active operation asks of an offer: by its slices before it is made, by its descriptors afterwards. */
struct wanted {
        enum ferry_kind kind;
        enum ferry_layout layout;
        const struct ranges *parts; /* NULL = all of it */
        size_t n;
        const struct operation_slice *slices; /* NULL = descriptors */
        const struct operation_descriptor *descriptors;
};

/* Bytes of all pieces of a slice or descriptor. */
static uint64_t size_here(const struct wanted *wanted, size_t i)
{
        if (wanted->slices)
                return wanted->slices[i].size * slice_count(&wanted->slices[i]);
        return wanted->descriptors[i].size * wanted->descriptors[i].count;
}

/* Adds up the sizes of the metadata. Returns false when the sum does not fit. */
static bool size_there(const struct ferry_metadata *metadata, uint64_t *ret_total)
{
        *ret_total = 0;
        for (size_t i = 0; i < metadata->n_descriptors; i++)
                if (__builtin_add_overflow(*ret_total, metadata->descriptors[i].size, ret_total))
                        return false;
        return true;
}

/* Compares two lists element by element, as nixl_connect does. Returns 0 or FERRY_E_SIZE_MISMATCH. */
static int check_pairs(const struct wanted *wanted, const struct ferry_metadata *metadata,
                       char detail[OPERATION_DETAIL_SIZE])
{
        if (wanted->n != metadata->n_descriptors)
                return operation_refuse(detail, FERRY_E_SIZE_MISMATCH, "%zu descriptors here, %zu in the metadata",
                                        wanted->n, metadata->n_descriptors);
        for (size_t i = 0; i < wanted->n; i++) {
                const uint64_t here = size_here(wanted, i), there = metadata->descriptors[i].size;

                if (here != there)
                        return operation_refuse(detail, FERRY_E_SIZE_MISMATCH,
                                                "Descriptor %zu has %" PRIu64 " bytes here, %" PRIu64
                                                " in the metadata",
                                                i, here, there);
        }
        return 0;
}

/* Returns 0 or an error of operation_begin(). operation_create() compares the bytes of parts with the descriptors'. */
static int check_sizes(const struct wanted *wanted, const struct ferry_metadata *metadata,
                       char detail[OPERATION_DETAIL_SIZE])
{
        uint64_t here = 0, there;

        if (!size_there(metadata, &there))
                return operation_refuse(detail, FERRY_E_INVALID_METADATA,
                                        "The sizes in the metadata add up to more than exists");
        for (size_t i = 0; i < wanted->n; i++)
                if (__builtin_add_overflow(here, size_here(wanted, i), &here))
                        return operation_refuse(detail, FERRY_E_SIZE_MISMATCH,
                                                "The sizes here add up to more than exists");
        if (wanted->parts && wanted->parts->end > there)
                return operation_refuse(detail, FERRY_E_OUT_OF_BOUNDS,
                                        "A range of remote ends at byte %" PRIu64 ", the offer has %" PRIu64,
                                        wanted->parts->end, there);
        if (wanted->parts)
                return 0;
        if (wanted->layout != FERRY_LAYOUT_STREAM)
                return check_pairs(wanted, metadata, detail);
        if (here != there)
                return operation_refuse(detail, FERRY_E_SIZE_MISMATCH,
                                        "%" PRIu64 " bytes here, %" PRIu64 " in the metadata", here, there);
        return 0;
}

/* Checks kind, expiry and sizes of the metadata. Returns 0 or the FERRY_E_* of operation_begin(), with a sentence. */
static int check(const struct wanted *wanted, const struct ferry_metadata *metadata, char detail[OPERATION_DETAIL_SIZE])
{
        const bool reads = wanted->kind == FERRY_READ;

        detail[0] = '\0';
        if (metadata->operation_kind != (reads ? FERRY_METADATA_READ : FERRY_METADATA_WRITE))
                return operation_refuse(detail, FERRY_E_KIND_MISMATCH, "A %s needs the metadata of a %s operation",
                                        reads ? "read" : "write", reads ? "readable" : "writable");
        if (metadata->expires_ms && metadata->expires_ms <= clock_unix_ms())
                return operation_refuse(detail, FERRY_E_METADATA_EXPIRED,
                                        "The metadata expired %" PRIu64 " ms ago by the clock of this host",
                                        clock_unix_ms() - metadata->expires_ms);
        return check_sizes(wanted, metadata, detail);
}

int operation_check(struct operation_store *store, const struct operation_spec *spec,
                    const struct ferry_metadata *metadata, char detail[OPERATION_DETAIL_SIZE])
{
        const struct wanted wanted = { spec->kind, spec->layout, spec->remote, spec->n_slices, spec->slices, NULL };

        (void)store;
        return check(&wanted, metadata, detail);
}

/* The data plane's callback: users see the operation IN_PROGRESS. A stop that came before is told now. */
static void transfer_started(void *context)
{
        struct operation_transfer *transfer = context;
        struct operation *operation = transfer->operation;
        struct deferred_actions deferred = { 0 };

        store_lock(operation->store);
        if (operation->state < OPERATION_RUNNING) { /* it may start by another carrier, after one that failed */
                atomic_store(&operation->moved_us, clock_now_us());
                operation_set_state(operation, OPERATION_RUNNING, &deferred);
                operation_stop_if_due(operation, &deferred);
        }
        store_unlock_without_waking(operation->store, &deferred);
}

/* The data plane's callback: why the operation is to end, or 0. */
static int transfer_stopping(void *context)
{
        const struct operation_transfer *transfer = context;

        return transfer->operation->stop_reason;
}

/* Whether the data plane may have the operation; if so, it counts as in flight from now on. */
static bool operation_may_begin(struct operation_store *store, struct operation *operation,
                                const struct ferry_metadata *metadata, int *ret_r)
{
        struct deferred_actions deferred = { 0 };
        bool may = false;

        *ret_r = 0;
        store_lock(store);
        if (operation->own->operation) { /* it has had its transfer */
                *ret_r = -EALREADY;
        } else if (operation->state == OPERATION_WAITING) {
                operation_transfer_begin(operation->own, operation, operation->bytes_total, metadata->epoch,
                                         metadata->worker);
                if (deadline_arm(operation) < 0) {
                        operation_transfer_over(operation, FERRY_E_INTERNAL, "", &deferred);
                        (void)operation_unref(operation);
                } else {
                        operation_set_state(operation, OPERATION_STARTING, &deferred);
                        may = true;
                }
        }
        store_unlock(store, &deferred);
        return may;
}

/* The data plane has taken the transfer, which may have ended already, or refused it (r < 0). */
static void operation_was_started(struct operation_store *store, struct operation *operation, int r)
{
        struct deferred_actions deferred = { 0 };

        store_lock(store);
        if (r < 0)
                operation_transfer_over(
                        operation, operation->stop_reason ? operation->stop_reason : FERRY_E_TRANSFER_FAILED,
                        r == -ESHUTDOWN ? "The data plane is shut down" : "The data plane could not start", &deferred);
        else if (operation->state == OPERATION_STARTING)
                operation_set_state(operation, OPERATION_CONNECTING, &deferred);
        operation_stop_if_due(operation, &deferred);
        store_unlock(store, &deferred);
        if (r < 0)
                (void)operation_unref(operation);
}

int operation_begin(struct operation_store *store, struct operation *operation, const struct ferry_metadata *metadata,
                    bool may_run_inline, char detail[OPERATION_DETAIL_SIZE])
{
        const struct wanted wanted = {
                operation->kind,       operation->layout, operation->remote, operation->n_descriptors, NULL,
                operation->descriptors
        };
        struct engine_transfer transfer;
        int r;

        if (ferry_kind_is_passive((int)operation->kind))
                return operation_refuse(detail, -EINVAL, "A passive operation waits for its peer");
        r = check(&wanted, metadata, detail);
        if (r)
                return r;
        if (!operation_may_begin(store, operation, metadata, &r))
                return r;
        transfer = (struct engine_transfer){
                .id = operation->transfer_id,
                .direction = operation->kind == FERRY_READ ? ENGINE_READ : ENGINE_WRITE,
                .peer = { .epoch = metadata->epoch,
                          .data = metadata->data,
                          .name = metadata->worker,
                          .url = metadata->http },
                .remote_operation = metadata->operation,
                .segments = operation->pins->segments,
                .n_segments = operation->pins->n_segments,
                .total = operation->bytes_total,
                .remote = operation->remote,
                .verify = operation->verify,
                .carriers = operation->carriers,
                .may_run_inline = may_run_inline,
                .context = operation->own,
                .started = transfer_started,
                .progress = operation_transfer_progress,
                .arrived = operation->kind == FERRY_READ ? follow_arrived : NULL,
                .request_max = operation->kind == FERRY_READ ? follow_request_max : NULL,
                .stopping = transfer_stopping,
                .ended = operation_transfer_ended,
        };
        (void)size_there(metadata, &transfer.remote_total);
        memcpy(transfer.key, metadata->key, sizeof(transfer.key));
        r = store->config.data_plane.transfer_start(store->config.data_plane.context, &transfer);
        explicit_bzero(transfer.key, sizeof(transfer.key));
        operation_was_started(store, operation, r);
        return 0;
}

void operation_fail(struct operation_store *store, struct operation *operation, int error, const char *detail)
{
        struct deferred_actions deferred = { 0 };

        store_lock(store);
        if (!ferry_kind_is_passive((int)operation->kind) && operation->state == OPERATION_WAITING)
                operation_finish(operation, error, detail ? detail : "", &deferred);
        store_unlock(store, &deferred);
}
