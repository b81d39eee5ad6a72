/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "connect.h"
#include "engine_internal.h"
#include "peer.h"
#include "requester.h"

/*
 * The active side of a transfer, from requester_begin() to end(). It takes a route, waits for the link where it has to,
 * requests chunks (requester_request.c) until all have moved, and tells the responder (DONE). A requester that fails
 * waits until no transport touches its memory, then ends; one that found no link is handed to HTTP with its whole
 * specification (route_take_http). Its states are in requester_state.c and in the README.
 *
 * Thread: the holder of the progress lock, but for requester_new(). Nothing ends inside a callback of a transport:
 * events mark the requester, step() does the rest.
 */

int requester_new(struct engine *engine, const struct engine_transfer *spec, struct requester **ret_requester)
{
        struct requester *r = calloc(1, sizeof(*r));
        int error;

        if (!r)
                return -ENOMEM;
        r->spec = *spec;
        r->engine = engine;
        error = stream_init(&r->stream, spec->segments, spec->n_segments);
        if (error == 0 && r->stream.total != spec->total)
                error = -EINVAL;
        if (error < 0) {
                requester_free(r);
                return error;
        }
        route_init(&r->route, &r->spec.peer);
        r->route.carriers = spec->carriers;
        *ret_requester = r;
        return 0;
}

void requester_free(struct requester *r)
{
        stream_clear(&r->stream);
        explicit_bzero(r->spec.key, sizeof(r->spec.key));
        free(r);
}

/* ---- beginning ---- */

/* Whether the link's carrier may not be allowed. UCX chooses it when it connects. */
static bool must_ask_carrier(const struct requester *r)
{
        unsigned carriers = r->spec.carriers & ENGINE_CARRIER_UCX;

        return r->spec.carriers != 0 && carriers != ENGINE_CARRIER_UCX && r->session->link->transport == r->engine->ucx;
}

/* The link may carry it: says the parts of the offer first, then lets the next step request chunks. */
static void start_moving(struct requester *r)
{
        requester_set_state(r, REQUESTER_MOVING);
        requester_name_parts(r);
        requester_mark(r);
}

void requester_link_up(struct requester *r)
{
        struct link *link = r->session->link;
        const char *carrier = link->transport->ops->carrier(link);

        if (r->next > 0 && r->error == 0)
                requester_note_started(r); /* the chunks requested while it was connecting are being moved */
        if (r->state != REQUESTER_ROUTING)
                return; /* it did not wait for the carrier */
        if (!(r->spec.carriers & (strcmp(carrier, "tcp") == 0 ? ENGINE_CARRIER_TCP : ENGINE_CARRIER_RDMA))) {
                r->accord = REQUESTER_TOLD;
                requester_fail(r, FERRY_E_PEER_UNREACHABLE,
                               "UCX carries this link by %s, which \"transports\" does not allow", carrier);
                return;
        }
        start_moving(r);
}

/* A name or a silent link may have used up the time to connect. */
static void leave_time_to_connect(struct requester *r)
{
        r->connect_deadline_us =
                at_least(r->connect_deadline_us, clock_now_us() + ENGINE_RECONNECT_MS * UINT64_C(1000));
}

/*
 * Puts the requester on a link, which may be connecting still: the first chunks are queued there and leave when it is
 * up.
 */
static void use_session(struct requester *r, struct session *session)
{
        r->session = session;
        r->was_up = session->link->state == LINK_UP;
        DL_APPEND2(session->requesters, r, session_prev, session_next);
        session->n_transfers++;
        if (!session->greeted)
                session_send_hello(session, r->spec.peer.epoch, random_id());
        if (!r->was_up) {
                leave_time_to_connect(r);
                engine_tick_before(r->engine, r->connect_deadline_us);
        }
        if (!must_ask_carrier(r))
                start_moving(r);
        else if (r->was_up)
                requester_link_up(r);
}

/* Tries the paths that route_take() has left out because they failed, now that their pause is over. */
static void start_probes(struct requester *r)
{
        for (size_t i = 0; i < r->engine->n_transports; i++)
                if (r->route.probes & (1u << i))
                        connect_probe(r->engine, &r->route, r->engine->transports[i]);
        r->route.probes = 0;
}

/* Asks for a link. Called again when a name was resolved, and once more when an idle link turns out to be dead. */
static void take_route(struct requester *r)
{
        char reason[sizeof(r->detail)];
        struct session *session = route_take(r->engine, &r->route, reason, sizeof(reason));

        if (session)
                use_session(r, session);
        else if (reason[0])
                requester_fail(r, FERRY_E_PEER_UNREACHABLE, "%s", reason);
        else
                engine_tick_before(r->engine, r->connect_deadline_us);
        start_probes(r);
}

