/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "operations_internal.h"

/*
 * Claims: the first request of a peer's transfer asks whether it may use a passive operation. Key, kind, size and uses
 * decide under the store's lock; a claim that is granted is a transfer of the operation and holds a reference to it
 * until operation_transfer_ended(). Here, too, are the metadata by which a peer knows the operation, and their renewal.
 *
 * Thread: the engine's for a claim, which must be short, since the peer waits; any for the rest.
 */

/* The answer to a peer with the right key after the operation's end. */
static int refusal_of_terminal(const struct operation *operation)
{
        const struct operation *source = operation->follow ? operation->follow->source : NULL;

        if (operation->state == OPERATION_ERRORED && source && operation_terminal(source) &&
            source->state != OPERATION_COMPLETE)
                return FERRY_E_STALE_METADATA;
        if (operation->state != OPERATION_CANCELLED)
                return FERRY_E_ALREADY_CLAIMED;
        return operation->error == FERRY_E_EXPIRED || operation->error == FERRY_E_DECLINED ? operation->error
                                                                                           : FERRY_E_CANCELLED_BY_PEER;
}

/* With the lock held. Without the key a peer learns no more than that the operation exists. */
static int claim_check(const struct operation *operation, const struct engine_claim_request *request)
{
        enum ferry_kind kind = request->direction == ENGINE_READ ? FERRY_READABLE : FERRY_WRITABLE;

        if (!operation || !ferry_kind_is_passive((int)operation->kind))
                return FERRY_E_STALE_METADATA;
        if (!ferry_key_equal(request->key, operation->key))
                return FERRY_E_PEER_REFUSED;
        if (operation->kind != kind)
                return FERRY_E_KIND_MISMATCH;
        if (operation_terminal(operation))
                return refusal_of_terminal(operation);
        if (operation->stop_reason == FERRY_E_CANCELLED || operation->store->stage >= STORE_DRAINING)
                return FERRY_E_CANCELLED_BY_PEER;
        if (request->whole != operation->bytes_total || request->total > request->whole)
                return FERRY_E_SIZE_MISMATCH;
        if (operation_ends(operation) || operation_is_used_up(operation))
                return FERRY_E_ALREADY_CLAIMED;
        /* Two writers at once would mix their bytes. */
        if (operation->kind == FERRY_WRITABLE && operation->n_active)
                return FERRY_E_ALREADY_CLAIMED;
        return 0;
}

/* The transfer is made before the lock is taken. A claim that has no deadline, since memory is short, is taken back. */
int operation_store_claim(void *context, const struct engine_claim_request *request, struct engine_claim *ret_claim)
{
        FERRY_CLEANUP(cleanup_free) struct operation_transfer *transfer = calloc(1, sizeof(*transfer));
        struct operation_store *store = context;
        struct operation *operation = NULL;
        struct deferred_actions deferred = { 0 };
        int r;

        if (!transfer)
                return FERRY_E_INTERNAL;
        store_lock(store);
        HASH_FIND(hh, store->by_id, &request->operation, sizeof(request->operation), operation);
        r = claim_check(operation, request);
        if (!r) {
                operation_transfer_begin(transfer, operation, request->total, request->peer_epoch, request->peer_name);
                if (deadline_arm(operation) < 0) {
                        operation->n_active--;
                        (void)operation_unref(operation);
                        r = FERRY_E_INTERNAL;
                }
        }
        if (!r) {
                *ret_claim = (struct engine_claim){
                        .segments = operation->pins->segments,
                        .n_segments = operation->pins->n_segments,
                        .total = operation->bytes_total,
                        .progress = operation_transfer_progress,
                        .available = operation->follow ? follow_available : NULL,
                        .ended = operation_transfer_ended,
                        .context = FERRY_STEAL(transfer),
                };
                if (operation->state == OPERATION_WAITING)
                        operation_set_state(operation, OPERATION_RUNNING, &deferred);
        }
        store_unlock_without_waking(store, &deferred);
        return r;
}

/* An opaque, non-zero number below 2^53, different for each descriptor. */
static uint64_t descriptor_handle(uint64_t operation, size_t i)
{
        uint64_t mixed = operation * UINT64_C(0x9e3779b97f4a7c15);

        _Static_assert(FERRY_METADATA_DESCRIPTORS <= 1 << 18, "an index fits into 18 bits");
        return ((mixed >> 30) << 18 | (uint64_t)i) + 1;
}

