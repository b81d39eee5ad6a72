/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/log.h"
#include "base/metrics.h"
#include "base/util.h"
#include "connect.h"
#include "engine_internal.h"
#include "peer.h"
#include "requester.h"
#include "responder.h"
#include "session.h"

/*
 * Reports of the transports: messages, links that peers open, links that have ended, and room on a link. Each message
 * goes to its handler by one table of types. A message for another epoch, most likely that of an earlier worker at this
 * address, is refused here, so that no handler sees it.
 *
 * Thread: the holder of the progress lock, inside a transport's progress(). The first message over a link names the
 * worker at its other end (note_peer); until then the session of a link that a peer opened has no peer.
 */

/* The answer to a HELLO, or the notice that READs of a transfer are held. */
static void on_hello_ack(struct session *session, const struct wire_header *header, struct payload *payload)
{
        requester_on_held(session, header);
        connect_on_answer(session, header, payload);
}

/* The handler of each type of message, and the answer to one that was meant for another worker. */
static const struct {
        void (*handle)(struct session *session, const struct wire_header *header, struct payload *payload);
        enum wire_type refusal; /* 0 = the message is an answer: dropped */
} types[WIRE_TYPE_END] = {
        [WIRE_READ] = { responder_on_read, WIRE_DATA },          [WIRE_DATA] = { requester_on_data, 0 },
        [WIRE_WRITE] = { responder_on_write, WIRE_ACK },         [WIRE_ACK] = { requester_on_ack, 0 },
        [WIRE_DONE] = { responder_on_done, WIRE_DONE_ACK },      [WIRE_DONE_ACK] = { requester_on_done_ack, 0 },
        [WIRE_HELLO] = { connect_on_hello, WIRE_HELLO_ACK },     [WIRE_HELLO_ACK] = { on_hello_ack, 0 },
        [WIRE_DECLINE] = { connect_on_notice, WIRE_NOTICE_ACK }, [WIRE_RENEW] = { connect_on_notice, WIRE_NOTICE_ACK },
        [WIRE_PARTS] = { responder_on_parts, WIRE_DONE_ACK },    [WIRE_NOTICE_ACK] = { connect_on_answer, 0 },
};

/* Notes the worker at the other end; another one may have started at the same address. */
static void note_peer(struct session *session, uint64_t epoch)
{
        if (session->peer && session->peer->view.epoch == epoch)
                return;
        peer_remove_link(session, FERRY_E_STALE_METADATA, "another worker answers at its address");
        peer_add_link(peer_get(session->engine, &(struct engine_peer){ .epoch = epoch }), session);
}

/* Notes the name in a HELLO, unless it is known from metadata or HTTP; an invalid one is ignored. */
static void note_name(struct session *session, const struct wire_header *header, const struct payload *payload)
{
        struct peer *peer = session->peer;
        char name[FERRY_METADATA_NAME_SIZE];

        if (!peer || peer->view.name[0])
                return;
        if (header->type != WIRE_HELLO || !payload->bytes || payload->length >= sizeof(name))
                return;
        memcpy(name, payload->bytes, payload->length);
        name[payload->length] = '\0';
        if (ferry_metadata_is_name(name))
                memcpy(peer->view.name, name, payload->length + 1);
}

/*
 * The link works: the peer and the observer hear of it, then the requesters, which may have waited for its carrier.
 * Called once for each link, at the first message of the peer or, of a link that was opened here, when it can send.
 */
static void came_up(struct session *session)
{
        struct requester *r, *next;

        session->up = true;
        peer_link_up(session->peer, session);
        peer_notify(session->engine, session->peer);
        DL_FOREACH_SAFE2 (session->requesters, r, next, session_next)
                requester_link_up(r);
}

/*
 * Only a session whose link is usable still is served: a transport may report messages that came before the link
 * failed.
 */
static void on_message(void *context, struct link *link, const struct wire_header *header, struct payload *payload)
{
        struct engine *engine = context;
        struct session *session = link->owner;

        if (!session || !link_is_usable(link))
                return;
        if (!session->up) {
                note_peer(session, header->from_epoch);
                note_name(session, header, payload);
                came_up(session);
        }
        if (header->to_epoch == engine->epoch)
                types[header->type].handle(session, header, payload);
        else if (types[header->type]
                         .refusal) /* it was for another worker, most likely an earlier one at this address */
                session_answer(session, header, types[header->type].refusal, 0, FERRY_E_STALE_METADATA);
}

/*
 * A peer has opened a link. Returns false, upon which the transport closes it, when the worker is stopping, max_links
 * are open, or memory is short.
 */
static bool on_accepted(void *context, struct link *link)
{
        struct engine *engine = context;

        if (engine->stopping)
                return false;
        if (engine->n_accepted >= engine->max_links) {
                log_event(LOG_WARN, "link refused", LOG_S("reason", "too many links are open"),
                          LOG_S("transport", link->transport->name), LOG_U("limit", engine->max_links));
                return false;
        }
        if (!session_new(engine, link))
                return false;
        engine->n_accepted++;
        return true;
}

/*
 * The link has ended, and no transport touches the memory of its transfers any more. The session stays until its last
 * transfer has ended, sessions_sweep() frees it then. A link has no session where memory was short as it was opened.
 */
static void on_ended(void *context, struct link *link)
{
        struct engine *engine = context;
        struct session *session = link->owner;
        struct requester *q, *q_next;
        struct responder *p, *p_next;
        bool busy;

        if (!session) {
                link_free(link);
                return;
        }
        busy = session_is_busy(session);
        log_event(busy ? LOG_INFO : LOG_DEBUG, "link ended", LOG_S("transport", link->transport->name),
                  LOG_S("error", ferry_error_code(link->error)), LOG_S("reason", link->detail));
        if (busy)
                metric_add(engine->metric_failures, 1);
        session_unindex(session);
        peer_remove_link(session, session->unused ? 0 : link->error, link->detail);
        engine->sessions_ended = true;
        DL_FOREACH_SAFE2 (session->requesters, q, q_next, session_next)
                requester_link_ended(q, link->error, link->detail);
        DL_FOREACH_SAFE2 (session->responders, p, p_next, session_next)
                responder_link_ended(p, link->error, link->detail);
        connect_requests_link_ended(session, link->detail);
}

/* The link can send: it has come up, or its queue has become shorter. */
static void on_room(void *context, struct link *link)
{
        struct session *session = link->owner;

        if (!session)
                return;
        if (!session->up && link->state == LINK_UP &&
            !link->accepted) /* of an accepted link the peer's HELLO names the worker */
                came_up(session);
        session_ready(session);
}

struct transport_handlers message_handlers(struct engine *engine)
{
        return (struct transport_handlers){
                .context = engine,
                .message = on_message,
                .accepted = on_accepted,
                .ended = on_ended,
                .room = on_room,
        };
}
