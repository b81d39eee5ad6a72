/* SPDX-License-Identifier: Apache-2.0 */
#include "route.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "contact.h"
#include "engine_internal.h"
#include "peer.h"

/* The rest is zero. */
void route_init(struct route *route, const struct engine_peer *peer)
{
        (void)text_copy(route->data, sizeof(route->data), peer->data);
        (void)text_copy(route->name, sizeof(route->name), peer->name);
        (void)text_copy(route->url, sizeof(route->url), peer->url);
        route->peer = (struct engine_peer){ peer->epoch, route->data, route->name, route->url };
}

static const char *local_reason(int error)
{
        switch (error) {
        case -ENOENT:
                return "the peer's socket is not in this worker's --local directory";
        case -EACCES:
                return "the worker on this machine belongs to another user";
        case -ENODEV:
                return "the local transport is off (--local)";
        case -EPERM:
                return "\"transports\" allows no shared memory";
        case -EHOSTDOWN:
                return contact_shm_shut;
        case -EMFILE:
        case -ENFILE:
                return "no file descriptor is left for a local link";
        default:
                return "cannot connect to the worker on this machine";
        }
}

static struct peer *open_peer(struct transport *transport, const struct route *route, int *ret_error)
{
        struct engine *engine = transport->handlers.context;
        const struct transport_peer where = {
                .epoch = route->peer.epoch,
                .address = route->resolved.length ? (const struct sockaddr *)&route->resolved.address : NULL,
                .address_length = route->resolved.length,
        };
        struct link *link = transport->ops->connect(transport, &where, ret_error);
        struct peer *peer;

        if (!link)
                return NULL;
        peer = peer_new(engine, link);
        if (!peer) {
                transport->ops->fail(link, FERRY_E_TRANSFER_FAILED, "out of memory");
                *ret_error = -ENOMEM;
                return NULL;
        }
        contact_add_link(contact_get(engine, &route->peer), peer);
        return peer;
}

static bool is_up(const struct peer *peer)
{
        return peer && peer->link->state == LINK_UP;
}

/* Whether to leave out a transport, since its path has failed lately. Notes that it is time to try that again. */
static bool avoids(struct engine *engine, struct route *route, const struct transport *transport)
{
        struct contact *contact = route->insists ? NULL : contact_find(engine, route->peer.epoch);
        struct path *path = contact ? &contact->paths[transport->index] : NULL;

        if (!path || path->state == PATH_OPEN)
                return false;
        if (contact_get(engine, &route->peer) && path->state == PATH_OPEN) /* it has another address */
                return false;
        if (path_begin_probe(path))
                route->probes |= 1u << transport->index;
        return true;
}

static struct peer *take_local(struct engine *engine, struct route *route, bool others, int *ret_error)
{
        struct peer *peer;

        if (route->carriers && !(route->carriers & ENGINE_CARRIER_SHM)) {
                *ret_error = -EPERM;
                return NULL;
        }
        if (!engine->local)
                return NULL;
        peer = peer_find_epoch(engine, route->peer.epoch);
        if (is_up(peer))
                return peer;
        if (others && avoids(engine, route, engine->local)) {
                *ret_error = -EHOSTDOWN;
                return NULL;
        }
        if (peer)
                return peer;
        peer = open_peer(engine->local, route, ret_error);
        if (peer)
                peer_index_epoch(peer, route->peer.epoch);
        return peer;
}

/* The network transport's address family: UCX cannot connect to the other one. */
static int family_of(const struct engine *engine)
{
        return engine->facts.data_address[0] == '[' ? AF_INET6 : AF_INET;
}

/* NULL = it is being resolved. */
static const char *unresolved_reason(int error)
{
        switch (error) {
        case -EINPROGRESS:
                return NULL;
        case -EACCES:
                return "--allow-peer does not admit the peer's network address";
        case -EAGAIN:
                return "too many names are being resolved";
        case -ENOMEM:
                return "the peer's network address cannot be resolved: out of memory";
        default:
                return "the peer's network address cannot be resolved";
        }
}

/* NULL without a reason: the name is being resolved. */
static struct peer *take_ucx(struct engine *engine, struct route *route, const char **ret_why)
{
        struct peer *peer = peer_find_address(engine, route->data);
        int error = 0;

        *ret_why = NULL;
        if (is_up(peer))
                return peer;
        if (route->has_fallback && avoids(engine, route, engine->ucx)) {
                *ret_why = contact_ucx_shut;
                return NULL;
        }
        if (peer)
                return peer;
        if (route->resolved.length == 0)
                error = resolver_ask(engine, route->data, family_of(engine), &route->resolved);
        if (error < 0) {
                *ret_why = unresolved_reason(error);
                return NULL;
        }
        peer = open_peer(engine->ucx, route, &error);
        if (peer)
                peer_index_address(peer, route->data);
        else
                *ret_why = error == -ENETDOWN
                                   ? "the network transport of this worker waits for its address (--data-listen)"
                                   : "cannot connect to the peer's network address";
        return peer;
}

/* Why the network transport is not tried; NULL = it is. */
static const char *why_not_ucx(const struct engine *engine, const struct route *route)
{
        if (route->carriers && !(route->carriers & ENGINE_CARRIER_UCX))
                return "\"transports\" allows nothing else";
        if (route->data[0] == '\0')
                return "the peer has no network address (its --data-listen)";
        if (!engine->ucx)
                return "the network transport of this worker is off (--data-listen)";
        return NULL;
}

bool route_has_network(const struct engine *engine, const struct route *route)
{
        return !why_not_ucx(engine, route);
}

/* A restriction by "transports" is no reason where a better one is known. contact may be NULL. */
static void note_reasons(struct contact *contact, const struct route *route, const char *no_shm, const char *no_ucx)
{
        bool known = contact && contact->no_shm;

        if (!contact)
                return;
        if (!known || !route->carriers || (route->carriers & ENGINE_CARRIER_SHM))
                contact->no_shm = no_shm;
        if (!known || !route->carriers || (route->carriers & ENGINE_CARRIER_UCX))
                contact->no_ucx = no_ucx;
}

enum route_result route_take(struct engine *engine, struct route *route, struct peer **ret_peer, char *reason,
                             size_t reason_size)
{
        struct contact *contact;
        const char *why = why_not_ucx(engine, route);
        int local = -ENODEV;

        *ret_peer = take_local(engine, route, !why || route->has_fallback, &local);
        if (*ret_peer)
                return ROUTE_FOUND;
        if (!why)
                *ret_peer = take_ucx(engine, route, &why);
        contact = *ret_peer ? (*ret_peer)->contact : contact_get(engine, &route->peer);
        note_reasons(contact, route, local_reason(local), why);
        if (*ret_peer)
                return ROUTE_FOUND;
        if (!why)
                return ROUTE_RESOLVING;
        (void)snprintf(reason, reason_size, "%s; %s", local_reason(local), why);
        contact_fail(engine, contact, FERRY_E_PEER_UNREACHABLE, reason);
        return ROUTE_NONE;
}

void route_timed_out(struct engine *engine, const struct route *route, const char *detail)
{
        struct contact *contact = contact_get(engine, &route->peer);

        if (contact && engine->ucx)
                path_fail(&contact->paths[engine->ucx->index]);
        contact_fail(engine, contact, FERRY_E_PEER_UNREACHABLE, detail);
}
