/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/util.h"
#include "engine_internal.h"

/*
 * Sessions: the engine's side of one link each, with the link's transfers. A session is made with its link, by the
 * route that opens one or when a transport accepts one; it owns the link, and sessions_sweep() frees both once the link
 * has ended and no transfer is left. Each side sends requests over links of its own and answers over those of the other
 * side: links of UCX that were opened here are in a table by address, and those of the local transport are found in the
 * peer.
 *
 * Thread: the holder of the progress lock.
 */

struct session *session_new(struct engine *engine, struct link *link)
{
        struct session *session = calloc(1, sizeof(*session));

        if (!session)
                return NULL;
        session->engine = engine;
        session->link = link;
        session->last_used_us = clock_now_us();
        link->owner = session;
        DL_APPEND(engine->all_sessions, session);
        metric_add(engine->metric_links[link->transport->index], 1);
        return session;
}

void session_index(struct session *session, const char *address)
{
        (void)text_copy(session->address, sizeof(session->address), address);
        HASH_ADD_STR(session->engine->sessions_by_address, address, session);
        if (!session->hh.tbl) /* no memory: the next transfer opens another link */
                session->address[0] = '\0';
}

void session_unindex(struct session *session)
{
        if (session->address[0])
                HASH_DEL(session->engine->sessions_by_address, session);
        session->address[0] = '\0';
}

struct session *session_find(struct engine *engine, const char *address)
{
        struct session *session;

        HASH_FIND_STR(engine->sessions_by_address, address, session);
        if (!session || session_is_usable(session))
                return session;
        session_unindex(session); /* the link is ending: the next transfer opens another one */
        return NULL;
}

/* Without a HELLO over UCX nothing else is sent: the link would wait for its answer. */
static void hello_sent(struct message *message, enum message_result result)
{
        struct session *session = message->link->owner;

        if (result == MESSAGE_NO_MEMORY && session)
                session_fail(session, FERRY_E_TRANSFER_FAILED, "out of memory");
}

struct message *session_message_new(struct session *session, const struct wire_header *header,
                                    const struct stream *stream, uint64_t offset, void *owner)
{
        struct message *message = message_new(session->link->transport);

        if (!message)
                return NULL;
        message->header = *header;
        message->stream = stream;
        message->offset = offset;
        message->length = stream ? header->length : 0;
        message->verify = stream && (header->flags & WIRE_VERIFY);
        message->owner = owner;
        message->transfer = header->transfer;
        return message;
}

void session_send_message(struct session *session, struct message *message)
{
        message->header.from_epoch = session->engine->epoch;
        session->link->transport->ops->send(session->link, message);
}

/*
 * Sends a header, with a payload that outlives the message, or NULL. Without memory the link fails, since a lost answer
 * would let the other side wait.
 */
static void send_with(struct session *session, const struct wire_header *header, const struct stream *payload)
{
        struct message *message;

        if (!session_is_usable(session))
                return;
        message = session_message_new(session, header, payload, 0, NULL);
        if (!message) {
                session_fail(session, FERRY_E_TRANSFER_FAILED, "out of memory");
                return;
        }
        message->transfer = 0; /* it waits for no payload of its transfer */
        message->done = header->type == WIRE_HELLO ? hello_sent : NULL;
        session_send_message(session, message);
}

void session_send(struct session *session, const struct wire_header *header)
{
        send_with(session, header, NULL);
}

struct wire_header answer_header(const struct wire_header *request, enum wire_type type)
{
        return (struct wire_header){
                .type = type,
                .to_epoch = request->from_epoch,
                .operation = request->operation,
                .transfer = request->transfer,
                .total = request->total,
                .whole = request->whole,
        };
}

void session_answer(struct session *session, const struct wire_header *request, enum wire_type type, uint16_t flags,
                    int status)
{
        struct wire_header h = answer_header(request, type);

        h.flags = flags;
        h.seq = request->seq;
        h.status = (uint32_t)status;
        h.offset = request->offset;
        h.length = request->length;
        session_send(session, &h);
}

