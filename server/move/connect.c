/* SPDX-License-Identifier: Apache-2.0 */
#include "connect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/status.h>

#include "base/clock.h"
#include "base/util.h"
#include "command.h"
#include "contact.h"
#include "engine_internal.h"

/*
 * Connect requests: each opens a link, or finds one, and says HELLO or a notice over it, for POST /v1/peers, for a
 * holder that declines or renews an operation, and for probes of paths that have failed. One lives from
 * connect_request_new() on any thread until end(), which calls connected() once; a probe has nobody to tell and only
 * reports to its path.
 *
 * Thread: the holder of the progress lock, but for connect_request_new() and connect_request_free(). A request has no
 * memory that a transport touches, so it ends the moment its answer, its deadline or the end of its link comes.
 */

/* One engine_connect. No transport touches its memory, so it may end at any time. */
struct connect_request {
        struct engine *engine;
        struct engine_connect spec;
        struct route route;
        uint64_t id;              /* transfer id of the HELLO or the notice */
        struct peer *peer;        /* NULL = not connected */
        bool reused;              /* the link was up already */
        uint64_t left_ms;         /* answer to the notice */
        int status;               /* the same */
        struct transport *probes; /* tries this one's path alone, for nobody that waits; NULL = an engine_connect */
        uint64_t deadline_us;
        struct connect_request *prev, *next; /* the engine's */
};

int connect_request_new(struct engine *engine, const struct engine_connect *spec, struct connect_request **ret_connect)
{
        struct connect_request *c = calloc(1, sizeof(*c));

        if (!c)
                return -ENOMEM;
        c->engine = engine;
        c->spec = *spec;
        route_init(&c->route, &c->spec.peer);
        c->route.insists = true;
        c->id = spec->notice.operation ? spec->notice.transfer : random_id();
        *ret_connect = c;
        return 0;
}

void connect_request_free(struct connect_request *c)
{
        explicit_bzero(c->spec.notice.key, sizeof(c->spec.notice.key));
        free(c);
}

/* Leaves the link to others. Takes a request without a peer. */
static void leave_peer(struct connect_request *c)
{
        if (!c->peer)
                return;
        c->peer->n_connect_requests--;
        peer_released(c->peer);
        c->peer = NULL;
}

/* A probe is over: its path is shut again, unless the link has opened it meanwhile. */
static void end_probe(struct engine *engine, uint64_t epoch, const struct transport *transport)
{
        struct contact *contact = contact_find(engine, epoch);

        if (contact)
                path_end_probe(&contact->paths[transport->index]);
}

/* Whether a notice that no link has reached the peer with is said over HTTP; if not, *error and *detail say why. */
static bool say_over_http(const struct connect_request *c, int *error, char *detail, size_t detail_size)
{
        struct engine_connect spec = c->spec;
        int r;

        if (*error != FERRY_E_PEER_UNREACHABLE || !spec.notice.operation || !c->route.url[0])
                return false;
        spec.peer = c->route.peer;
        r = engine_http_notice(c->engine, &spec, detail, detail_size);
        explicit_bzero(spec.notice.key, sizeof(spec.notice.key));
        if (r > 0)
                *error = r;
        return r == 0;
}

/* Ends the request, and frees it. A notice that reached nobody goes over HTTP first, which then calls connected(). */
static void end(struct connect_request *c, int error, const char *detail)
{
        struct engine_connection connection = { .error = error };

        DL_DELETE(c->engine->connect_requests, c);
        if (c->probes) {
                leave_peer(c);
                end_probe(c->engine, c->spec.peer.epoch, c->probes);
                free(c);
                return;
        }
        if (say_over_http(c, &connection.error, connection.detail, sizeof(connection.detail))) {
                leave_peer(c);
                connect_request_free(c);
                return;
        }
        if (error == connection.error && error) {
                (void)snprintf(connection.detail, sizeof(connection.detail), "%s", detail);
        } else if (!error) {
                struct link *link = c->peer->link;

                connection.status = c->status;
                connection.left_ms = c->left_ms;
                connection.reused = c->reused;
                connection.connect_us = c->reused ? 0 : link->connect_us;
                (void)snprintf(connection.transport, sizeof(connection.transport), "%s",
                               link->transport->ops->carrier(link));
        }
        leave_peer(c);
        c->spec.connected(c->spec.context, &connection);
        connect_request_free(c);
}

/* Sends HELLO or the notice. HELLO comes first over each link, as with a transfer, since it names this worker. */
static void speak(const struct connect_request *c)
{
        if (!c->spec.notice.operation) {
                peer_send_hello(c->peer, c->spec.peer.epoch, c->id);
                return;
        }
        if (!c->peer->greeted)
                peer_send_hello(c->peer, c->spec.peer.epoch, random_id());
        notice_send(c->peer, c->spec.peer.epoch, &c->spec.notice);
}

/*
 * Takes a route and speaks over its link; while a name is being resolved it waits for connect_requests_resolved().
 * Frees c when no route is left.
 */
