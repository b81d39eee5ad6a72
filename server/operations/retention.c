/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "operations_internal.h"

/*
 * Terminal operations that are kept for a while, oldest first, and the limits into which a new operation must fit. One
 * lazy timer of the loop, for the oldest; its callback owns a reference to the store. Lock: the store's.
 */

#define RETENTION_SLACK_US UINT64_C(1000000) /* least time between two runs: idle workers sleep */

/*
 * Arms the timer for the oldest terminal operation, at earliest_us or later. If memory is short, the next terminal
 * operation arms it. The store's lock is held.
 */
static void retention_arm(struct operation_store *store, uint64_t earliest_us)
{
        uint64_t due_us;

        if (store->stage == STORE_CLOSED || store->timer_armed || !store->terminal)
                return;
        due_us = deadline_after(store->terminal->ended_us, store->config.limits.retention_ms);
        if (due_us == OPERATION_NEVER)
                return;
        (void)store_ref(store);
        store->timer_armed = true;
        if (loop_timer_start(store->config.loop, &store->timer, due_us > earliest_us ? due_us : earliest_us) < 0) {
                store->timer_armed = false;
                store_unref(store);
        }
}

void retention_forget(struct operation *operation)
{
        struct operation_store *store = operation->store;

        DL_DELETE2(store->terminal, operation, terminal_prev, terminal_next);
        store->n_terminal--;
        store_count_pieces(store, operation, false);
}

bool retention_evict(struct operation_store *store)
{
        struct operation *oldest = store->terminal;

        if (!oldest)
                return false;
        operation_metrics_move(&store->metrics, oldest->kind, operation_status(oldest), FERRY_UNINITIALIZED);
        retention_forget(oldest);
        store_remove(oldest);
        return true;
}

void retention_keep(struct operation *operation)
{
        struct operation_store *store = operation->store;

        DL_APPEND2(store->terminal, operation, terminal_prev, terminal_next);
        store->n_terminal++;
        while (store->n_terminal > store->config.limits.terminal_max)
                (void)retention_evict(store);
        retention_arm(store, 0);
}

/* A terminal operation makes room for a new one, whatever its age; one that has not ended never does. */
int retention_make_room(struct operation_store *store, const struct operation *operation,
                        char detail[OPERATION_DETAIL_SIZE])
{
        const struct operation_limits *limits = &store->config.limits;
        bool full;

        while ((full = store->n_live + store->n_terminal >= limits->operations_max) ||
               operation->n_pieces > limits->pieces_max - store->n_pieces) {
                if (retention_evict(store))
                        continue;
                if (full)
                        (void)snprintf(detail, OPERATION_DETAIL_SIZE,
                                       "--max-operations is %zu, and as many have not ended", limits->operations_max);
                else
                        (void)snprintf(detail, OPERATION_DETAIL_SIZE,
                                       "pieces_max is %zu, and operations that have not ended leave too few",
                                       limits->pieces_max);
                return FERRY_E_LIMIT_REACHED;
        }
        return 0;
}

void retention_fired(struct loop_timer *timer)
{
        struct operation_store *store = FERRY_CONTAINER_OF(timer, struct operation_store, timer);
        uint64_t now;

        store_lock(store);
        store->timer_armed = false;
        now = clock_now_us();
        while (store->terminal && deadline_after(store->terminal->ended_us, store->config.limits.retention_ms) <= now)
                (void)retention_evict(store);
        retention_arm(store, now + RETENTION_SLACK_US);
        store_unlock_plain(store);
        store_unref(store);
}