int session_error(uint32_t status)
{
        switch (status) {
        case 0:
        case FERRY_E_SIZE_MISMATCH:
        case FERRY_E_KIND_MISMATCH:
        case FERRY_E_METADATA_EXPIRED:
        case FERRY_E_GONE:
        case FERRY_E_FORBIDDEN:
        case FERRY_E_LIMIT_REACHED:
        case FERRY_E_DRAINING:
        case FERRY_E_INTERNAL:
        case FERRY_E_PEER_LOST:
        case FERRY_E_STALE_METADATA:
        case FERRY_E_ALREADY_CLAIMED:
        case FERRY_E_CANCELLED_BY_PEER:
        case FERRY_E_EXPIRED:
        case FERRY_E_TIMEOUT:
        case FERRY_E_STALLED:
        case FERRY_E_CHECKSUM_MISMATCH:
        case FERRY_E_TRANSFER_FAILED:
        case FERRY_E_DECLINED:
                return (int)status;
        default:
                return FERRY_E_PEER_REFUSED;
        }
}

void session_send_hello(struct session *session, uint64_t to_epoch, uint64_t id)
{
        const struct stream *name = &session->engine->name_stream;
        const struct wire_header hello = {
                .type = WIRE_HELLO,
                .to_epoch = to_epoch,
                .operation = id, /* unused, but 0 is not allowed */
                .transfer = id,
                .length = name->total,
        };

        session->greeted = true;
        send_with(session, &hello, name);
}

void session_fail(struct session *session, int error, const char *detail)
{
        if (session_is_usable(session))
                session->link->transport->ops->fail(session->link, error, detail);
}

bool session_has_room(const struct session *session, uint64_t own, uint64_t in_flight)
{
        const struct transport_ops *ops = session->link->transport->ops;
        uint64_t window;

        if (!ops->window)
                return true;
        window = ops->window(session->link);
        return own + in_flight < 2 * window || (own == 0 && in_flight < SESSION_WINDOWS_MAX * window);
}

void session_ready(struct session *session)
{
        if (session->ready)
                return;
        session->ready = true;
        DL_APPEND2(session->engine->ready_sessions, session, ready_prev, ready_next);
}

/* The carrier may be cut to leave room for the suffix, which is "" for host memory. */
void session_name_transport(const struct session *session, enum gpu_path path, char text[ENGINE_TRANSPORT_SIZE])
{
        enum { SUFFIX_SIZE = 12 };
        size_t length = text_copy(text, ENGINE_TRANSPORT_SIZE - SUFFIX_SIZE + 1, session->link->carrier);

        (void)text_copy(text + length, SUFFIX_SIZE, gpu_path_name(path));
}

bool session_is_busy(const struct session *session)
{
        return session->n_transfers > 0 || session->n_connect_requests > 0;
}

bool session_is_shared(const struct session *session)
{
        return session->n_transfers + session->n_connect_requests > 1;
}

void session_released(struct session *session)
{
        session->last_used_us = clock_now_us();
        if (session->link->state == LINK_ENDED)
                session->engine->sessions_ended = true;
}

void session_note_moved(struct session *session, uint64_t bytes)
{
        struct engine *engine = session->engine;

        session->moved_us = clock_now_us();
        (void)session->link->transport->ops->carrier(session->link);
        if (bytes > WIRE_INLINE_MAX)
                engine->bulk_us = session->moved_us;
}

uint64_t session_count_copied(struct session *session, struct message *message)
{
        uint64_t bytes = message->copied - message->counted;

        message->counted = message->copied;
        session_note_moved(session, bytes);
        return bytes;
}

void sessions_sweep(struct engine *engine)
{
        struct session *session, *next;

        if (!engine->sessions_ended)
                return;
        engine->sessions_ended = false;
        DL_FOREACH_SAFE (engine->all_sessions, session, next) {
                if (session->link->state != LINK_ENDED || session_is_busy(session))
                        continue;
                if (session->ready)
                        DL_DELETE2(engine->ready_sessions, session, ready_prev, ready_next);
                DL_DELETE(engine->all_sessions, session);
                metric_add(engine->metric_links[session->link->transport->index], -1);
                if (session->link->accepted)
                        engine->n_accepted--;
                link_free(session->link);
                free(session);
        }
}

void sessions_close_idle(struct engine *engine, uint64_t now_us)
{
        struct session *session;

        /*
         * Only the opener of a link sends requests over it, so no request crosses the close. Local links cost little
         * and stay.
         */
        DL_FOREACH (engine->all_sessions, session)
                if (session->address[0] && !session_is_busy(session) &&
                    now_us >= session->last_used_us + ENGINE_IDLE_US) {
                        session->unused = true;
                        session_fail(session, FERRY_E_PEER_LOST, "unused for a minute");
                        session_unindex(session);
                }
}