static void greet(struct connect_request *c)
{
        char reason[128];

        switch (route_take(c->engine, &c->route, &c->peer, reason, sizeof(reason))) {
        case ROUTE_FOUND:
                c->peer->n_connect_requests++;
                c->reused = c->peer->link->state == LINK_UP;
                speak(c);
                break;
        case ROUTE_RESOLVING:
                break;
        case ROUTE_NONE:
                end(c, FERRY_E_PEER_UNREACHABLE, reason);
                break;
        }
}

void connect_request_begin(struct engine *engine, struct connect_request *c)
{
        c->deadline_us = clock_now_us() + engine->connect_us;
        DL_APPEND(engine->connect_requests, c);
        engine_tick_before(engine, c->deadline_us);
        greet(c);
}

void connect_probe(struct engine *engine, const struct route *route, struct transport *transport)
{
        struct command command = { .type = COMMAND_CONNECT };

        if (connect_request_new(engine, &(struct engine_connect){ .peer = route->peer }, &command.connect) < 0) {
                end_probe(engine, route->peer.epoch, transport);
                return;
        }
        command.connect->probes = transport;
        command.connect->route.carriers = transport == engine->local ? ENGINE_CARRIER_SHM : ENGINE_CARRIER_UCX;
        if (command_post(engine, &command) < 0) {
                free(command.connect);
                end_probe(engine, route->peer.epoch, transport);
        }
}

void connect_requests_cancel(struct engine *engine)
{
        struct connect_request *c, *next;

        DL_FOREACH_SAFE (engine->connect_requests, c, next)
                end(c, FERRY_E_CANCELLED, "the worker is shutting down");
}

/*
 * Whether to go on by the network, since the local link could not be made. This happens once: the caller clears
 * insists, and from then on the route leaves out a path that failed lately.
 */
static bool is_left(const struct connect_request *c)
{
        const struct link *link = c->peer->link;

        return !c->probes && c->route.insists && link->error == FERRY_E_PEER_UNREACHABLE &&
               link->transport == c->engine->local && route_has_network(c->engine, &c->route);
}

void connect_requests_link_ended(struct peer *peer, const char *detail)
{
        int error =
                peer->link->error == FERRY_E_PROTOCOL_MISMATCH ? FERRY_E_PROTOCOL_MISMATCH : FERRY_E_PEER_UNREACHABLE;
        struct connect_request *c, *next;

        DL_FOREACH_SAFE (peer->engine->connect_requests, c, next) {
                if (c->peer != peer)
                        continue;
                if (is_left(c)) {
                        leave_peer(c);
                        c->route.insists = false;
                        greet(c);
                } else {
                        end(c, error, detail);
                }
        }
}

void connect_requests_resolved(struct engine *engine)
{
        struct connect_request *c, *next;

        DL_FOREACH_SAFE (engine->connect_requests, c, next)
                if (!c->peer)
                        greet(c);
}

void connect_requests_tick(struct engine *engine, uint64_t now_us)
{
        static const char late[] = "no answer within the connect time";
        struct connect_request *c, *next;

        DL_FOREACH_SAFE (engine->connect_requests, c, next) {
                if (now_us < c->deadline_us) {
                        engine_tick_before(engine, c->deadline_us);
                        continue;
                }
                /* Others on the link have limits of their own: it may be slow because of them, or they came later. */
                if (c->peer && link_is_connecting(c->peer->link) && !peer_is_shared(c->peer))
                        peer_fail(c->peer, FERRY_E_PEER_UNREACHABLE, late);
                if (!c->peer)
                        route_timed_out(engine, &c->route, late);
                end(c, FERRY_E_PEER_UNREACHABLE, late);
        }
}

void connect_on_hello(struct peer *peer, const struct wire_header *header, struct payload *payload)
{
        peer_answer(peer, header, WIRE_HELLO_ACK, 0, 0);
}

void connect_on_hello_ack(struct peer *peer, const struct wire_header *header)
{
        struct connect_request *c;

        DL_SEARCH_SCALAR(peer->engine->connect_requests, c, id, header->transfer);
        if (!c || c->peer != peer || c->spec.notice.operation)
                return;
        if (header->from_epoch != c->spec.peer.epoch)
                end(c, FERRY_E_STALE_METADATA, "another worker answers at this address");
        else if (header->status == 0)
                end(c, 0, "");
}

void connect_on_notice_ack(struct peer *peer, const struct wire_header *header, struct payload *payload)
{
        struct connect_request *c;
        int error = notice_error(header->status);

        DL_SEARCH_SCALAR(peer->engine->connect_requests, c, id, header->transfer);
        if (!c || c->peer != peer || !c->spec.notice.operation)
                return;
        if (header->from_epoch != c->spec.peer.epoch) {
                end(c, FERRY_E_STALE_METADATA, "another worker answers at this address");
                return;
        }
        c->status = (int)header->seq;
        c->left_ms = header->length;
        if (!error && !ferry_status_name(c->status))
                error = FERRY_E_PEER_REFUSED;
        end(c, error, error ? ferry_error_title(error) : "");
}
