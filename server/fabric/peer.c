/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include <ferry/error.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/presence.h"
#include "fabric_internal.h"

/*
 * Endpoints, cached by peer: on the local side by epoch, on the network side by address (those that we opened) or by
 * UCX's endpoint alone (those that the peer opened). A failed one leaves the caches at once, so that the next transfer
 * connects anew; it is freed when UCX has closed it and nothing moves over it any more.
 */

static void on_endpoint_error(void *context, ucp_ep_h endpoint, ucs_status_t status)
{
        struct peer *peer = context;

        peer_fail(peer, peer->heard ? FERRY_E_PEER_LOST : FERRY_E_PEER_UNREACHABLE, ucs_status_string(status));
}

/* Makes the endpoint and enters the peer into the caches. params' error handling is filled in here. */
static struct peer *peer_new(struct side *side, ucp_ep_params_t *params, int *ret_error)
{
        struct fabric *fabric = side->fabric;
        struct peer *peer = calloc(1, sizeof(*peer)), *other;
        ucs_status_t status;

        if (!peer) {
                *ret_error = -ENOMEM;
                return NULL;
        }
        peer->side = side;
        peer->pidfd = -1;
        peer->created_us = peer->last_used_us = clock_now_us();
        params->field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
        params->err_mode = UCP_ERR_HANDLING_MODE_PEER;
        params->err_handler.cb = on_endpoint_error;
        params->err_handler.arg = peer;
        status = ucp_ep_create(side->worker, params, &peer->endpoint);
        if (status != UCS_OK) {
                log_event(LOG_INFO, "endpoint not created", LOG_S("side", side->name),
                          LOG_S("reason", ucs_status_string(status)));
                free(peer);
                *ret_error = -EHOSTUNREACH;
                return NULL;
        }
        HASH_FIND(by_endpoint, fabric->peers_by_endpoint, &peer->endpoint, sizeof(peer->endpoint), other);
        if (other) /* UCX reuses the address of an endpoint that is closed, but not yet forgotten here */
                HASH_DELETE(by_endpoint, fabric->peers_by_endpoint, other);
        HASH_ADD(by_endpoint, fabric->peers_by_endpoint, endpoint, sizeof(peer->endpoint), peer);
        DL_APPEND(fabric->all_peers, peer);
        metric_add(fabric->metric_peers[side - fabric->sides], 1);
        return peer;
}

/*
 * Nothing tells a local worker that its peer has closed an endpoint by force: it would go on to answer over its own
 * end, which leads nowhere. So the first message over a new endpoint says it.
 */
void peer_send_reset(struct fabric *fabric, struct peer *peer)
{
        struct wire_header h = {
                .type = WIRE_RESET,
                .to_epoch = peer->epoch,
                .from_epoch = fabric->epoch,
                .operation = peer->epoch, /* not used, but never 0 */
                .transfer = peer->epoch,
        };

        message_send_header(peer, &h);
}

static void send_reset_if_owed(struct fabric *fabric, struct peer *peer)
{
        struct peer *other;
        bool owed = false;

        DL_FOREACH (fabric->all_peers, other) {
                if (other->epoch != peer->epoch || !other->reset_owed)
                        continue;
                other->reset_owed = false;
                owed = true;
        }
        if (owed)
                peer_send_reset(fabric, peer);
}

/*
 * When both sides closed theirs, each may have a new one already, which UCX has joined with the peer's new one: that is
 * the one over which the message came. UCX joins them by their number: our first with the peer's first, and so on. So
 * one that the peer closed before it was heard here, and that we have none for yet, is made and closed too; else all of
 * ours from then on would lead to those that the peer has closed.
 */
void peer_was_reset(struct fabric *fabric, uint64_t epoch, ucp_ep_h reply)
{
        struct peer *peer = fabric->stopping ? NULL : peer_local(fabric, epoch, &(int){ 0 });

        if (!peer || peer->endpoint == reply)
                return;
        peer_fail(peer, FERRY_E_PEER_LOST, "the peer closed the connection by force");
        peer->reset_owed = false; /* it knows */
}

