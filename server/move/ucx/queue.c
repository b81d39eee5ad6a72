/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/log.h"
#include "ucx_internal.h"

/*
 * Messages that wait before they are passed to UCX.
 *
 * Nothing is sent, posted or refused inside ucp_worker_progress, and over TCP one receive at a time is posted on each
 * endpoint. That makes PUT safe (quirks.c says why) and costs nothing: chunks that move one after the other stay in
 * the cache, however many transfers share the endpoint.
 *
 * A fragment is a send whose bytes travel inline, or a send that must keep its order among such sends. UCX buffers
 * what the socket does not take, and packed fragments take memory, so UCX holds at most UCX_FRAGMENTS_BYTES of
 * fragments of a link. A cancel can still remove messages that wait here.
 *
 * UCX may reorder messages while it connects. So before the first message of the peer, UCX gets only one message that
 * the peer answers. A message that the peer does not answer may go too: it is the last of its transfer.
 *
 * Payloads in device memory: tasks of the pool (move/message/staging.h) load a send into host memory before it is
 * queued here, and store a receive into device memory after UCX has received it (message.c). So the device copies one
 * chunk of the window while UCX moves another. UCX moves a payload that it gets in place (gpudirect.c) without copies;
 * its stage only checks the device memory.
 *
 *   send:     link->loading → ucx_send → … → end
 *   receive:  … → finished by UCX → link->storing → end
 */

/* ---- sends ---- */

/* Whether fragments of the transfer wait, which a later message must not overtake. */
static bool has_fragments(const struct ucx_link *link, uint64_t transfer)
{
        const struct message *m;

        if (transfer == 0)
                return false;
        DL_SEARCH_SCALAR(link->fragments, m, transfer, transfer);
        return m;
}

/* Whether UCX may get so many bytes of fragments. One fragment always may, however long. */
static bool has_room(const struct ucx_link *link, uint64_t length)
{
        return link->fragments_sending == 0 || link->fragments_sending + length <= UCX_FRAGMENTS_BYTES;
}

/* Whether the peer answers the message: all but a quiet DONE. */
static bool is_answered(const struct wire_header *header)
{
        return header->type != WIRE_DONE || !(header->flags & WIRE_QUIET);
}

/* The message that was to open the link is gone, so another one may open it (ucx_fit). */
static void offer_opening(struct ucx_link *link)
{
        if (!link_is_connecting(&link->base))
                return;
        link->room = true;
        ucx_link_ready(link);
}

/* Passes a send to UCX, unless its link has failed or it is not wanted any more. */
static void send_or_end(struct ucx_message *m)
{
        struct ucx_link *link = ucx_link_of(m->base.link);

        if (!link_is_usable(&link->base)) {
                message_end(&m->base, MESSAGE_LOST);
        } else if (!message_begin(&m->base)) {
                message_end(&m->base, MESSAGE_CANCELLED);
                offer_opening(link);
        } else if (!link_is_usable(&link->base)) { /* begin may have failed the link */
                message_end(&m->base, MESSAGE_LOST);
        } else {
                if (link->base.state == LINK_CONNECTING && is_answered(&m->base.header))
                        link_set_state(&link->base, LINK_OPENING);
                ucx_message_send_now(m);
        }
}

/* Sends loaded messages in the order in which they were queued. */
static void loaded(struct link *link)
{
        struct message *m;

        while ((m = stage_take_loaded(link)))
                ucx_send(link, m);
        offer_opening(ucx_link_of(link));
}

/* Begins a send and loads its bytes. */
static void load(struct ucx_message *m)
{
        if (!message_begin(&m->base))
                message_end(&m->base, MESSAGE_CANCELLED);
        else if (!ucx_message_place(m))
                message_end(&m->base, MESSAGE_NO_MEMORY);
        else
                stage_load(&m->base, m->device ? STAGING_CHECK : STAGING_LOAD, loaded);
}

