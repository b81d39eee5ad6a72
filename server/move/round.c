/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/clock.h"
#include "command.h"
#include "connect.h"
#include "engine_internal.h"
#include "peer.h"
#include "requester.h"
#include "resolver.h"
#include "responder.h"
#include "session.h"

/*
 * One round of the engine: commands, steps, messages, steps, deadlines, steps, then the waiters of operations.
 * The order keeps latency low: what a command has begun is sent before the transports are asked for messages, and
 * threads are woken after all messages are sent, since a woken thread may take this core.
 *
 * Thread: the holder of the progress lock: thread.c, or progress_lock.c for a transfer that runs inline. A round that
 * moved nothing returns false; its caller decides whether to spin or to sleep, at most until round_deadline().
 */

/* ---- commands ---- */

void round_deregister_memory(struct engine *engine, struct memory *memory)
{
        for (size_t i = 0; i < engine->n_transports; i++)
                engine->transports[i]->ops->deregister_memory(engine->transports[i], memory);
}

static void cancel(struct engine *engine, const struct command *command)
{
        struct requester *r = requester_find(engine, command->id);

        if (r)
                requester_cancel(r, command->reason, "");
}

/* A search through all responders: one operation may have many of them, and a revocation is rare. */
static void revoke(struct engine *engine, const struct command *command)
{
        struct responder *r, *next;

        HASH_ITER (hh, engine->responders_by_transfer, r, next)
                if (r->request.operation == command->id)
                        responder_fail(r, command->reason, command->wire_reason, "");
}

/* Lets all that wait for a name ask again; resolver_ask() has the result until resolution_end(). */
static void resolved(struct engine *engine, struct resolution *resolution)
{
        struct requester *r, *next;

        resolution_begin(resolution);
        HASH_ITER (hh, engine->requesters_by_id, r, next)
                requester_resolved(r);
        connect_requests_resolved(engine);
        resolution_end(engine, resolution);
}

/* Ends all that is under way. Nothing new begins from now on; thread.c waits for the end, for grace_us at most. */
static void stop(struct engine *engine)
{
        static const char detail[] = "the worker is shutting down";
        struct requester *q, *q_next;
        struct responder *p, *p_next;

        engine->stopping = true;
        engine->stop_deadline_us = clock_now_us() + engine->grace_us;
        connect_requests_cancel(engine);
        HASH_ITER (hh, engine->requesters_by_id, q, q_next)
                requester_cancel(q, FERRY_E_CANCELLED, detail);
        HASH_ITER (hh, engine->responders_by_transfer, p, p_next)
                responder_fail(p, FERRY_E_CANCELLED, FERRY_E_CANCELLED_BY_PEER, detail);
}

static void run_command(struct engine *engine, const struct command *command)
{
        switch (command->type) {
        case COMMAND_START:
                requester_begin(command->requester);
                break;
        case COMMAND_CONNECT:
                connect_request_begin(engine, command->connect);
                break;
        case COMMAND_CANCEL:
                cancel(engine, command);
                break;
        case COMMAND_REVOKE:
                revoke(engine, command);
                break;
        case COMMAND_DEREGISTER:
                round_deregister_memory(engine, command->memory);
                break;
        case COMMAND_RESOLVED:
                resolved(engine, command->resolution);
                break;
        case COMMAND_LIST_PEERS:
                peers_list(engine, command->page);
                break;
        case COMMAND_NOTE_HTTP:
                peer_note_http(engine, command->note);
                free(command->note);
                break;
        case COMMAND_STOP:
                stop(engine);
                break;
        }
}

static bool run_commands(struct engine *engine)
{
        const struct command_queue *queue = commands_take(engine);

        for (size_t i = 0; i < queue->n; i++) {
                run_command(engine, &queue->all[i]);
                command_finish(engine, &queue->all[i]);
        }
        return queue->n > 0;
}

/* ---- the round ---- */