struct peer *peer_local(struct fabric *fabric, uint64_t epoch, int *ret_error)
{
        struct side *side = &fabric->sides[SIDE_LOCAL];
        struct presence_peer found;
        ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS };
        struct peer *peer;
        int r;

        if (!side->worker) {
                *ret_error = -ENODEV;
                return NULL;
        }
        HASH_FIND(by_name, fabric->peers_by_epoch, &epoch, sizeof(epoch), peer);
        if (peer)
                return peer;
        r = presence_lookup(epoch, &found);
        if (r < 0) {
                *ret_error = r;
                return NULL;
        }
        params.address = found.address;
        peer = peer_new(side, &params, ret_error);
        if (peer) {
                peer->epoch = epoch;
                peer->address_hash = XXH3_64bits(found.address, found.size);
                peer->pidfd = found.pidfd;
                found.pidfd = -1;
                HASH_ADD(by_name, fabric->peers_by_epoch, epoch, sizeof(peer->epoch), peer);
                if (thread_watch(fabric, peer->pidfd) < 0)
                        log_event(LOG_WARN, "a peer's process cannot be watched", LOG_I("pid", found.pid));
                send_reset_if_owed(fabric, peer);
        }
        presence_peer_clear(&found);
        return peer;
}

struct peer *peer_network(struct fabric *fabric, const char *text, const struct sockaddr *address, socklen_t length,
                          int *ret_error)
{
        struct side *side = &fabric->sides[SIDE_NETWORK];
        ucp_ep_params_t params = {
                .field_mask = UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_FLAGS,
                .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
                .sockaddr = { .addr = address, .addrlen = length },
        };
        struct peer *peer;

        if (!side->worker) {
                *ret_error = -ENODEV;
                return NULL;
        }
        HASH_FIND(by_name, fabric->peers_by_address, text, strlen(text), peer);
        if (peer)
                return peer;
        peer = peer_new(side, &params, ret_error);
        if (peer) {
                (void)snprintf(peer->address, sizeof(peer->address), "%s", text);
                HASH_ADD(by_name, fabric->peers_by_address, address[0], strlen(peer->address), peer);
        }
        return peer;
}

void peer_accept(ucp_conn_request_h request, void *context)
{
        struct side *side = context;
        ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST, .conn_request = request };
        int error;

        if (side->fabric->accepted >= FABRIC_ACCEPTED_MAX || side->fabric->stopping) {
                log_event(LOG_WARN, "connection refused: too many endpoints",
                          LOG_U("accepted", side->fabric->accepted));
                (void)ucp_listener_reject(side->listener, request);
                return;
        }
        if (peer_new(side, &params, &error))
                side->fabric->accepted++;
}

static bool was_accepted(const struct peer *peer)
{
        return peer->side == &peer->side->fabric->sides[SIDE_NETWORK] && peer->address[0] == '\0';
}

struct peer *peer_of_message(struct side *side, ucp_ep_h reply, const struct wire_header *header)
{
        struct fabric *fabric = side->fabric;
        struct peer *peer;
        int error = 0;

        /* Locally every process of this user is trusted alike, so the name it gives itself will do. */
        if (side == &fabric->sides[SIDE_LOCAL]) {
                peer = peer_local(fabric, header->from_epoch, &error);
                if (!peer)
                        log_event(LOG_INFO, "message of an unknown local worker dropped", LOG_I("error", error));
                return peer;
        }
        HASH_FIND(by_endpoint, fabric->peers_by_endpoint, &reply, sizeof(reply), peer);
        return peer && !peer->failed ? peer : NULL;
}

bool peer_is_local(const struct peer *peer)
{
        return peer->side == &peer->side->fabric->sides[SIDE_LOCAL];
}

bool peer_is_dead(struct peer *peer)
{
        struct pollfd p = { .fd = peer->pidfd, .events = POLLIN };

        if (!peer->dead && peer->pidfd >= 0 && poll(&p, 1, 0) > 0)
                peer->dead = true;
        return peer->dead;
}

void peer_was_heard(struct peer *peer)
{
        if (peer->heard)
                return;
        peer->heard = true;
        peer->connect_us = clock_now_us() - peer->created_us;
        if (peer->connect_us == 0)
                peer->connect_us = 1; /* 0 would say that nothing had to be connected */
}

/* ---- failing and closing ---- */