void requester_begin(struct requester *r)
{
        r->connect_deadline_us = clock_now_us() + route_begin(r->engine, &r->route);
        HASH_ADD(hh, r->engine->requesters_by_id, spec.id, sizeof(r->spec.id), r);
        if (!r->hh.tbl)
                requester_fail(r, FERRY_E_TRANSFER_FAILED, "out of memory");
        else
                take_route(r);
}

void requester_resolved(struct requester *r)
{
        if (r->state == REQUESTER_ROUTING && !r->session)
                take_route(r);
}

/* ---- events ---- */

void requester_cancel(struct requester *r, int reason, const char *detail)
{
        if (r->state != REQUESTER_FINISHING) {
                requester_fail(r, reason, "%s", detail);
        } else if (r->error == 0) {
                /* The peer decides whether the cancel came in time; the grace time bounds the wait. */
                r->error = reason;
                (void)text_copy(r->detail, sizeof(r->detail), detail);
                r->grace_deadline_us = engine_grace(r->engine);
        }
}

/* Leaves the link, which no transport uses for it any more. Takes a requester without a peer. */
static void leave_session(struct requester *r)
{
        if (!r->session)
                return;
        requester_dequeue(r);
        (void)requester_release_idle(r);
        DL_DELETE2(r->session->requesters, r, session_prev, session_next);
        r->session->n_transfers--;
        session_released(r->session);
        r->session = NULL;
}

/*
 * An idle link may have been cut unnoticed. Tries a new one, once, if not a byte has moved over the old: the responder
 * then sees the same transfer id again, and knows a repeated request by it. Returns false when that is no way out; the
 * requester is as it was.
 */
static bool try_again(struct requester *r)
{
        if (!r->was_up || r->retried || r->error || r->state != REQUESTER_MOVING || r->reported > 0 ||
            r->session->link->transport != r->engine->ucx)
                return false;
        leave_session(r);
        r->retried = true;
        r->next = 0;
        leave_time_to_connect(r);
        requester_set_state(r, REQUESTER_ROUTING);
        take_route(r);
        return true;
}

static const char silent[] = "the peer's host no longer answers";

/*
 * DONE was sent, or one WRITE has carried all: the peer may be complete and can no longer say so, so the link's error
 * replaces any reason of this worker.
 */
static void lose_answer(struct requester *r, int error, const char *detail)
{
        if (r->state != REQUESTER_FINISHING && r->accord != REQUESTER_ASKS)
                return;
        r->error = error;
        (void)text_copy(r->detail, sizeof(r->detail), detail);
}

void requester_link_ended(struct requester *r, int error, const char *detail)
{
        if (r->state == REQUESTER_COMPLETE) {
                requester_mark(r);
                return;
        }
        if (try_again(r))
                return;
        if (r->retried && r->session->silent) { /* as the first link was: HTTP would find the host as silent */
                error = FERRY_E_PEER_LOST;
                detail = silent;
        }
        lose_answer(r, error, detail);
        if (r->accord == REQUESTER_WAITS)
                r->accord = REQUESTER_TELLS;
        requester_fail(r, error, "%s", detail);
}

/* No message has come over the link in time. Others that wait for a second link have more time left. */
static void end_unconnected(struct requester *r)
{
        if (r->retried && session_is_shared(r->session)) {
                lose_answer(r, FERRY_E_PEER_LOST, silent);
                r->accord = REQUESTER_TELLS;
                requester_fail(r, FERRY_E_PEER_LOST, "%s", silent);
        } else {
                r->session->silent = true;
                session_fail(r->session, FERRY_E_PEER_UNREACHABLE, "no answer within the connect time");
        }
}

