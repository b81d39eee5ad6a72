/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/metrics.h"
#include "base/space.h"
#include "base/state.h"
#include "base/util.h"
#include "engine_internal.h"
#include "responder.h"

/*
 * Tombstones: how the last ended transfers of peers have ended, for messages that come late or again. 128 lists of 8
 * take the place of a hash table with an age: they never grow, and a transfer is forgotten by those that came after it.
 * Thread: the holder of the progress lock.
 */

/*
 * Transfers are named at random, so a short list for each remainder will do, in which the newest takes the place of the
 * oldest. With a single place each, one in a thousand would be gone at once.
 */
void tombstone_add(struct engine *engine, uint64_t transfer, int wire_error)
{
        struct tombstone *list = engine->tombstones[transfer % ENGINE_TOMBSTONE_LISTS];

        memmove(list + 1, list, (ENGINE_TOMBSTONE_LIST - 1) * sizeof(*list));
        *list = (struct tombstone){ .transfer = transfer, .wire_error = wire_error };
}

const struct tombstone *tombstone_find(struct engine *engine, uint64_t transfer)
{
        const struct tombstone *list = engine->tombstones[transfer % ENGINE_TOMBSTONE_LISTS];

        for (size_t i = 0; i < ENGINE_TOMBSTONE_LIST; i++)
                if (list[i].transfer == transfer)
                        return &list[i]; /* the newest of that name */
        return NULL;
}

/*
 * A responder's states, and what its files share: answers, progress, and failure. The
 * table is the contract; scripts/draw-states makes the diagram in the README from it.
 *
 * Thread: the holder of the progress lock.
 */

static const struct state_row states[] = {
        [RESPONDER_SERVING] = { "SERVING", STATE_BIT(RESPONDER_SERVED) | STATE_BIT(RESPONDER_COMPLETE) |
                                                   STATE_BIT(RESPONDER_FAILING) },
        [RESPONDER_SERVED] = { "SERVED", STATE_BIT(RESPONDER_SERVING) | STATE_BIT(RESPONDER_COMPLETE) |
                                                 STATE_BIT(RESPONDER_FAILING) },
        [RESPONDER_COMPLETE] = { "COMPLETE", STATE_BIT(RESPONDER_ENDED) },
        [RESPONDER_FAILING] = { "FAILING", STATE_BIT(RESPONDER_COMPLETE) | STATE_BIT(RESPONDER_ENDED) },
        [RESPONDER_ENDED] = { "ENDED", 0 },
};

void responder_set_state(struct responder *r, enum responder_state state)
{
        if (r->state == state)
                return;
        state_check("responder", states, r->state, state);
        r->state = state;
}

void responder_mark(struct responder *r)
{
        if (r->marked)
                return;
        r->marked = true;
        DL_APPEND2(r->session->engine->marked_responders, r, marked_prev, marked_next);
}

struct responder *responder_find(struct engine *engine, uint64_t transfer)
{
        struct responder *r;

        HASH_FIND(hh, engine->responders_by_transfer, &transfer, sizeof(transfer), r);
        return r;
}

/* ---- answers ---- */

void responder_refuse(struct session *session, const struct wire_header *request, enum wire_type type, int status)
{
        metric_add(session->engine->metric_refused, 1);
        session_answer(session, request, type, 0, status);
}

/* ---- progress ---- */

void responder_note_message(struct responder *r, const struct message *message, enum message_result result)
{
        r->gpu_path = gpu_path_worse(r->gpu_path, message->gpu_path);
        if (result == MESSAGE_NO_MEMORY || result == MESSAGE_FAULT)
                responder_fail(r, FERRY_E_TRANSFER_FAILED, FERRY_E_TRANSFER_FAILED,
                               space_error(result == MESSAGE_FAULT ? message->fault : -ENOMEM));
}

void responder_report_progress(struct responder *r)
{
        uint64_t bytes = at_most(r->bytes + r->copying, r->request.total);

        r->reported = at_least(r->reported, bytes);
        r->claim.progress(r->claim.context, bytes);
}

void responder_count_copied(struct message *message)
{
        struct responder *r = message->owner;

        r->copying += session_count_copied(r->session, message);
        responder_report_progress(r);
}

void responder_add_progress(struct responder *r, uint64_t bytes)
{
        r->bytes = at_most(r->bytes + bytes, r->request.total);
        session_note_moved(r->session, bytes);
        responder_report_progress(r);
}

void responder_set_held(struct responder *r, bool held)
{
        if (r->held == held)
                return;
        r->held = held;
        if (held)
                DL_APPEND2(r->session->engine->held_responders, r, held_prev, held_next);
        else
                DL_DELETE2(r->session->engine->held_responders, r, held_prev, held_next);
}

void responder_send_held(struct responder *r, uint32_t seq)
{
        struct wire_header h = answer_header(&r->request, WIRE_HELLO_ACK);

        r->held_us = clock_now_us();
        h.seq = seq;
        session_send(r->session, &h);
}

void responder_stop_pending(struct responder *r)
{
        responder_set_held(r, false);
        if (!r->pending)
                return;
        r->pending = false;
        DL_DELETE2(r->session->pending, r, pending_prev, pending_next);
}

/* ---- failing ---- */

void responder_fail(struct responder *r, int error, int wire_error, const char *detail)
{
        if (r->error || r->state == RESPONDER_COMPLETE || r->state == RESPONDER_ENDED)
                return;
        r->error = error;
        r->wire_error = wire_error;
        (void)text_copy(r->detail, sizeof(r->detail), detail);
        r->grace_deadline_us = engine_grace(r->session->engine);
        r->n_reads = 0;
        responder_stop_pending(r);
        if (r->state == RESPONDER_SERVING) /* else DONE decides, the end of the one message, or the grace time */
                responder_set_state(r, RESPONDER_FAILING);
        if (session_is_usable(r->session))
                r->session->link->transport->ops->cancel(r->session->link, r->request.transfer);
        responder_mark(r);
}