/* A stream has one descriptor, of all bytes, so that its metadata stay short however many pieces of memory it has. */
static int metadata_new(const struct operation *operation, struct ferry_metadata **ret_metadata)
{
        const size_t n = operation->layout == FERRY_LAYOUT_STREAM ? 1 : operation->n_descriptors;
        struct ferry_metadata *metadata = calloc(1, sizeof(*metadata));

        if (!metadata)
                return -ENOMEM;
        metadata->descriptors = calloc(n, sizeof(metadata->descriptors[0]));
        if (!metadata->descriptors) {
                free(metadata);
                return -ENOMEM;
        }
        metadata->operation_kind = operation->kind == FERRY_READABLE ? FERRY_METADATA_READ : FERRY_METADATA_WRITE;
        metadata->protocol = FERRY_PROTOCOL;
        memcpy(metadata->key, operation->key, sizeof(metadata->key));
        metadata->epoch = operation->store->config.epoch;
        metadata->operation = operation->id;
        /* Upstream's shape has no pieces: a peer sees their total alone, so each side may cut it as it likes. */
        metadata->n_descriptors = n;
        for (size_t i = 0; i < n; i++) {
                struct ferry_metadata_descriptor *descriptor = &metadata->descriptors[i];

                memcpy(descriptor->device, operation->descriptors[i].device, sizeof(operation->descriptors[i].device));
                descriptor->ptr = descriptor_handle(operation->id, i);
                descriptor->size = n == 1 ? operation->bytes_total
                                          : operation->descriptors[i].size * operation->descriptors[i].count;
        }
        *ret_metadata = metadata;
        return 0;
}

int operation_metadata(struct operation_store *store, struct operation *operation, struct ferry_metadata **ret_metadata)
{
        uint64_t expires_ms, latest_ms;
        bool ended;
        int r;

        if (!ferry_kind_is_passive((int)operation->kind))
                return FERRY_E_NOT_PASSIVE;
        store_lock(store);
        ended = operation_ends(operation);
        /* The time to live stands still during a transfer and starts anew after it, at the earliest now. */
        expires_ms = operation->n_active ? clock_unix_ms() + operation->ttl_ms : operation->expires_unix_ms;
        /* Its holders may put it off, and have no other metadata than these. */
        latest_ms = operation->created_unix_ms + operation->renew_max_ms;
        store_unlock_plain(store);
        if (ended)
                return FERRY_E_GONE;
        r = metadata_new(operation, ret_metadata);
        if (!r)
                (*ret_metadata)->expires_ms = expires_ms > latest_ms ? expires_ms : latest_ms;
        return r;
}

int operation_renew(struct operation_store *store, struct operation *operation, uint64_t ttl_ms)
{
        struct deferred_actions deferred = { 0 };
        int r = 0;

        if (!ferry_kind_is_passive((int)operation->kind))
                return FERRY_E_NOT_PASSIVE;
        if (ttl_ms > store->config.limits.ttl_ms_max)
                return FERRY_E_INVALID_PARAMETER;
        store_lock(store);
        if (operation_ends(operation)) {
                r = FERRY_E_GONE;
        } else {
                deadline_expire_after(operation, ttl_ms ? ttl_ms : operation->ttl_created_ms);
                r = deadline_arm(operation);
                operation_bump_often(operation, &deferred);
        }
        store_unlock(store, &deferred);
        return r;
}

/*
 * Rights of the holder of an operation's metadata without a transfer: decline the operation, and keep it. The key is
 * checked by the caller, over HTTP by an endpoint, over a link by notice_take(). A holder may repeat a request whose
 * answer was lost, so a decline names the transfer that it gives up, and counts once.
 *
 * Thread: any.
 */

enum { DECLINED_MAX = 64 };

/*
 * The latest transfers by which uses of an operation were declined, so that a repeated request declines no further one;
 * a ring.
 */
struct declined {
        uint32_t n; /* so far */
        uint64_t transfers[DECLINED_MAX];
};

/* Whether a use was declined by this transfer already. The store's lock is held. */
static bool was_declined(const struct operation *operation, uint64_t transfer)
{
        const struct declined *declined = operation->declined;

        for (uint32_t i = 0; transfer && declined && i < declined->n && i < DECLINED_MAX; i++)
                if (declined->transfers[i] == transfer)
                        return true;
        return false;
}

/*
 * Remembers by which transfer a use was declined. If memory is short, a holder that repeats its request declines a
 * second use. The store's lock is held.
 */