void ucx_send(struct link *base, struct message *message)
{
        struct ucx_link *link = ucx_link_of(base);
        struct ucx_message *m = ucx_message_of(message);
        bool must_wait;

        message->link = base;
        if (!message->stream)
                message->length = 0;
        if (!link_is_usable(base)) {
                message_end(message, MESSAGE_LOST);
                return;
        }
        if (message->length > 0 && message->stream->off_host && !message->stage) {
                load(m);
                return;
        }
        m->fragment = message->force_inline || has_fragments(link, message->transfer) || link_is_connecting(base);
        must_wait = ucx_of_link(link)->in_progress || link->deferred;
        if (m->fragment &&
            (must_wait || base->state == LINK_OPENING || link->fragments || !has_room(link, message->length))) {
                DL_APPEND(link->fragments, message);
                ucx_link_ready(link);
        } else if (must_wait) {
                DL_APPEND(link->deferred, message);
                ucx_link_ready(link);
        } else {
                send_or_end(m);
        }
}

/* Sends what has come up meanwhile. */
static void pump_deferred(struct ucx_link *link)
{
        struct message *m;

        while ((m = link->deferred)) {
                DL_DELETE(link->deferred, m);
                send_or_end(ucx_message_of(m));
        }
}

/* Sends the fragments that wait, in order, as far as UCX may have them. */
static void pump_fragments(struct ucx_link *link)
{
        struct message *m;

        while (link_is_usable(&link->base) && (m = link->fragments) && has_room(link, m->length) &&
               link->base.state != LINK_OPENING) {
                DL_DELETE(link->fragments, m);
                send_or_end(ucx_message_of(m));
        }
}

/* ---- receives ---- */

void ucx_receive(struct link *base, struct message *message, struct payload *payload)
{
        struct ucx_link *link = ucx_link_of(base);
        struct ucx_message *m = ucx_message_of(message);

        message->link = base;
        payload->taken = true;
        if (payload->bytes) {
                stage_store_inline(ucx_of_link(link)->staging, message, payload->bytes);
                return;
        }
        m->descriptor = payload->descriptor;
        if (!link_is_usable(base)) { /* the engine has failed the link meanwhile */
                DL_APPEND(ucx_of_link(link)->refused, message);
                return;
        }
        DL_APPEND(link->receives, message);
        ucx_link_ready(link);
}

static void refuse(struct ucx *ucx, struct ucx_message *m)
{
        ucp.am_data_release(ucx->worker, m->descriptor);
        message_free(&m->base); /* its link may be gone */
}

/* Over TCP one at a time; otherwise up to one window, so that many transfers do not thrash the cache. */
static bool may_post(struct ucx_link *link, uint64_t length)
{
        if (link->receiving == 0)
                return true;
        return !ucx_link_is_tcp(link) && link->receiving + length <= ucx_window(&link->base);
}

static bool needs_no_buffer(struct ucx_link *link, const struct message *m)
{
        struct memory *memory;
        uint8_t *address;

        return !m->stream->off_host ||
               ucx_gpudirect_run(link, m->stream, m->offset, m->length, &address, &memory) == m->length;
}

/* The first receive that needs no staging buffer or can have one; NULL = none. */
static struct message *next_receive(struct ucx_link *link)
{
        struct message *m;

        DL_FOREACH (link->receives, m)
                if (needs_no_buffer(link, m) ||
                    staging_has_room(ucx_of_link(link)->staging, m->stream, m->offset, m->length))
                        return m;
        return NULL;
}

/* Posts the receives that wait, or refuses those that are not wanted any more. */
static void pump_receives(struct ucx_link *link)
{
        struct message *m;

        while (link_is_usable(&link->base) && (m = next_receive(link)) && may_post(link, m->length)) {
                DL_DELETE(link->receives, m);
                if (message_begin(m))
                        ucx_message_receive_now(ucx_message_of(m));
                else
                        refuse(ucx_of_link(link), ucx_message_of(m));
        }
}

/* Refuses a rendezvous at the next flush. Safe inside UCX callbacks. false: out of memory. */
static bool refuse_later(struct ucx *ucx, void *descriptor)
{
        struct message *m = message_new(&ucx->base);

        if (!m)
                return false;
        ucx_message_of(m)->descriptor = descriptor;
        DL_APPEND(ucx->refused, m);
        return true;
}

/* ---- both ---- */

bool ucx_queue_flush(struct ucx *ucx)
{
        struct ucx_link *link;
        struct message *m;
        bool any = ucx->refused || ucx->ready;

        for (;;) {
                while ((m = ucx->refused)) {
                        DL_DELETE(ucx->refused, m);
                        refuse(ucx, ucx_message_of(m));
                }
                link = ucx->ready;
                if (!link)
                        return any;
                DL_DELETE2(ucx->ready, link, ready_prev, ready_next);
                link->ready_prev = NULL;
                pump_deferred(link);
                pump_receives(link);
                pump_fragments(link);
                if (link->room && link_is_usable(&link->base)) {
                        link->room = false;
                        ucx->base.handlers.room(ucx->base.handlers.context, &link->base);
                }
        }
}

