/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "operations_internal.h"

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
