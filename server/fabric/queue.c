/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric_internal.h"

/*
 * What waits for its turn before UCX gets it.
 *
 * Network side: nothing is sent, posted or refused inside ucp_worker_progress, and over TCP with PUT one receive at a
 * time is posted for each endpoint. That is what makes PUT safe (side.c says why), and it is no loss: bytes that move
 * one chunk after the other stay in the cache, however many transfers share the endpoint. Parts (PROTOCOL.md) are
 * given to UCX so many bytes at a time as FABRIC_PARTS_BYTES says: it keeps whatever the socket does not take, and
 * those that had to be packed take memory.
 *
 * Local side: no more rendezvous at once than FABRIC_LOCAL_BYTES.
 */

uint32_t message_limit(const struct peer *peer)
{
        uint32_t chunk = peer->side->chunk_size;

        return peer_is_local(peer) && chunk > FABRIC_LOCAL_BYTES ? FABRIC_LOCAL_BYTES : chunk;
}

/* Whether chunks of a WRITE wait: one that is sent at once must not overtake the first, which claims. */
static bool is_queued(const struct peer *peer, uint64_t transfer)
{
        const struct message *message;

        if (transfer == 0)
                return false;
        DL_FOREACH (peer->queue, message)
                if (message->transfer == transfer)
                        return true;
        return false;
}

static void cancel(struct message **list, struct message *message)
{
        DL_DELETE(*list, message);
        message_done(message, UCS_ERR_CANCELED);
}

static void sends_pump(struct peer *peer, uint64_t limit)
{
        struct message *message;

        if (peer->pumping)
                return;
        peer->pumping = true;
        while (!peer->failed && (message = peer->queue) &&
               (peer->sending == 0 || peer->sending + message->length <= limit)) {
                if (message->begin && !message->begin(message)) {
                        cancel(&peer->queue, message);
                        continue;
                }
                DL_DELETE(peer->queue, message);
                peer->sending += message->length;
                message->counted = true;
                message_send_now(message);
        }
        peer->pumping = false;
}

/* ---- network side ---- */

static void put_off(struct side *side, struct message *message, enum message_act act)
{
        message->act = act;
        DL_APPEND(side->deferred, message);
}

static void act_now(struct side *side, struct message *message)
{
        DL_DELETE(side->deferred, message);
        if (message->act == MESSAGE_REFUSE) {
                ucp_am_data_release(side->worker, message->descriptor);
                message_free(message);
        } else if (message->peer->failed) {
                message_done(message, UCS_ERR_CONNECTION_RESET);
        } else {
                message_send_now(message);
        }
}

/* Over TCP one at a time; elsewhere as much as one transfer's window, so that many transfers do not thrash the cache.
 */
static bool has_room(struct peer *peer, uint64_t length)
{
        if (peer->receiving == 0)
                return true;
        return !peer_is_serial(peer) &&
               peer->receiving + length <= (uint64_t)peer->side->chunk_size * peer->side->fabric->window;
}

static void receives_pump(struct peer *peer)
{
        struct message *message;

        while (!peer->failed && (message = peer->receives) && has_room(peer, message->length)) {
                DL_DELETE(peer->receives, message);
                if (message->begin && !message->begin(message)) {
                        ucp_am_data_release(peer->side->worker, message->descriptor);
                        message_free(message);
                        continue;
                }
                peer->receiving += message->length;
                message->counted = true;
                message_receive_now(message);
        }
}

/* ---- both ---- */

void peer_ready(struct peer *peer)
{
        if (peer->ready || peer->failed)
                return;
        peer->ready = true;
        DL_APPEND2(peer->side->fabric->ready_peers, peer, ready_prev, ready_next);
}

void queue_send(struct message *message)
{
        struct peer *peer = message->peer;
        struct side *side = peer->side;

        if (!peer_is_local(peer)) {
                message->queued = message->eager || is_queued(peer, message->transfer);
                if (message->queued) {
                        DL_APPEND(peer->queue, message);
                        peer_ready(peer);
                } else if (side->in_progress || side->deferred) {
                        put_off(side, message, MESSAGE_SEND);
                } else {
                        message_send_now(message);
                }
        } else if (message->length <= WIRE_EAGER_MAX && !is_queued(peer, message->transfer)) {
                message_send_now(message);
        } else {
                message->queued = true;
                DL_APPEND(peer->queue, message);
                sends_pump(peer, FABRIC_LOCAL_BYTES);
        }
}

void queue_receive(struct message *message)
{
        struct peer *peer = message->peer;

        if (peer_is_local(peer)) {
                if (message->begin)
                        (void)message->begin(message); /* it was wanted a moment ago, when it came */
                message_receive_now(message);
                return;
        }
        DL_APPEND(peer->receives, message);
        peer_ready(peer);
}

bool queue_refuse(struct side *side, void *descriptor)
{
        struct message *message = side->in_progress ? message_new(side->fabric) : NULL;

        if (!message)
                return false;
        message->descriptor = descriptor;
        put_off(side, message, MESSAGE_REFUSE);
        return true;
}

void queue_done(struct message *message)
{
        struct peer *peer = message->peer;

        if (message->queued)
                peer->sending -= message->length;
        else
                peer->receiving -= message->length;
        if (!peer_is_local(peer))
                peer_ready(peer);
}

void queue_pump(struct peer *peer)
{
        if (peer->queue && peer_is_local(peer))
                sends_pump(peer, FABRIC_LOCAL_BYTES);
}

bool queue_flush(struct fabric *fabric)
{
        struct peer *peer;
        bool any = false;

        do {
                for (int i = 0; i < SIDE_COUNT; i++)
                        while (fabric->sides[i].deferred) {
                                act_now(&fabric->sides[i], fabric->sides[i].deferred);
                                any = true;
                        }
                peer = fabric->ready_peers;
                if (peer) {
                        DL_DELETE2(fabric->ready_peers, peer, ready_prev, ready_next);
                        peer->ready = false;
                        receives_pump(peer);
                        chunks_serve(peer);
                        if (!peer_is_local(peer))
                                sends_pump(peer, FABRIC_PARTS_BYTES);
                        any = true;
                }
        } while (peer || fabric->ready_peers || fabric->sides[SIDE_NETWORK].deferred);
        return any;
}

void queue_drop(struct peer *peer)
{
        struct side *side = peer->side;
        struct message *message, *next;

        if (peer->ready)
                DL_DELETE2(side->fabric->ready_peers, peer, ready_prev, ready_next);
        peer->ready = false;
        peer->pumping = true;
        while (peer->queue)
                cancel(&peer->queue, peer->queue);
        peer->pumping = false;
        DL_FOREACH_SAFE (side->deferred, message, next)
                if (message->act == MESSAGE_SEND && message->peer == peer)
                        cancel(&side->deferred, message);
        while ((message = peer->receives)) { /* not begun: nobody waits for its end */
                DL_DELETE(peer->receives, message);
                ucp_am_data_release(side->worker, message->descriptor);
                message_free(message);
        }
}

unsigned side_progress(struct side *side)
{
        unsigned n;

        if (!side->worker)
                return 0;
        side->in_progress = side == &side->fabric->sides[SIDE_NETWORK];
        n = ucp_worker_progress(side->worker);
        side->in_progress = false;
        return n;
}
