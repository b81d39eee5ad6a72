/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "base/util.h"
#include "mover_internal.h"

/*
 * The common part of both sides of a transfer over HTTP: its state, and how its begin and end are told to the engine
 * (for GET /v1/peers), to the operation and to the operation's waiters, in this order. With no lock held.
 */

void http_transfer_set_state(struct http_transfer *transfer, enum http_state state)
{
        assert(state > transfer->state);
        transfer->state = state;
}

void http_transfer_note(const struct http_transfer *transfer, const struct engine_outcome *outcome)
{
        struct engine_http_note note = { .epoch = transfer->peer_epoch,
                                         .transport = transfer->carrier,
                                         .accepted = transfer->accepted,
                                         .ended = outcome };

        (void)text_copy(note.name, sizeof(note.name), transfer->peer_name);
        if (outcome)
                note.outcome = *outcome;
        if (transfer->config->note)
                transfer->config->note(transfer->config->engine, &note);
}

void http_transfer_wake_waiters(const struct http_transfer *transfer)
{
        if (transfer->config->wake_waiters)
                transfer->config->wake_waiters(transfer->config->operations);
}

struct engine_outcome http_transfer_end(struct http_transfer *transfer, int error, uint64_t bytes, const char *detail)
{
        struct engine_outcome outcome = { .error = error, .bytes = bytes };

        if (transfer->state == HTTP_MOVING)
                (void)text_copy(outcome.transport, sizeof(outcome.transport), transfer->carrier);
        (void)text_copy(outcome.detail, sizeof(outcome.detail), detail);
        http_transfer_set_state(transfer, HTTP_OVER);
        return outcome;
}

void http_transfer_tell_end(const struct http_transfer *transfer, const struct engine_outcome *outcome,
                            void (*ended)(void *context, const struct engine_outcome *outcome), void *context)
{
        http_transfer_note(transfer, outcome);
        ended(context, outcome);
        http_transfer_wake_waiters(transfer);
}
