/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/state.h"
#include "operations/content_ranges.h"
#include "operations_internal.h"

/*
 * The states of an operation: the table says which change is allowed, operation_set_state() makes it, with all that
 * follows: metrics, revision, waiters, followers, retention. What needs the lock to be given back first is gathered in
 * struct deferred_actions (store_lock.c).
 *
 * An operation is terminal only when nothing can be written into its memory by it any more: operation_stop() ends it at
 * once if no transfer is in flight, else tells the data plane, whose end of the transfer ends it. All functions: with
 * the store's lock held.
 */

#define ENDS (STATE_BIT(OPERATION_CANCELLED) | STATE_BIT(OPERATION_ERRORED))

static const struct state_row states[] = {
        [OPERATION_NEW] = { "NEW", STATE_BIT(OPERATION_WAITING) },
        [OPERATION_WAITING] = { "WAITING", STATE_BIT(OPERATION_STARTING) | STATE_BIT(OPERATION_RUNNING) | ENDS },
        [OPERATION_STARTING] = { "STARTING", STATE_BIT(OPERATION_CONNECTING) | STATE_BIT(OPERATION_RUNNING) |
                                                     STATE_BIT(OPERATION_COMPLETE) | ENDS },
        [OPERATION_CONNECTING] = { "CONNECTING", STATE_BIT(OPERATION_RUNNING) | STATE_BIT(OPERATION_STOPPING) |
                                                         STATE_BIT(OPERATION_COMPLETE) | ENDS },
        [OPERATION_RUNNING] = { "RUNNING", STATE_BIT(OPERATION_STOPPING) | STATE_BIT(OPERATION_COMPLETE) | ENDS },
        [OPERATION_STOPPING] = { "STOPPING", STATE_BIT(OPERATION_COMPLETE) | ENDS },
        [OPERATION_COMPLETE] = { "COMPLETE", 0 },
        [OPERATION_CANCELLED] = { "CANCELLED", 0 },
        [OPERATION_ERRORED] = { "ERRORED", 0 },
};
_Static_assert(FERRY_ARRAY_SIZE(states) == OPERATION_STATE_COUNT, "every state has its row");

/* If memory is short, the title of the error will do. */
static void detail_set(struct operation *operation, const char *detail)
{
        free(operation->detail);
        operation->detail = strndup(detail, OPERATION_DETAIL_SIZE - 1);
}

/* Ends the following: one of the two has ended. */
static void operation_leave_source(struct operation *operation)
{
        struct operation *source;

        if (!operation->follower_prev)
                return;
        source = operation->follow->source;
        DL_DELETE2(source->followers, operation, follower_prev, follower_next);
        operation->follower_prev = NULL;
        atomic_fetch_sub(&source->n_followers, 1);
}

void operation_bump(struct operation *operation, struct deferred_actions *deferred)
{
        struct operation_waiter *waiter, *next;

        operation->revision++;
        DL_FOREACH_SAFE2 (operation->waiters, waiter, next, next) {
                if (!operation_wakes(operation, waiter, waiter->revision))
                        continue;
                DL_DELETE2(operation->waiters, waiter, previous, next);
                waiter->operation = NULL;
                DL_APPEND2(deferred->woken, waiter, previous, next);
                metric_add(operation->store->metrics.waits, -1);
        }
}

/* The read has ended: its followers have all their bytes, or end as well. */
static void operation_end_followers(struct operation *operation, struct deferred_actions *deferred)
{
        struct operation_store *store = operation->store;
        struct operation *follower;
        char id[FERRY_ID_TEXT_SIZE], detail[OPERATION_DETAIL_SIZE];

        (void)pthread_mutex_lock(&store->arrival_lock);
        if (operation->arrived)
                operation->prefix = content_ranges_run(operation->arrived, 0);
        free(FERRY_STEAL(operation->arrived));
        (void)pthread_mutex_unlock(&store->arrival_lock);
        while ((follower = operation->followers)) {
                operation_leave_source(follower);
                if (operation->state == OPERATION_COMPLETE) {
                        deferred->held_reads_due = true;
                        if (follower->has_waiting_request)
                                operation_bump(follower, deferred);
                        continue;
                }
                ferry_id_format("op_", operation->id, id);
                (void)snprintf(detail, sizeof(detail), "The read that it follows, %s, ended: %.90s", id,
                               operation_detail(operation));
                detail_set(follower, detail);
                operation_stop(follower, operation->error, deferred);
        }
}

void operation_bump_often(struct operation *operation, struct deferred_actions *deferred)
{
        uint64_t now = clock_now_us();

        operation_bump(operation, deferred);
        if (now < operation->told_us + OPERATION_PROGRESS_US)
                return;
        operation->told_us = now;
        deferred->moved = operation;
}

