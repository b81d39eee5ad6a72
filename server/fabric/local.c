/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>

#include "base/log.h"
#include "base/util.h"
#include "fabric_internal.h"

/*
 * What UCX's shared memory does not survive. All local peers put their messages into one queue of ours: each takes the
 * next element, fills it, marks it. A peer that is killed between the first and the last leaves an element that is
 * never marked, and nothing that comes after it is ever read, from whomever (about one in four who die while they send
 * bulk). So when a local peer is gone, we send a message through our queue to ourselves. If it does not arrive, the
 * local side gets another UCX worker with another queue; every local peer is told by RESET.
 */

static void ping(struct fabric *fabric, struct side *side, uint64_t now_us)
{
        int error;
        struct peer *self = peer_local(fabric, fabric->epoch, &error);
        struct wire_header h = {
                .type = WIRE_PING,
                .to_epoch = fabric->epoch,
                .from_epoch = fabric->epoch,
                .operation = fabric->epoch, /* not used, but never 0 */
        };

        side->ping_deadline_us = now_us + FABRIC_PING_US;
        if (!self) /* no descriptor left, perhaps: the queue stays suspect, and is asked when there is one */
                return;
        side->suspect = false;
        h.transfer = ++side->ping;
        message_send_header(self, &h);
}

/* The living local peers, for free(); they have no endpoint afterwards. */
static uint64_t *fail_all(struct fabric *fabric, size_t *ret_n)
{
        struct peer *peer;
        uint64_t *epochs;
        size_t n = 0;

        DL_COUNT(fabric->all_peers, peer, n);
        epochs = calloc(n + 1, sizeof(*epochs));
        *ret_n = 0;
        DL_FOREACH (fabric->all_peers, peer) {
                if (!peer->epoch || peer->failed)
                        continue;
                peer_fail(peer, FERRY_E_PEER_LOST, "a worker that died has broken this one's shared memory");
                peer->reset_owed = false;
                if (epochs && peer->epoch != fabric->epoch)
                        epochs[(*ret_n)++] = peer->epoch;
        }
        peers_sweep(fabric);
        return epochs;
}

/* Without room for the file nobody finds us; so it is tried until there is some. */
static void publish(struct fabric *fabric, struct side *side, uint64_t now_us)
{
        int r = fabric->local_moved ? fabric->local_moved(fabric->local_context, side->address, side->address_size) : 0;

        if (r < 0 && !side->unpublished)
                log_event(LOG_ERROR, "local peers do not find this worker until its presence file can be replaced",
                          LOG_S("reason", strerror(-r)));
        else if (r == 0 && side->unpublished)
                log_event(LOG_INFO, "local peers find this worker again");
        side->unpublished = r < 0;
        if (r < 0)
                side->ping_deadline_us = now_us + FABRIC_RETRY_US;
}

static void reopen(struct fabric *fabric, struct side *side, uint64_t now_us)
{
        FERRY_CLEANUP(cleanup_free) uint64_t *epochs = NULL;
        struct side old;
        size_t n;
        int error;

        log_event(LOG_INFO, "a worker that died has broken the shared memory of this one: opening it anew");
        epochs = fail_all(fabric, &n);
        side->suspect = false;
        thread_unwatch(fabric, side->event_fd);
        if (side_reopen(side, &old) < 0) {
                (void)thread_watch_side(fabric, side);
                side->ping_deadline_us = now_us + FABRIC_RETRY_US;
                return;
        }
        (void)thread_watch_side(fabric, side);
        publish(fabric, side, now_us);
        side_discard(&old);
        peers_abandon(fabric);
        for (size_t i = 0; epochs && i < n; i++) {
                struct peer *peer = peer_local(fabric, epochs[i], &error);

                if (peer)
                        peer_send_reset(fabric, peer);
        }
}

void local_check(struct fabric *fabric, uint64_t now_us)
{
        struct side *side = &fabric->sides[SIDE_LOCAL];

        if (!side->worker || fabric->stopping)
                return;
        if (side->ping_deadline_us && side->pong == side->ping && !side->unpublished) {
                side->ping_deadline_us = 0;
        } else if (side->ping_deadline_us && side->idle && now_us >= side->ping_deadline_us) {
                side->ping_deadline_us = 0;
                if (side->unpublished)
                        publish(fabric, side, now_us);
                else
                        reopen(fabric, side, now_us);
        }
        if (side->suspect && !side->ping_deadline_us)
                ping(fabric, side, now_us);
}