/* The first message of the list with a payload of the transfer. */
static struct message *find_waiting(struct message *list, uint64_t transfer)
{
        struct message *m;

        DL_FOREACH (list, m)
                if (m->transfer == transfer && m->length > 0)
                        return m;
        return NULL;
}

/* Ends the sends of a list that have a payload of the transfer. */
static void cancel_sends(struct message **list, uint64_t transfer)
{
        struct message *m;

        /* done may call the transport again, so each search starts anew. */
        while ((m = find_waiting(*list, transfer))) {
                DL_DELETE(*list, m);
                message_end(m, MESSAGE_CANCELLED);
        }
}

void ucx_cancel(struct link *base, uint64_t transfer)
{
        struct ucx_link *link = ucx_link_of(base);
        struct message *m;

        stage_cancel(base, &transfer, MESSAGE_CANCELLED);
        cancel_sends(&link->fragments, transfer);
        cancel_sends(&link->deferred, transfer);
        while ((m = find_waiting(link->receives, transfer))) {
                DL_DELETE(link->receives, m);
                DL_APPEND(ucx_of_link(link)->refused, m);
        }
        offer_opening(link);
}

static void drop_sends(struct message **list)
{
        struct message *m;

        while ((m = *list)) {
                DL_DELETE(*list, m);
                message_end(m, MESSAGE_LOST);
        }
}

void ucx_queue_drop(struct ucx_link *link)
{
        struct message *m;

        stage_cancel(&link->base, NULL, MESSAGE_LOST);
        drop_sends(&link->fragments);
        drop_sends(&link->deferred);
        while ((m = link->receives)) { /* begin has not run, so done is not due */
                DL_DELETE(link->receives, m);
                refuse(ucx_of_link(link), ucx_message_of(m));
        }
}

bool ucx_collect_copies(struct ucx *ucx)
{
        bool any = pool_collect(staging_tasks(ucx->staging));

        ucx->sweep_wanted |= any; /* a failed link may be able to end now */
        return any;
}

unsigned ucx_worker_progress(struct ucx *ucx)
{
        unsigned n;

        ucx->in_progress = true;
        n = ucp.worker_progress(ucx->worker);
        ucx->in_progress = false;
        return n;
}

/* ---- what comes ---- */

/* A message of this protocol goes to the engine; the first one brings the link up. */
static void handle(struct ucx *ucx, struct ucx_link *link, const void *bytes, size_t size, struct payload *payload)
{
        struct wire_header header;
        uint8_t protocol;

        switch (payload->length > WIRE_CHUNK_MAX ? WIRE_INVALID : wire_decode(bytes, size, &header, &protocol)) {
        case WIRE_INVALID:
                log_event(LOG_WARN, "unknown message dropped", LOG_S("transport", ucx->base.name), LOG_U("size", size));
                break;
        case WIRE_OTHER_PROTOCOL:
                link_fail_protocol(&link->base, protocol); /* close.c tells the peer */
                break;
        case WIRE_OK:
                if (link_is_connecting(&link->base)) {
                        link->room = true;
                        ucx_link_ready(link);
                }
                link_note_message(&link->base);
                ucx->base.handlers.message(ucx->base.handlers.context, &link->base, &header, payload);
                break;
        }
}

ucs_status_t ucx_message_arrived(void *context, const void *bytes, size_t size, void *data, size_t length,
                                 const ucp_am_recv_param_t *param)
{
        struct ucx *ucx = context;
        bool rendezvous = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
        bool replies = (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0;
        struct ucx_link *link = replies ? ucx_link_find(ucx, param->reply_ep) : NULL;
        struct payload payload = { .length = length };

        if (rendezvous)
                payload.descriptor = data;
        else
                payload.bytes = data;
        ucx_watch_wake(ucx);
        if (link)
                handle(ucx, link, bytes, size, &payload);
        if (!rendezvous)
                return UCS_OK;
        /* Refuses later: UCX would send the refusal from inside this callback. */
        return payload.taken || refuse_later(ucx, data) ? UCS_INPROGRESS : UCS_OK;
}
