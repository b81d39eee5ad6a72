/* SPDX-License-Identifier: Apache-2.0 */
#include "route.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/util.h"
#include "engine_internal.h"
#include "peer.h"
#include "session.h"

/*
 * The choice of a link for a transfer or a connect request: shared memory if the worker's socket is on this host, else
 * UCX if both sides have it, else HTTP. A path that has failed lately is left out where another one is left, so that no
 * transfer waits for it; route->probes says which of those are to be tried again beside the transfer.
 *
 * A route lives in its requester or connect request and has copies of the peer's strings. route_take() may be called
 * again, after a name was resolved and after a link has ended. Thread: the holder of the progress lock.
 */

/* The rest is zero. */
void route_init(struct route *route, struct engine_peer *peer)
{
        (void)text_copy(route->data, sizeof(route->data), peer->data);
        (void)text_copy(route->name, sizeof(route->name), peer->name);
        (void)text_copy(route->url, sizeof(route->url), peer->url);
        route->peer = *peer = (struct engine_peer){ peer->epoch, route->data, route->name, route->url };
        route->begun_us = clock_now_us();
}

/* Why a local link cannot be opened, for users. */
static const char *local_reason(int error)
{
        switch (error) {
        case -ENOENT:
                return "the peer's socket is not in this worker's --local directory";
        case -EACCES:
                return "the worker on this machine belongs to another user";
        case -EMFILE:
        case -ENFILE:
                return "no file descriptor is left for a local link";
        default:
                return "cannot connect to the worker on this machine";
        }
}

/*
 * Opens a link, and enters it in the peer. NULL with -errno; a link that was opened already fails then, and the
 * transport reports its end as any other's.
 */
static struct session *open_session(struct transport *transport, const struct route *route, int *ret_error)
{
        struct engine *engine = transport->handlers.context;
        const struct transport_peer where = {
                .epoch = route->peer.epoch,
                .address = route->resolved.length ? (const struct sockaddr *)&route->resolved.address : NULL,
                .address_length = route->resolved.length,
        };
        struct link *link = transport->ops->connect(transport, &where, ret_error);
        struct session *session;

        if (!link)
                return NULL;
        session = session_new(engine, link);
        if (!session) {
                transport->ops->fail(link, FERRY_E_TRANSFER_FAILED, "out of memory");
                *ret_error = -ENOMEM;
                return NULL;
        }
        peer_add_link(peer_get(engine, &route->peer), session);
        return session;
}

/* The local transport's link to the worker that was opened here; NULL = none is usable. */
static struct session *find_local(struct engine *engine, uint64_t epoch)
{
        const struct peer *peer = peer_find(engine, epoch);
        struct session *session = peer ? peer->sessions : NULL;

        while (session &&
               (session->link->transport != engine->local || session->link->accepted || !session_is_usable(session)))
                session = session->peer_next;
        return session;
}

static bool is_up(const struct session *session)
{
        return session && session->link->state == LINK_UP;
}

/* Whether to leave out a transport, since its path has failed lately. Notes that it is time to try that again. */
static bool avoids(struct engine *engine, struct route *route, const struct transport *transport)
{
        struct peer *peer = route->insists ? NULL : peer_find(engine, route->peer.epoch);
        struct path *path = peer ? &peer->paths[transport->index] : NULL;

        if (!path || path->state == PATH_OPEN)
                return false;
        if (peer_get(engine, &route->peer) && path->state == PATH_OPEN) /* it has another address */
                return false;
        if (path_begin_probe(path))
                route->probes |= 1u << transport->index;
        return true;
}

/*
 * Finds or opens a link of the local transport. others: something else is left if its path was shut lately. NULL with
 * *ret_why.
 */
static struct session *take_local(struct engine *engine, struct route *route, bool others, const char **ret_why)
{
        struct session *session;
        int error = 0;

        *ret_why = NULL;
        if (route->carriers && !(route->carriers & ENGINE_CARRIER_SHM))
                *ret_why = "\"transports\" allows no shared memory";
        else if (!engine->local)
                *ret_why = "the local transport is off (--local)";
        if (*ret_why)
                return NULL;
        session = find_local(engine, route->peer.epoch);
        if (is_up(session))
                return session;
        if (others && avoids(engine, route, engine->local)) {
                *ret_why = peer_shm_shut;
                return NULL;
        }
        if (!session)
                session = open_session(engine->local, route, &error);
        if (!session)
                *ret_why = local_reason(error);
        return session;
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

/* Finds or opens a link of UCX. NULL with *ret_why, or without where the name is being resolved. */
static struct session *take_ucx(struct engine *engine, struct route *route, const char **ret_why)
{
        /* UCX cannot connect to another family than that of the network transport's address. */
        const int family = engine->facts.data_address[0] == '[' ? AF_INET6 : AF_INET;
        struct session *session = session_find(engine, route->data);
        int error = 0;