static void forget(struct peer *peer)
{
        struct fabric *fabric = peer->side->fabric;
        struct peer *found;

        HASH_FIND(by_endpoint, fabric->peers_by_endpoint, &peer->endpoint, sizeof(peer->endpoint), found);
        if (found == peer)
                HASH_DELETE(by_endpoint, fabric->peers_by_endpoint, peer);
        if (peer->epoch)
                HASH_DELETE(by_name, fabric->peers_by_epoch, peer);
        else if (peer->address[0])
                HASH_DELETE(by_name, fabric->peers_by_address, peer);
        if (peer->pidfd >= 0)
                thread_unwatch(fabric, peer->pidfd); /* it is closed with the peer: a lease may have to know */
        if (peer->epoch)
                mappings_forget_worker(&fabric->mappings, peer->epoch);
        if (was_accepted(peer))
                fabric->accepted--;
        metric_add(fabric->metric_peers[peer->side - fabric->sides], -1);
}

void peer_fail(struct peer *peer, int error, const char *detail)
{
        bool busy = peer->transfers || peer->attempts || connects_use(peer);

        if (peer->failed)
                return;
        peer->failed = true;
        peer->error = error;
        (void)snprintf(peer->detail, sizeof(peer->detail), "%s", detail);
        log_event(busy ? LOG_INFO : LOG_DEBUG, "endpoint failed", LOG_S("side", peer->side->name),
                  LOG_S("code", ferry_error_code(error)), LOG_S("reason", detail));
        if (busy)
                metric_add(peer->side->fabric->metric_failures, 1);
        /* Not for an endpoint that did no more than tell: it would be told for ever. */
        peer->reset_owed = peer->epoch != 0 && (peer->heard || busy);
        forget(peer);
        peer->side->fabric->sweep_wanted = true;
}

/*
 * At once, not with the next transfer: the peer's own end of what failed waits for it. Never shortly before this
 * process ends: UCX 1.18 aborts a process that reads the request for a new connection when the other process has ended
 * (ucp_wireup_process_request fails before the endpoint has a configuration, and ucp_ep_set_failed asks for that).
 */
static void tell_reset(struct peer *peer)
{
        struct fabric *fabric = peer->side->fabric;
        int error;

        if (peer->reset_owed && !fabric->stopping && !atomic_load(&fabric->leaving))
                (void)peer_local(fabric, peer->epoch, &error);
        peer->reset_owed = false;
}

static void close_done(void *request, ucs_status_t status, void *user_data)
{
        struct peer *peer = user_data;

        peer->closed = true;
        peer->side->fabric->sweep_wanted = true;
        if (peer->closing)
                ucp_request_free(request);
        peer->closing = NULL;
}

static void close_endpoint(struct peer *peer, unsigned flags)
{
        ucp_request_param_t param = {
                .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                .flags = flags,
                .cb.send = close_done,
                .user_data = peer,
        };
        ucs_status_ptr_t request = ucp_ep_close_nbx(peer->endpoint, &param);

        if (UCS_PTR_IS_PTR(request)) {
                peer->closing = request;
        } else {
                peer->closed = true;
                peer->side->fabric->sweep_wanted = true;
        }
}

/*
 * UCX completes the requests of an endpoint that is closed by force before it destroys the lanes, which it leaves to
 * the next rounds of progress (ucp_worker_discard_uct_ep); until then a TCP lane may still store what it reads from its
 * socket. So the rounds are run before anything is called quiet.
 */
static void settle(struct peer *peer)
{
        for (int i = 0; i < FABRIC_SETTLE_ROUNDS; i++)
                if (side_progress(peer->side) == 0 && i > 1)
                        break;
        peer->quiet = true;
}

bool peer_is_settling(const struct peer *peer)
{
        return peer->failed && !peer->quiet;
}

static void end_traffic(struct peer *peer)
{
        struct transfer *t, *t_next;
        struct attempt *a, *a_next;

        DL_FOREACH_SAFE2(peer->transfers, t, t_next, peer_next)
        transfer_lost(t, peer->error, peer->detail);
        DL_FOREACH_SAFE2(peer->attempts, a, a_next, peer_next)
        attempt_lost(a, peer->error, peer->detail);
        connects_lost(peer);
}

static void peer_free(struct peer *peer)
{
        DL_DELETE(peer->side->fabric->all_peers, peer);
        if (peer->pidfd >= 0)
                (void)close(peer->pidfd);
        free(peer);
}