static void note_declined(struct operation *operation, uint64_t transfer)
{
        if (!operation->declined)
                operation->declined = calloc(1, sizeof(*operation->declined));
        if (operation->declined && transfer)
                operation->declined->transfers[operation->declined->n++ % DECLINED_MAX] = transfer;
}

/* Declines one of several uses. Returns 0 or FERRY_E_ALREADY_CLAIMED. The store's lock is held. */
static int decline_use(struct operation *operation, uint64_t transfer, struct deferred_actions *deferred)
{
        if (was_declined(operation, transfer))
                return 0;
        if (operation_is_used_up(operation))
                return FERRY_E_ALREADY_CLAIMED;
        operation->n_declined++;
        note_declined(operation, transfer);
        if (operation->n_active || !operation_is_used_up(operation))
                operation_bump_often(operation, deferred);
        else
                operation_finish(operation, operation->n_completed ? 0 : FERRY_E_DECLINED, "", deferred);
        return 0;
}

int operation_decline(struct operation_store *store, struct operation *operation, uint64_t transfer,
                      enum ferry_status *ret_status)
{
        struct deferred_actions deferred = { 0 };
        int r = 0;

        if (!ferry_kind_is_passive((int)operation->kind))
                return FERRY_E_NOT_PASSIVE;
        store_lock(store);
        if (!operation_ends(operation)) {
                if (operation_uses_max(operation) > 1)
                        r = decline_use(operation, transfer, &deferred);
                else if (operation->n_active)
                        r = FERRY_E_ALREADY_CLAIMED;
                else
                        operation_finish(operation, FERRY_E_DECLINED, "", &deferred);
        }
        *ret_status = operation_status(operation);
        store_unlock(store, &deferred);
        return r;
}

int operation_keep(struct operation_store *store, struct operation *operation, uint64_t ttl_ms,
                   enum ferry_status *ret_status, uint64_t *ret_expires_unix_ms)
{
        struct deferred_actions deferred = { 0 };
        const uint64_t now_us = clock_now_us();
        uint64_t until_us = deadline_after(now_us, ttl_ms ? ttl_ms : operation->ttl_created_ms);
        uint64_t latest_us = deadline_after(operation->created_us, operation->renew_max_ms);
        int r = 0;

        if (!ferry_kind_is_passive((int)operation->kind))
                return FERRY_E_NOT_PASSIVE;
        if (!operation->renew_max_ms)
                return FERRY_E_FORBIDDEN;
        if (until_us > latest_us)
                until_us = latest_us;
        store_lock(store);
        if (operation_ends(operation)) {
                r = FERRY_E_GONE;
        } else if (until_us > operation->expires_us) {
                operation->expires_us = until_us;
                operation->expires_unix_ms = clock_unix_ms() + (until_us - now_us) / 1000;
                r = deadline_arm(operation);
                operation_bump_often(operation, &deferred);
        }
        *ret_status = operation_status(operation);
        *ret_expires_unix_ms = operation->expires_unix_ms;
        store_unlock(store, &deferred);
        return r;
}

/* ---- over a link ---- */

/* Checks the key, and does what the notice says. Returns 0 or the FERRY_E_* that the peer is told. */
static int notice_take(struct operation *operation, const struct engine_notice *notice, int *ret_status,
                       uint64_t *ret_left_ms)
{
        enum ferry_status status = FERRY_UNINITIALIZED;
        uint64_t expires_ms = 0, now_ms;
        int r;

        if (!ferry_kind_is_passive((int)operation->kind))
                return FERRY_E_STALE_METADATA;
        if (!ferry_key_equal(notice->key, operation->key))
                return FERRY_E_PEER_REFUSED;
        r = notice->renews ? operation_keep(operation->store, operation, notice->ttl_ms, &status, &expires_ms)
                           : operation_decline(operation->store, operation, notice->transfer, &status);
        now_ms = clock_unix_ms();
        *ret_status = (int)status;
        *ret_left_ms = expires_ms > now_ms ? expires_ms - now_ms : 0;
        return r;
}

/* Thread: the engine's. Without the key a peer learns no more than that the operation exists. */
int operation_store_notice(void *store, const struct engine_notice *notice, int *ret_status, uint64_t *ret_left_ms)
{
        struct operation *operation;
        int r;

        if (operation_find(store, notice->operation, &operation) != OPERATION_FOUND)
                return FERRY_E_STALE_METADATA;
        r = notice_take(operation, notice, ret_status, ret_left_ms);
        (void)operation_unref(operation);
        return r;
}
