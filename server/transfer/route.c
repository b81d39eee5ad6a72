/* SPDX-License-Identifier: Apache-2.0 */
#include "route.h"

#include <errno.h>
#include <stdio.h>

#include "engine_internal.h"
#include "peer.h"
#include "resolver.h"

void route_init(struct route *route, uint64_t epoch, const char *data)
{
        *route = (struct route){ .epoch = epoch };
        (void)snprintf(route->data, sizeof(route->data), "%s", data ? data : "");
}

static const char *local_reason(int error)
{
        switch (error) {
        case -ENOENT:
                return "no such worker of this user on this machine";
        case -EACCES:
                return "the worker on this machine belongs to another user";
        case -ENODEV:
                return "the local transport is off (--local)";
        case -EPERM:
                return "\"transports\" allows no shared memory";
        case -EMFILE:
        case -ENFILE:
                return "no descriptor is left for a local link";
        default:
                return "the worker on this machine cannot be connected";
        }
}

static struct peer *open_peer(struct transport *transport, const struct route *route, int *ret_error)
{
        struct engine *engine = transport->handlers.context;
        const struct transport_peer where = {
                .epoch = route->epoch,
                .text = route->data,
                .address = route->address_length ? (const struct sockaddr *)&route->address : NULL,
                .address_length = route->address_length,
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
        return peer;
}

static struct peer *take_local(struct engine *engine, const struct route *route, int *ret_error)
{
        struct peer *peer;

        if (route->carriers && !(route->carriers & ENGINE_CARRIER_SHM)) {
                *ret_error = -EPERM;
                return NULL;
        }
        peer = peer_find_epoch(engine, route->epoch);
        if (peer || !engine->local)
                return peer;
        peer = open_peer(engine->local, route, ret_error);
        if (peer)
                peer_name_epoch(peer, route->epoch);
        return peer;
}

/* That of the network side: UCX connects no address of the other one. */
static int family_of(const struct engine *engine)
{
        return engine->facts.data_address[0] == '[' ? AF_INET6 : AF_INET;
}

/* NULL without an error: the name is being resolved. */
static struct peer *take_ucx(struct engine *engine, struct route *route, const char **ret_why)
{
        struct peer *peer = peer_find_address(engine, route->data);
        int error = 0;

        *ret_why = NULL;
        if (peer)
                return peer;
        if (!route->resolved) {
                route->resolved = true;
                error = resolver_parse(route->data, family_of(engine), &route->address, &route->address_length);
                if (error == -EAGAIN) {
                        error = resolver_start(engine, route->data, family_of(engine));
                        if (error == 0)
                                return NULL;
                        *ret_why = "too many names are being resolved";
                        return NULL;
                }
        } else if (route->address_length == 0 &&
                   !resolver_result(engine, route->data, &route->address, &route->address_length)) {
                return NULL;
        }
        if (route->address_length == 0) {
                *ret_why = "its network address cannot be resolved";
                return NULL;
        }
        peer = open_peer(engine->ucx, route, &error);
        if (peer)
                peer_name_address(peer, route->data);
        else
                *ret_why = "its network address cannot be connected";
        return peer;
}

enum route_result route_take(struct engine *engine, struct route *route, struct peer **ret_peer, char *reason,
                             size_t reason_size)
{
        const char *why = "it names no network address to try";
        int local = -ENODEV;

        *ret_peer = take_local(engine, route, &local);
        if (*ret_peer)
                return ROUTE_FOUND;
        if (route->carriers && !(route->carriers & ENGINE_CARRIER_UCX)) {
                why = "\"transports\" allows nothing else";
        } else if (route->data[0] && !engine->ucx) {
                why = "the network side of this worker is off (--data-listen)";
        } else if (route->data[0]) {
                *ret_peer = take_ucx(engine, route, &why);
                if (*ret_peer)
                        return ROUTE_FOUND;
                if (!why)
                        return ROUTE_RESOLVING;
        }
        (void)snprintf(reason, reason_size, "%s; %s", local_reason(local), why);
        return ROUTE_NONE;
}