/* Regions count as unused before the status is visible: a client that sees it may delete them. */
static void operation_entered_terminal(struct operation *operation, struct deferred_actions *deferred)
{
        struct operation_store *store = operation->store;

        operation->ended_us = clock_now_us();
        operation->ended_unix_ms = clock_unix_ms();
        deadline_disarm(operation);
        operation_pins_unuse(operation->pins);
        operation_metrics_ended(&store->metrics, operation);
        operation_leave_source(operation);
        operation_end_followers(operation, deferred);
        operation->ended_next = deferred->ended;
        deferred->ended = operation_ref(operation);

        store->n_live--;
        if (operation->deleted)
                store_count_pieces(store, operation, false);
        if (!store->n_live && store->drained) {
                deferred->drained = FERRY_STEAL(store->drained);
                deferred->drained_context = store->drained_context;
        }
        if (!operation->deleted)
                retention_keep(operation);
}

/* Its first transfer has started: users see it IN_PROGRESS, be it for a moment. */
static void operation_entered_started(struct operation *operation, struct deferred_actions *deferred)
{
        operation_metrics_move(&operation->store->metrics, operation->kind, FERRY_INITIALIZED, FERRY_IN_PROGRESS);
        operation_bump(operation, deferred);
        operation->started_us = operation->told_us = clock_now_us();
        atomic_store(&operation->bumped_us, operation->started_us);
        atomic_store(&operation->untold, true);
        operation->started_next = deferred->started;
        deferred->started = operation_ref(operation);
}

void operation_set_state(struct operation *operation, enum operation_state state, struct deferred_actions *deferred)
{
        enum ferry_status from, status;

        state_check("operation", states, operation->state, state);
        /* All bytes may have moved before the start is reported. */
        if ((state == OPERATION_RUNNING || state == OPERATION_COMPLETE) && !operation->started_us)
                operation_entered_started(operation, deferred);
        from = operation_status(operation);
        operation->state = state;
        status = operation_status(operation);
        if (status == from)
                return;
        operation_metrics_move(&operation->store->metrics, operation->kind, from,
                               operation_terminal(operation) && operation->deleted ? FERRY_UNINITIALIZED : status);
        operation_bump(operation, deferred); /* its waiters before those of its followers */
        if (operation_terminal(operation))
                operation_entered_terminal(operation, deferred);
        else if (state == OPERATION_WAITING)
                deferred->made = operation;
}

/* The terminal state that goes with an error. A client's cancel counts as one, whatever the transfer ended with. */
static enum operation_state state_of_error(const struct operation *operation, int error)
{
        switch (error) {
        case 0:
                return OPERATION_COMPLETE;
        case FERRY_E_CANCELLED:
        case FERRY_E_CANCELLED_BY_PEER:
        case FERRY_E_EXPIRED:
        case FERRY_E_DECLINED:
                return OPERATION_CANCELLED;
        default:
                return operation->stop_reason == FERRY_E_CANCELLED ? OPERATION_CANCELLED : OPERATION_ERRORED;
        }
}

void operation_finish(struct operation *operation, int error, const char *detail, struct deferred_actions *deferred)
{
        if (operation_terminal(operation))
                return;
        operation->error = error;
        if (error && detail[0])
                detail_set(operation, detail);
        operation_set_state(operation, state_of_error(operation, error), deferred);
}

/* store_unlock tells the data plane (data_plane_tell). */
static void stop_later(struct operation *operation, struct deferred_actions *deferred)
{
        operation->stopping_next = deferred->stopping;
        deferred->stopping = operation_ref(operation);
}

void operation_stop_if_due(struct operation *operation, struct deferred_actions *deferred)
{
        if (!operation->stop_reason ||
            (operation->state != OPERATION_CONNECTING && operation->state != OPERATION_RUNNING))
                return;
        operation_set_state(operation, OPERATION_STOPPING, deferred);
        deadline_disarm(operation);
        stop_later(operation, deferred);
}

void operation_stop(struct operation *operation, int reason, struct deferred_actions *deferred)
{
        const bool asked = reason == FERRY_E_CANCELLED && operation->stop_reason != FERRY_E_CANCELLED;

        if (operation_terminal(operation))
                return;
        if (asked || !operation->stop_reason)
                operation->stop_reason = reason;
        if (!operation->n_active) {
                operation_finish(operation, reason, "", deferred);
                if (operation->own) /* its peer's metadata may be under way */
                        stop_later(operation, deferred);
                return;
        }
        operation_stop_if_due(operation, deferred);
        if (asked)
                operation_bump(operation, deferred);
}

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
