/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/space.h"
#include "base/state.h"
#include "base/util.h"
#include "engine_internal.h"
#include "requester.h"

/*
 * A requester's states, and what its files share: its messages' headers, progress, chunks and failure. The table is the
 * contract; scripts/draw-states makes the diagram in the README from it.
 *
 * Thread: the holder of the progress lock.
 */

static const struct state_row states[] = {
        [REQUESTER_ROUTING] = { "ROUTING", STATE_BIT(REQUESTER_MOVING) | STATE_BIT(REQUESTER_FAILING) },
        [REQUESTER_MOVING] = { "MOVING", STATE_BIT(REQUESTER_ROUTING) | STATE_BIT(REQUESTER_FINISHING) |
                                                 STATE_BIT(REQUESTER_COMPLETE) | STATE_BIT(REQUESTER_FAILING) },
        [REQUESTER_FINISHING] = { "FINISHING", STATE_BIT(REQUESTER_COMPLETE) | STATE_BIT(REQUESTER_FAILING) },
        [REQUESTER_COMPLETE] = { "COMPLETE", STATE_BIT(REQUESTER_ENDED) },
        [REQUESTER_FAILING] = { "FAILING", STATE_BIT(REQUESTER_FINISHING) | STATE_BIT(REQUESTER_COMPLETE) |
                                                   STATE_BIT(REQUESTER_ENDED) },
        [REQUESTER_ENDED] = { "ENDED", 0 },
};

void requester_set_state(struct requester *r, enum requester_state state)
{
        if (r->state == state)
                return;
        state_check("requester", states, r->state, state);
        r->state = state;
}

void requester_mark(struct requester *r)
{
        if (r->marked)
                return;
        r->marked = true;
        DL_APPEND2(r->engine->marked_requesters, r, marked_prev, marked_next);
}

struct requester *requester_find(struct engine *engine, uint64_t id)
{
        struct requester *r;

        HASH_FIND(hh, engine->requesters_by_id, &id, sizeof(id), r);
        return r;
}

/* ---- telling ---- */

struct wire_header requester_header(const struct requester *r, enum wire_type type)
{
        struct wire_header h = {
                .type = type,
                .to_epoch = r->spec.peer.epoch,
                .operation = r->spec.remote_operation,
                .transfer = r->spec.id,
                .total = r->spec.total,
                .whole = engine_transfer_whole(&r->spec),
        };

        memcpy(h.key, r->spec.key, sizeof(h.key));
        return h;
}

void requester_send_done(struct requester *r, uint16_t flags)
{
        struct wire_header h = requester_header(r, WIRE_DONE);

        h.flags = flags;
        h.status = (uint32_t)r->error;
        h.length = r->error ? r->done : r->spec.total;
        session_send(r->session, &h);
}

void requester_note_started(struct requester *r)
{
        if (r->started)
                return;
        r->started = true;
        if (r->spec.started)
                r->spec.started(r->spec.context);
        r->engine->wake_due = true;
}

void requester_note_message(struct requester *r, const struct message *message, enum message_result result)
{
        r->gpu_path = gpu_path_worse(r->gpu_path, message->gpu_path);
        if (result == MESSAGE_NO_MEMORY || result == MESSAGE_FAULT)
                requester_fail(r, FERRY_E_TRANSFER_FAILED, "%s",
                               space_error(result == MESSAGE_FAULT ? message->fault : -ENOMEM));
}

void requester_report_progress(struct requester *r)
{
        uint64_t bytes = r->done + r->copying;

        r->reported = at_least(r->reported, bytes);
        r->spec.progress(r->spec.context, bytes);
}

uint64_t requester_count_copied(struct message *message)
{
        struct requester *r = message->owner;
        uint64_t bytes = session_count_copied(r->session, message);

        r->copying += bytes;
        requester_report_progress(r);
        return bytes;
}

void requester_count_done(struct requester *r, uint64_t bytes)
{
        r->done += bytes;
        session_note_moved(r->session, bytes);
        requester_report_progress(r);
}

/* ---- chunks ---- */

/*
 * A chunk's name is its place in the window and a generation, so that a late answer to an earlier chunk in the same
 * place is not taken for its own.
 */
struct chunk *window_find(struct window *window, uint32_t seq)
{
        struct chunk *chunk = &window->chunks[seq % ENGINE_WINDOW_MAX];

        return chunk->length > 0 && chunk->seq == seq ? chunk : NULL;
}

struct chunk *requester_take_chunk(struct requester *r, uint64_t length)
{
        struct window *window = &r->window;
        uint32_t i = 0;

        if (window->n_taken == ENGINE_WINDOW_MAX)
                return NULL;
        while (window->chunks[i].length > 0)
                i++;
        window->chunks[i] = (struct chunk){ .seq = window->generation++ * ENGINE_WINDOW_MAX + i,
                                            .offset = r->next,
                                            .length = length };
        window->n_taken++;
        r->next += length;
        r->in_flight += length;
        r->session->requested += length;
        if (r->session->link->state == LINK_UP)
                requester_note_started(r);
        return &window->chunks[i];
}

void requester_dequeue(struct requester *r)
{
        if (!r->waiting)
                return;
        r->waiting = false;
        DL_DELETE2(r->session->waiting, r, waiting_prev, waiting_next);
}

void requester_enqueue(struct requester *r)
{
        if (!r->waiting) {
                r->waiting = true;
                DL_APPEND2(r->session->waiting, r, waiting_prev, waiting_next);
        }
        session_ready(r->session);
}

void requester_release_chunk(struct requester *r, struct chunk *chunk)
{
        r->in_flight -= chunk->length;
        r->session->requested -= chunk->length;
        r->copying -= chunk->copied;
        r->window.n_taken--;
        *chunk = (struct chunk){ 0 };
        if (r->session->waiting)
                session_ready(r->session);
}

/*
 * A chunk without a send or a receive may be freed at any time: its READ may still be answered, but data_begins()
 * refuses the bytes when they come, so nothing touches its memory any more.
 */
bool requester_release_idle(struct requester *r)
{
        for (size_t i = 0; i < ENGINE_WINDOW_MAX && r->window.n_taken > 0; i++)
                if (r->window.chunks[i].length > 0 && !chunk_is_busy(&r->window.chunks[i]))
                        requester_release_chunk(r, &r->window.chunks[i]);
        return r->window.n_taken == 0;
}

/* ---- failing ---- */

void requester_fail(struct requester *r, int error, const char *format, ...)
{
        if (r->state == REQUESTER_COMPLETE || r->state == REQUESTER_ENDED)
                return;
        if (r->error == 0) {
                va_list arguments;

                r->error = error;
                va_start(arguments, format);
                (void)vsnprintf(r->detail, sizeof(r->detail), format, arguments);
                va_end(arguments);
                r->grace_deadline_us = engine_grace(r->engine);
        }
        requester_set_state(r, REQUESTER_FAILING);
        if (r->session) {
                requester_dequeue(r);
                if (session_is_usable(r->session))
                        r->session->link->transport->ops->cancel(r->session->link, r->spec.id);
        }
        requester_mark(r);
}
