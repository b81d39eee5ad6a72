/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "content_ranges.h"
#include "operations_internal.h"

#define BIT(status) (1u << FERRY_##status)
#define ENDS (BIT(CANCELLED) | BIT(ERRORED))

/* The allowed transitions. Nothing leaves a terminal status. */
#define TRANSITIONS(X)                                                                                                 \
        X(UNINITIALIZED, BIT(INITIALIZED))                                                                             \
        X(INITIALIZED, BIT(IN_PROGRESS) | ENDS)                                                                        \
        X(IN_PROGRESS, BIT(COMPLETE) | ENDS)                                                                           \
        X(COMPLETE, 0)                                                                                                 \
        X(CANCELLED, 0)                                                                                                \
        X(ERRORED, 0)

static const unsigned transitions[FERRY_STATUS_COUNT] = {
#define X(from, to) [FERRY_##from] = (to),
        TRANSITIONS(X)
#undef X
};

#define X(from, to) +1
_Static_assert(0 TRANSITIONS(X) == FERRY_STATUS_COUNT, "every status has its row of transitions");
#undef X

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

        atomic_store(&operation->filled, operation->status == FERRY_COMPLETE);
        (void)pthread_mutex_lock(&store->arrival_lock);
        if (operation->arrived)
                operation->prefix = content_ranges_run(operation->arrived, 0);
        free(FERRY_STEAL(operation->arrived));
        (void)pthread_mutex_unlock(&store->arrival_lock);
        while ((follower = operation->followers)) {
                operation_leave_source(follower);
                if (operation->status == FERRY_COMPLETE) {
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

bool operation_set_status(struct operation *operation, enum ferry_status status, struct deferred_actions *deferred)
{
        struct operation_store *store = operation->store;
        enum ferry_status from = operation->status;
        bool terminal = ferry_status_is_terminal((int)status);

        if (!(transitions[from] & (1u << status))) {
                log_event(LOG_ERROR, "forbidden state change", LOG_S("of", "operation"),
                          LOG_S("from", ferry_status_name((int)from)), LOG_S("to", ferry_status_name((int)status)));
                return false;
        }
        operation->status = status;
        operation_metrics_move(&store->metrics, operation->kind, from,
                               terminal && operation->deleted ? FERRY_UNINITIALIZED : status);
        operation_bump(operation, deferred); /* its waiters before those of its followers */
        if (terminal) {
                operation_entered_terminal(operation, deferred);
        } else if (status == FERRY_INITIALIZED) {
                deferred->made = operation;
        } else {
                operation->started_us = operation->told_us = clock_now_us();
                atomic_store(&operation->bumped_us, operation->started_us);
                atomic_store(&operation->untold, true);
                operation->started_next = deferred->started;
                deferred->started = operation_ref(operation);
        }
        return true;
}

static enum ferry_status status_of_error(const struct operation *operation, int error)
{
        switch (error) {
        case 0:
                return FERRY_COMPLETE;
        case FERRY_E_CANCELLED:
        case FERRY_E_CANCELLED_BY_PEER:
        case FERRY_E_EXPIRED:
        case FERRY_E_DECLINED:
                return FERRY_CANCELLED;
        default:
                return operation->cancel_requested ? FERRY_CANCELLED : FERRY_ERRORED;
        }
}

void operation_finish(struct operation *operation, int error, const char *detail, struct deferred_actions *deferred)
{
        if (operation_terminal(operation))
                return;
        operation->error = error;
        if (error && detail[0])
                detail_set(operation, detail);
        if (!error && operation->status == FERRY_INITIALIZED) /* every byte had moved before the start was reported */
                (void)operation_set_status(operation, FERRY_IN_PROGRESS, deferred);
        (void)operation_set_status(operation, status_of_error(operation, error), deferred);
}

static void stop_later(struct operation *operation, int reason, struct deferred_actions *deferred)
{
        operation->stop_reason = reason;
        if (operation->starting)
                return;
        operation->stopping_next = deferred->stopping;
        deferred->stopping = operation_ref(operation);
}

/* A transfer in flight is ended by the data plane, which store_unlock tells (data_plane_tell). */
void operation_stop(struct operation *operation, int reason, struct deferred_actions *deferred)
{
        bool asked = reason == FERRY_E_CANCELLED && !operation->cancel_requested;

        if (operation_terminal(operation))
                return;
        if (asked)
                operation->cancel_requested = true;
        if (!operation->n_active) {
                operation_finish(operation, reason, "", deferred);
                if (operation->own && !operation->begun) /* its metadata may be under way */
                        stop_later(operation, reason, deferred);
                return;
        }
        if (!operation->stop_reason) {
                deadline_disarm(operation);
                stop_later(operation, reason, deferred);
        }
        if (asked)
                operation_bump(operation, deferred);
}