void peers_sweep(struct fabric *fabric)
{
        struct peer *peer, *next;

        if (!fabric->sweep_wanted)
                return;
        fabric->sweep_wanted = false;
        DL_FOREACH_SAFE (fabric->all_peers, peer, next) {
                if (!peer->failed)
                        continue;
                if (!peer->swept) {
                        peer->swept = true;
                        close_endpoint(peer, UCP_EP_CLOSE_FLAG_FORCE);
                        settle(peer);
                        queue_drop(peer);
                        end_traffic(peer);
                        tell_reset(peer);
                        if (peer->epoch && peer->epoch != fabric->epoch)
                                peer->side->suspect = true;
                }
                if (peer->closed && !peer->transfers && !peer->attempts) {
                        queue_drop(peer);
                        peer_free(peer);
                }
        }
}

void peer_released(struct peer *peer)
{
        peer->last_used_us = clock_now_us();
        if (peer->failed)
                peer->side->fabric->sweep_wanted = true;
}

void peers_check_processes(struct fabric *fabric)
{
        struct peer *peer;

        DL_FOREACH (fabric->all_peers, peer)
                if (!peer->failed && peer_is_dead(peer))
                        peer_fail(peer, FERRY_E_PEER_LOST, "its process ended");
}

void peers_check_moved(struct fabric *fabric)
{
        struct peer *peer;

        DL_FOREACH (fabric->all_peers, peer) {
                struct presence_peer found;

                if (!peer->epoch || peer->heard || peer->failed || (!peer->transfers && !connects_use(peer)) ||
                    presence_lookup(peer->epoch, &found) < 0)
                        continue;
                if (XXH3_64bits(found.address, found.size) != peer->address_hash) {
                        peer->moved = true;
                        peer_fail(peer, FERRY_E_PEER_LOST, "it has opened its local side anew");
                }
                presence_peer_clear(&found);
        }
}

void peers_abandon(struct fabric *fabric)
{
        struct transfer *t, *t_next;
        struct attempt *a, *a_next;
        struct peer *peer;

        DL_FOREACH (fabric->all_peers, peer) {
                if (!peer->epoch || !peer->swept)
                        continue;
                peer->quiet = true;
                DL_FOREACH_SAFE2(peer->transfers, t, t_next, peer_next)
                transfer_abandon(t, peer->error, peer->detail);
                DL_FOREACH_SAFE2(peer->attempts, a, a_next, peer_next)
                attempt_abandon(a, peer->error, peer->detail);
        }
}

void peers_close_idle(struct fabric *fabric, uint64_t now_us)
{
        struct peer *peer;

        /*
         * Only whoever opened a network endpoint asks over it, so no request can cross the close. A local endpoint
         * serves both directions and is closed when the process ends.
         */
        DL_FOREACH (fabric->all_peers, peer) {
                if (peer->failed || !peer->address[0] || peer->transfers || peer->attempts || connects_use(peer) ||
                    now_us < peer->last_used_us + FABRIC_IDLE_US)
                        continue;
                peer->failed = peer->swept = true;
                forget(peer);
                close_endpoint(peer, 0);
        }
}

void peers_close_all(struct fabric *fabric, uint64_t deadline_us)
{
        struct peer *peer;
        bool open = true;

        DL_FOREACH (fabric->all_peers, peer) {
                if (peer->failed)
                        continue;
                peer->failed = peer->swept = true;
                forget(peer);
                queue_drop(peer);
                /* One that never got through has nothing to flush; UCX would wait for it, and in the end abort. */
                close_endpoint(peer, peer->address[0] && !peer->heard ? UCP_EP_CLOSE_FLAG_FORCE : 0);
        }
        while (open && clock_now_us() < deadline_us) {
                open = false;
                for (int i = 0; i < SIDE_COUNT; i++)
                        (void)side_progress(&fabric->sides[i]);
                (void)queue_flush(fabric);
                DL_FOREACH (fabric->all_peers, peer)
                        open |= !peer->closed;
        }
        /* UCX aborts the process when its worker is destroyed while somebody holds such a request. */
        DL_FOREACH (fabric->all_peers, peer) {
                if (peer->closing)
                        ucp_request_free(peer->closing);
                peer->closing = NULL;
        }
}

void peers_free_all(struct fabric *fabric)
{
        struct peer *peer, *next;

        DL_FOREACH_SAFE (fabric->all_peers, peer, next)
                peer_free(peer);
}
