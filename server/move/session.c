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
 * Peers: the other end of one link each, with the link's transfers. A peer is made with its link, by the route that
 * opens one or when a transport accepts one; it owns the link, and peers_sweep() frees both once the link has ended and
 * no transfer is left. Each side sends requests over links of its own and answers over those of the other side: links
 * of UCX that were opened here are in a table by address, and those of the local transport are found in the contact.
 *
 * Thread: the holder of the progress lock.
 */

struct peer *peer_new(struct engine *engine, struct link *link)
{
        struct peer *peer = calloc(1, sizeof(*peer));

        if (!peer)
                return NULL;
        peer->engine = engine;
        peer->link = link;
        peer->last_used_us = clock_now_us();
        link->owner = peer;
        DL_APPEND(engine->all_peers, peer);
        metric_add(engine->metric_links[link->transport->index], 1);
        return peer;
}

void peer_index(struct peer *peer, const char *address)
{
        (void)text_copy(peer->address, sizeof(peer->address), address);
        HASH_ADD_STR(peer->engine->peers_by_address, address, peer);
        if (!peer->hh.tbl) /* no memory: the next transfer opens another link */
                peer->address[0] = '\0';
}

void peer_unindex(struct peer *peer)
{
        if (peer->address[0])
                HASH_DEL(peer->engine->peers_by_address, peer);
        peer->address[0] = '\0';
}

struct peer *peer_find(struct engine *engine, const char *address)
{
        struct peer *peer;

        HASH_FIND_STR(engine->peers_by_address, address, peer);
        if (!peer || peer_is_usable(peer))
                return peer;
        peer_unindex(peer); /* the link is ending: the next transfer opens another one */
        return NULL;
}

/* Without a HELLO over UCX nothing else is sent: the link would wait for its answer. */
static void hello_sent(struct message *message, enum message_result result)
{
        struct peer *peer = message->link->owner;

        if (result == MESSAGE_NO_MEMORY && peer)
                peer_fail(peer, FERRY_E_TRANSFER_FAILED, "out of memory");
}

struct message *peer_message_new(struct peer *peer, const struct wire_header *header, const struct stream *stream,
                                 uint64_t offset, void *owner)
{
        struct message *message = message_new(peer->link->transport);

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

void peer_send_message(struct peer *peer, struct message *message)
{
        message->header.from_epoch = peer->engine->epoch;
        peer->link->transport->ops->send(peer->link, message);
}

/*
 * Sends a header, with a payload that outlives the message, or NULL. Without memory the link fails, since a lost answer
 * would let the other side wait.
 */
static void send_with(struct peer *peer, const struct wire_header *header, const struct stream *payload)
{
        struct message *message;

        if (!peer_is_usable(peer))
                return;
        message = peer_message_new(peer, header, payload, 0, NULL);
        if (!message) {
                peer_fail(peer, FERRY_E_TRANSFER_FAILED, "out of memory");
                return;
        }
        message->transfer = 0; /* it waits for no payload of its transfer */
        message->done = header->type == WIRE_HELLO ? hello_sent : NULL;
        peer_send_message(peer, message);
}

void peer_send(struct peer *peer, const struct wire_header *header)
{
        send_with(peer, header, NULL);
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

void peer_answer(struct peer *peer, const struct wire_header *request, enum wire_type type, uint16_t flags, int status)
{
        struct wire_header h = answer_header(request, type);

        h.flags = flags;
        h.seq = request->seq;
        h.status = (uint32_t)status;
        h.offset = request->offset;
        h.length = request->length;
        peer_send(peer, &h);
}

int peer_error(uint32_t status)
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

void peer_send_hello(struct peer *peer, uint64_t to_epoch, uint64_t id)
{
        const struct stream *name = &peer->engine->name_stream;
        const struct wire_header hello = {
                .type = WIRE_HELLO,
                .to_epoch = to_epoch,
                .operation = id, /* unused, but 0 is not allowed */
                .transfer = id,
                .length = name->total,
        };

        peer->greeted = true;
        send_with(peer, &hello, name);
}

void peer_fail(struct peer *peer, int error, const char *detail)
{
        if (peer_is_usable(peer))
                peer->link->transport->ops->fail(peer->link, error, detail);
}

bool peer_has_room(const struct peer *peer, uint64_t own, uint64_t in_flight)
{
        const struct transport_ops *ops = peer->link->transport->ops;
        uint64_t window;

        if (!ops->window)
                return true;
        window = ops->window(peer->link);
        return own + in_flight < 2 * window || (own == 0 && in_flight < PEER_WINDOWS_MAX * window);
}

void peer_ready(struct peer *peer)
{
        if (peer->ready)
                return;
        peer->ready = true;
        DL_APPEND2(peer->engine->ready_peers, peer, ready_prev, ready_next);
}

/* The carrier may be cut to leave room for the suffix, which is "" for host memory. */
void peer_name_transport(const struct peer *peer, enum gpu_path path, char text[ENGINE_TRANSPORT_SIZE])
{
        enum { SUFFIX_SIZE = 12 };
        size_t length = text_copy(text, ENGINE_TRANSPORT_SIZE - SUFFIX_SIZE + 1, peer->link->carrier);

        (void)text_copy(text + length, SUFFIX_SIZE, gpu_path_name(path));
}

bool peer_is_busy(const struct peer *peer)
{
        return peer->n_transfers > 0 || peer->n_connect_requests > 0;
}

bool peer_is_shared(const struct peer *peer)
{
        return peer->n_transfers + peer->n_connect_requests > 1;
}

void peer_released(struct peer *peer)
{
        peer->last_used_us = clock_now_us();
        if (peer->link->state == LINK_ENDED)
                peer->engine->peers_ended = true;
}

void peer_note_moved(struct peer *peer, uint64_t bytes)
{
        struct engine *engine = peer->engine;

        peer->moved_us = clock_now_us();
        (void)peer->link->transport->ops->carrier(peer->link);
        if (bytes > WIRE_INLINE_MAX)
                engine->bulk_us = peer->moved_us;
}

uint64_t peer_count_copied(struct peer *peer, struct message *message)
{
        uint64_t bytes = message->copied - message->counted;

        message->counted = message->copied;
        peer_note_moved(peer, bytes);
        return bytes;
}

void peers_sweep(struct engine *engine)
{
        struct peer *peer, *next;

        if (!engine->peers_ended)
                return;
        engine->peers_ended = false;
        DL_FOREACH_SAFE (engine->all_peers, peer, next) {
                if (peer->link->state != LINK_ENDED || peer_is_busy(peer))
                        continue;
                if (peer->ready)
                        DL_DELETE2(engine->ready_peers, peer, ready_prev, ready_next);
                DL_DELETE(engine->all_peers, peer);
                metric_add(engine->metric_links[peer->link->transport->index], -1);
                if (peer->link->accepted)
                        engine->n_accepted--;
                link_free(peer->link);
                free(peer);
        }
}

void peers_close_idle(struct engine *engine, uint64_t now_us)
{
        struct peer *peer;

        /*
         * Only the opener of a link sends requests over it, so no request crosses the close. Local links cost little
         * and stay.
         */
        DL_FOREACH (engine->all_peers, peer)
                if (peer->address[0] && !peer_is_busy(peer) && now_us >= peer->last_used_us + ENGINE_IDLE_US) {
                        peer->unused = true;
                        peer_fail(peer, FERRY_E_PEER_LOST, "unused for a minute");
                        peer_unindex(peer);
                }
}