        *ret_why = NULL;
        if (is_up(session))
                return session;
        if (route->has_fallback && avoids(engine, route, engine->ucx)) {
                *ret_why = peer_ucx_shut;
                return NULL;
        }
        if (session)
                return session;
        if (route->resolved.length == 0)
                error = resolver_ask(engine, route->data, family, &route->resolved);
        if (error < 0) {
                *ret_why = unresolved_reason(error);
                return NULL;
        }
        session = open_session(engine->ucx, route, &error);
        if (session)
                session_index(session, route->data);
        else
                *ret_why = error == -ENETDOWN
                                   ? "the network transport of this worker waits for its address (--data-listen)"
                                   : "cannot connect to the peer's network address";
        return session;
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

/* A restriction by "transports" is no reason where a better one is known. peer may be NULL. */
static void note_reasons(struct peer *peer, const struct route *route, const char *no_shm, const char *no_ucx)
{
        bool known = peer && peer->no_shm;

        if (!peer)
                return;
        if (!known || !route->carriers || (route->carriers & ENGINE_CARRIER_SHM))
                peer->no_shm = no_shm;
        if (!known || !route->carriers || (route->carriers & ENGINE_CARRIER_UCX))
                peer->no_ucx = no_ucx;
}

/* ---- HTTP ---- */

/* HTTP after a failed link has at least so much of the time to connect, in tenths. */
enum { HTTP_TENTHS = 3 };

/* Whether "transports" of the transfer allow HTTP or HTTPS and nothing else. */
static bool is_http_alone(const struct route *route)
{
        return route->carriers && !(route->carriers & ~(unsigned)(ENGINE_CARRIER_HTTP | ENGINE_CARRIER_HTTPS));
}

uint64_t route_begin(const struct engine *engine, struct route *route)
{
        unsigned carrier = strncasecmp(route->url, "https:", 6) == 0 ? ENGINE_CARRIER_HTTPS : ENGINE_CARRIER_HTTP;

        route->has_fallback = route->url[0] && (!route->carriers || (route->carriers & carrier));
        return route->has_fallback ? engine->connect_us / 10 * (10 - HTTP_TENTHS) : engine->connect_us;
}

/*
 * HTTP gets what is left of the time to connect, at least HTTP_TENTHS of it. A transfer of which bytes have moved is
 * not handed over: it ends with its error, and its user decides.
 */
bool route_take_http(struct engine *engine, const struct route *route, const struct engine_transfer *transfer,
                     struct engine_outcome *outcome)
{
        char detail[ENGINE_DETAIL_SIZE] = "", links[ENGINE_DETAIL_SIZE];
        uint64_t past_us, us = engine->connect_us / 10 * HTTP_TENTHS;
        struct engine_transfer taken;
        struct peer *peer;
        int r;

        if (!route->has_fallback || outcome->error != FERRY_E_PEER_UNREACHABLE || outcome->bytes)
                return false;
        past_us = clock_now_us() - route->begun_us;
        if (past_us + us < engine->connect_us)
                us = engine->connect_us - past_us;
        peer = peer_get(engine, &route->peer);
        if (peer)
                peer->http_chosen = is_http_alone(route);
        taken = *transfer;
        taken.connect_ms_max = (uint32_t)(us / 1000);
        r = engine_http_start(engine, &taken, detail, sizeof(detail));
        explicit_bzero(taken.key, sizeof(taken.key));
        if (r == 0)
                return true;
        if (r < 0 && r != -ESHUTDOWN)
                (void)snprintf(detail, sizeof(detail), "%s", strerror(-r));
        memcpy(links, outcome->detail, sizeof(links));
        if (is_http_alone(route))
                (void)text_copy(outcome->detail, sizeof(outcome->detail), detail);
        else
                (void)snprintf(outcome->detail, sizeof(outcome->detail), "%.100s; HTTP: %.50s", links, detail);
        peer_fail(engine, peer, outcome->error, outcome->detail);
        return false;
}

/* ---- the choice ---- */

struct session *route_take(struct engine *engine, struct route *route, char *reason, size_t reason_size)
{
        const char *no_shm, *why = why_not_ucx(engine, route);
        struct peer *peer;
        struct session *session;

        reason[0] = '\0';
        if (is_http_alone(route)) {
                (void)snprintf(reason, reason_size, "the metadata has no URL that \"transports\" allows");
                return NULL;
        }
        session = take_local(engine, route, !why || route->has_fallback, &no_shm);
        if (session)
                return session;
        if (!why)
                session = take_ucx(engine, route, &why);
        peer = session ? session->peer : peer_get(engine, &route->peer);
        note_reasons(peer, route, no_shm, why);
        if (!session && why) {
                (void)snprintf(reason, reason_size, "%s; %s", no_shm, why);
                peer_fail(engine, peer, FERRY_E_PEER_UNREACHABLE, reason);
        }
        return session;
}

void route_timed_out(struct engine *engine, const struct route *route, const char *detail)
{
        struct peer *peer = peer_get(engine, &route->peer);

        if (peer && engine->ucx)
                path_fail(&peer->paths[engine->ucx->index]);
        peer_fail(engine, peer, FERRY_E_PEER_UNREACHABLE, detail);
}