void requester_tick(struct requester *r, uint64_t now_us)
{
        static const char unresolved[] = "its name was not resolved within the connect time";
        bool connecting = r->state == REQUESTER_ROUTING || (r->session && link_is_connecting(r->session->link));

        if (r->grace_deadline_us) {
                engine_tick_before(r->engine, r->grace_deadline_us > now_us ? r->grace_deadline_us : 0);
                if (now_us < r->grace_deadline_us)
                        return;
                r->grace_deadline_us = 0;
                if (r->session && r->session->link->state == LINK_UP)
                        lose_answer(r, FERRY_E_PEER_LOST, "the peer did not say whether the transfer is complete");
                if (r->accord != REQUESTER_TOLD)
                        r->accord = r->state == REQUESTER_FINISHING ? REQUESTER_TOLD : REQUESTER_TELLS;
                if (r->state == REQUESTER_FINISHING)
                        requester_set_state(r, REQUESTER_FAILING);
                if (!requester_release_idle(r))
                        session_fail(r->session, FERRY_E_PEER_LOST, "an ended transfer did not come to rest");
                requester_mark(r);
        } else if (connecting && r->connect_deadline_us) {
                engine_tick_before(r->engine, r->connect_deadline_us > now_us ? r->connect_deadline_us : 0);
                if (now_us < r->connect_deadline_us)
                        return;
                if (r->session) {
                        end_unconnected(r);
                } else {
                        route_timed_out(r->engine, &r->route, unresolved);
                        requester_fail(r, FERRY_E_PEER_UNREACHABLE, "%s", unresolved);
                }
        } else if (r->waiting && r->window.n_taken == 0 && r->session->moved_us + ENGINE_TICK_MS * 2000 > now_us) {
                requester_report_progress(r); /* not a stall: it waits while other transfers use the link */
        }
}

/* ---- steps ---- */

/* Ends the operation first: a message takes as long as all the rest. */
static void end(struct requester *r)
{
        struct engine *engine = r->engine;
        bool tell = r->session && session_is_usable(r->session) && r->accord != REQUESTER_TOLD;
        struct engine_outcome outcome = { 0 };

        if (r->state == REQUESTER_COMPLETE) {
                outcome.bytes = r->spec.total;
        } else {
                outcome.error = r->error;
                outcome.bytes = r->reported;
                (void)text_copy(outcome.detail, sizeof(outcome.detail), r->detail);
        }
        if (r->session && outcome.bytes > 0)
                session_name_transport(r->session, r->gpu_path, outcome.transport);
        if (r->session && !r->was_up)
                outcome.connect_us = r->session->link->connect_us;
        if (r->session)
                peer_count(r->session->peer, &outcome);
        requester_set_state(r, REQUESTER_ENDED);
        if (r->hh.tbl)
                HASH_DEL(engine->requesters_by_id, r);
        if (!route_take_http(engine, &r->route, &r->spec, &outcome)) {
                r->spec.ended(r->spec.context, &outcome);
                engine->wake_due = true;
        }
        if (tell)
                requester_send_done(r, WIRE_QUIET);
        leave_session(r);
        requester_free(r);
}

/* Ends it once no transport touches its memory, and tells the peer. */
static void end_when_quiet(struct requester *r)
{
        bool usable = r->session && session_is_usable(r->session);

        if (!requester_release_idle(r) || (r->session && r->session->link->state == LINK_FAILED)) {
                if (!r->grace_deadline_us) /* complete, but the peer does not release a lease */
                        r->grace_deadline_us = engine_grace(r->engine);
                return;
        }
        if (r->state == REQUESTER_FAILING && r->accord == REQUESTER_WAITS)
                return;
        if (r->state == REQUESTER_FAILING && r->accord == REQUESTER_ASKS && usable) {
                /* The one WRITE may have completed the operation: asks, so that both workers report the same. */
                requester_set_state(r, REQUESTER_FINISHING);
                requester_send_done(r, 0);
                return;
        }
        if (r->state == REQUESTER_FAILING && !r->session)
                lose_answer(r, FERRY_E_PEER_LOST, "the link ended, and no new one was made");
        end(r);
}

/*
 * Requests the first chunk at once if it is the whole transfer, in which case no other transfer has to wait for it;
 * else enqueues the requester to share the link's window. When all has moved, DONE says so.
 */
static void move(struct requester *r)
{
        if (r->next < r->spec.total) {
                bool at_once = r->next == 0 && r->spec.total <= WIRE_INLINE_MAX; /* inline in one message */

                if (at_once && requester_request_next(r) && r->next == r->spec.total)
                        return;
                if (!r->error)
                        requester_enqueue(r);
        } else if (r->done == r->spec.total) {
                requester_set_state(r, REQUESTER_FINISHING);
                requester_send_done(r, 0);
        }
}

static void step(struct requester *r)
{
        if (r->state == REQUESTER_COMPLETE || r->state == REQUESTER_FAILING)
                end_when_quiet(r);
        else if (r->state == REQUESTER_MOVING && session_is_usable(r->session))
                move(r);
}

bool requesters_step(struct engine *engine)
{
        struct requester *r;
        bool any = engine->marked_requesters != NULL;

        while ((r = engine->marked_requesters)) {
                DL_DELETE2(engine->marked_requesters, r, marked_prev, marked_next);
                r->marked = false;
                step(r);
        }
        return any;
}
