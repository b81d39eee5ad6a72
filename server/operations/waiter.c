/* SPDX-License-Identifier: Apache-2.0 */
#include "operations_internal.h"

/*
 * Waiters: who waits for a change of an operation, a parked HTTP request or a thread of the program. A waiter is in its
 * owner's memory and in the operation's list; operation_bump() takes it off the list under the lock, store_unlock()
 * wakes it without. It is level-triggered: what has changed before the wait is found by operation_wakes(). Thread: any.
 */

bool operation_wakes(const struct operation *operation, const struct operation_waiter *waiter, uint64_t revision)
{
        return operation_terminal(operation) || (operation->deleted && !(waiter && waiter->quiet)) ||
               (revision && operation->revision > revision);
}

bool operation_is_past(struct operation_store *store, struct operation *operation, uint64_t revision)
{
        bool past;

        store_lock(store);
        past = operation_wakes(operation, NULL, revision);
        store_unlock_plain(store);
        return past;
}

bool operation_wait(struct operation_store *store, struct operation *operation, uint64_t revision,
                    struct operation_waiter *waiter)
{
        bool waits;

        store_lock(store);
        waits = !operation_wakes(operation, waiter, revision);
        if (waits) {
                waiter->operation = operation;
                waiter->revision = revision;
                DL_APPEND2(operation->waiters, waiter, previous, next);
                metric_add(store->metrics.waits, 1);
        }
        store_unlock_plain(store);
        return waits;
}

bool operation_unwait(struct operation_store *store, struct operation_waiter *waiter)
{
        bool waited;

        store_lock(store);
        waited = waiter->operation;
        if (waited) {
                DL_DELETE2(waiter->operation->waiters, waiter, previous, next);
                waiter->operation = NULL;
                metric_add(store->metrics.waits, -1);
        }
        store_unlock_plain(store);
        return waited;
}