/*
 * Lets each transport take events and send. shared tells it whether several transfers run, so that none delays the
 * messages of the others for long.
 */
static bool run_transports(struct engine *engine)
{
        const bool shared = HASH_COUNT(engine->requesters_by_id) + HASH_COUNT(engine->responders_by_transfer) > 1;
        bool any = false;

        for (size_t i = 0; i < engine->n_transports; i++) {
                engine->transports[i]->shared = shared;
                any |= engine->transports[i]->ops->progress(engine->transports[i]);
        }
        return any;
}

/* Sends over links that may have room again: answers first, since requesters elsewhere wait for them. */
static bool run_sessions(struct engine *engine)
{
        struct session *session;
        bool any = false;

        while ((session = engine->ready_sessions)) {
                DL_DELETE2(engine->ready_sessions, session, ready_prev, ready_next);
                session->ready = false;
                any = true;
                if (!session_is_usable(session))
                        continue;
                responders_send(session);
                requesters_send(session);
        }
        return any;
}

/* Takes steps until none is left: a step may mark others, and sending may. */
static bool run_steps(struct engine *engine)
{
        bool any = false, more;

        do {
                more = requesters_step(engine);
                more |= responders_step(engine);
                more |= run_sessions(engine);
                any |= more;
        } while (more && !atomic_load(&engine->commands_waiting)); /* a cancel waits for nothing but what is begun */
        return any;
}

/*
 * Looks at the deadlines of all transfers, at least once in ENGINE_TICK_MS while one runs. Each puts its next deadline
 * into tick_us again (engine_tick_before).
 */
static void tick(struct engine *engine, uint64_t now_us)
{
        struct requester *q, *q_next;
        struct responder *p, *p_next;

        if (now_us < engine->tick_us)
                return;
        engine->tick_us = now_us + ENGINE_TICK_MS * UINT64_C(1000);
        HASH_ITER (hh, engine->requesters_by_id, q, q_next)
                requester_tick(q, now_us);
        HASH_ITER (hh, engine->responders_by_transfer, p, p_next)
                responder_tick(p, now_us);
        connect_requests_tick(engine, now_us);
        sessions_close_idle(engine, now_us);
}

static void wake_waiters(struct engine *engine)
{
        if (!engine->wake_due)
                return;
        engine->wake_due = false;
        if (engine->operations.wake_waiters)
                engine->operations.wake_waiters(engine->operations.context);
}

bool round_run(struct engine *engine, uint64_t *ret_now_us)
{
        bool moved = run_commands(engine);

        if (atomic_exchange(&engine->held_reads_due, false))
                responders_retry_held(engine);
        moved |= run_steps(engine); /* first send what commands have started */
        moved |= run_transports(engine);
        moved |= run_steps(engine);
        sessions_sweep(engine);
        *ret_now_us = clock_now_us();
        tick(engine, *ret_now_us);
        moved |= run_steps(engine);
        wake_waiters(engine); /* after the messages are sent: a woken thread may take this core */
        return moved;
}

bool round_is_moving(const struct engine *engine)
{
        return engine->requesters_by_id || engine->responders_by_transfer || engine->connect_requests;
}

bool round_is_pending(const struct engine *engine)
{
        return engine->sessions_ended || engine->ready_sessions || engine->marked_requesters ||
               engine->marked_responders;
}

uint64_t round_deadline(const struct engine *engine, uint64_t now_us)
{
        uint64_t deadline_us = UINT64_MAX;

        if (round_is_moving(engine))
                deadline_us = engine->tick_us;
        else if (engine->sessions_by_address)
                deadline_us = now_us + ENGINE_IDLE_US;
        for (size_t i = 0; i < engine->n_transports; i++) {
                uint64_t theirs = engine->transports[i]->ops->deadline(engine->transports[i]);

                deadline_us = theirs < deadline_us ? theirs : deadline_us;
        }
        return deadline_us > now_us ? deadline_us : now_us;
}
