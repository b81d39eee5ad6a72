/* SPDX-License-Identifier: Apache-2.0 */
#include "connect.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/status.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/util.h"
#include "command.h"
#include "engine_internal.h"
#include "peer.h"

/*
 * Connect requests: each opens a link, or finds one, and says HELLO or a notice over it, for POST /v1/peers, for a
 * holder that declines or renews an operation, and for probes of paths that have failed. One lives from
 * connect_request_new() on any thread until end(), which calls connected() once; a probe has nobody to tell and only
 * reports to its path. A peer's notice (DECLINE, RENEW) is put to the operations, and answered at once.
 *
 * Thread: the holder of the progress lock, but for connect_request_new() and connect_request_free(). A request has no
 * memory that a transport touches, so it ends the moment its answer, its deadline or the end of its link comes. Keys
 * are wiped from the stack.
 */

/* One engine_connect. No transport touches its memory, so it may end at any time. */
struct connect_request {
        struct engine *engine;
        struct engine_connect spec; /* notice.transfer is also that of the HELLO, where there is no notice */
        struct route route;         /* has the strings of spec.peer */
        struct session *session;    /* NULL = not connected */
        struct engine_connection connection;
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
        if (!spec->notice.operation)
                c->spec.notice.transfer = random_id();
        *ret_connect = c;
        return 0;
}

void connect_request_free(struct connect_request *c)
{
        explicit_bzero(c->spec.notice.key, sizeof(c->spec.notice.key));
        free(c);
}

/* Leaves the link to others. Takes a request without a session. */
static void leave_session(struct connect_request *c)
{
        if (!c->session)
                return;
        c->session->n_connect_requests--;
        session_released(c->session);
        c->session = NULL;
}

/* A probe is over: its path is shut again, unless the link has opened it meanwhile. */
static void end_probe(struct engine *engine, uint64_t epoch, const struct transport *transport)
{
        struct peer *peer = peer_find(engine, epoch);

        if (peer)
                path_end_probe(&peer->paths[transport->index]);
}

/* Whether a notice that no link has reached the peer with is said over HTTP; if not, its connection says why. */
static bool say_over_http(struct connect_request *c)
{
        struct engine_connection *connection = &c->connection;
        char detail[ENGINE_DETAIL_SIZE] = "";
        int r;

        if (connection->error != FERRY_E_PEER_UNREACHABLE || !c->spec.notice.operation || !c->route.url[0])
                return false;
        r = engine_http_notice(c->engine, &c->spec, detail, sizeof(detail));
        if (r > 0 && r != connection->error) {
                connection->error = r;
                (void)text_copy(connection->detail, sizeof(connection->detail), detail);
        }
        return r == 0;
}

/* Ends the request, and frees it. A notice that reached nobody goes over HTTP first, which then calls connected(). */
static void end(struct connect_request *c, int error, const char *detail)
{
        struct engine_connection *connection = &c->connection;

        DL_DELETE(c->engine->connect_requests, c);
        connection->error = error;
        (void)text_copy(connection->detail, sizeof(connection->detail), detail);
        if (!error) {
                struct link *link = c->session->link;

                connection->connect_us = connection->reused ? 0 : link->connect_us;
                (void)text_copy(connection->transport, sizeof(connection->transport),
                                link->transport->ops->carrier(link));
        }
        leave_session(c);
        if (c->probes)
                end_probe(c->engine, c->spec.peer.epoch, c->probes);
        else if (!say_over_http(c))
                c->spec.connected(c->spec.context, connection);
        connect_request_free(c);
}

/* Sends a notice; the NOTICE_ACK has its transfer. */
static void send_notice(struct session *session, uint64_t to_epoch, const struct engine_notice *notice)
{
        struct wire_header h = {
                .type = notice->renews ? WIRE_RENEW : WIRE_DECLINE,
                .to_epoch = to_epoch,
                .operation = notice->operation,
                .transfer = notice->transfer,
                .length = notice->ttl_ms,
        };

        memcpy(h.key, notice->key, sizeof(h.key));
        session_send(session, &h);
        explicit_bzero(h.key, sizeof(h.key));
}

/* Sends HELLO or the notice. HELLO comes first over each link, as with a transfer, since it names this worker. */
static void speak(const struct connect_request *c)
{
        if (!c->spec.notice.operation) {
                session_send_hello(c->session, c->spec.peer.epoch, c->spec.notice.transfer);
                return;
        }
        if (!c->session->greeted)
                session_send_hello(c->session, c->spec.peer.epoch, random_id());
        send_notice(c->session, c->spec.peer.epoch, &c->spec.notice);
}

/*
 * Takes a route and speaks over its link; while a name is being resolved it waits for connect_requests_resolved().
 * Frees c when no route is left.
 */
static void greet(struct connect_request *c)
{
        char reason[128];

        c->session = route_take(c->engine, &c->route, reason, sizeof(reason));
        if (c->session) {
                c->session->n_connect_requests++;
                c->connection.reused = c->session->link->state == LINK_UP;
                speak(c);
        } else if (reason[0]) {
                end(c, FERRY_E_PEER_UNREACHABLE, reason);
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
        int r = connect_request_new(engine, &(struct engine_connect){ .peer = route->peer }, &command.connect);

        if (r == 0) {
                command.connect->probes = transport;
                command.connect->route.carriers = transport == engine->local ? ENGINE_CARRIER_SHM : ENGINE_CARRIER_UCX;
                r = command_post(engine, &command);
                if (r < 0)
                        connect_request_free(command.connect);
        }
        if (r < 0)
                end_probe(engine, route->peer.epoch, transport);
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
        const struct link *link = c->session->link;

        return !c->probes && c->route.insists && link->error == FERRY_E_PEER_UNREACHABLE &&
               link->transport == c->engine->local && route_has_network(c->engine, &c->route);
}

void connect_requests_link_ended(struct session *session, const char *detail)
{
        int error = session->link->error == FERRY_E_PROTOCOL_MISMATCH ? FERRY_E_PROTOCOL_MISMATCH
                                                                      : FERRY_E_PEER_UNREACHABLE;
        struct connect_request *c, *next;

        DL_FOREACH_SAFE (session->engine->connect_requests, c, next) {
                if (c->session != session)
                        continue;
                if (is_left(c)) {
                        leave_session(c);
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
                if (!c->session)
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
                if (c->session && link_is_connecting(c->session->link) && !session_is_shared(c->session))
                        session_fail(c->session, FERRY_E_PEER_UNREACHABLE, late);
                if (!c->session)
                        route_timed_out(engine, &c->route, late);
                end(c, FERRY_E_PEER_UNREACHABLE, late);
        }
}

void connect_on_hello(struct session *session, const struct wire_header *header, struct payload *payload)
{
        session_answer(session, header, WIRE_HELLO_ACK, 0, 0);
}

void connect_on_answer(struct session *session, const struct wire_header *header, struct payload *payload)
{
        struct connect_request *c;
        int error = session_error(header->status);

        DL_SEARCH_SCALAR(session->engine->connect_requests, c, spec.notice.transfer, header->transfer);
        if (!c || c->session != session || (header->type == WIRE_NOTICE_ACK) != (c->spec.notice.operation != 0))
                return;
        if (header->from_epoch != c->spec.peer.epoch) {
                end(c, FERRY_E_STALE_METADATA, "another worker answers at this address");
                return;
        }
        if (header->type == WIRE_NOTICE_ACK) {
                c->connection.status = (int)header->seq;
                c->connection.left_ms = header->length;
                if (!error && !ferry_status_name(c->connection.status))
                        error = FERRY_E_PEER_REFUSED;
        }
        end(c, error, error ? ferry_error_title(error) : "");
}

void connect_on_notice(struct session *session, const struct wire_header *h, struct payload *payload)
{
        struct engine *engine = session->engine;
        struct engine_notice notice = {
                .operation = h->operation,
                .transfer = h->transfer,
                .renews = h->type == WIRE_RENEW,
                .ttl_ms = h->length,
        };
        struct wire_header answer = answer_header(h, WIRE_NOTICE_ACK);
        int status = 0, error = engine->stopping ? FERRY_E_CANCELLED_BY_PEER : FERRY_E_STALE_METADATA;

        memcpy(notice.key, h->key, sizeof(notice.key));
        if (!engine->stopping && engine->operations.notice)
                error = engine->operations.notice(engine->operations.context, &notice, &status, &answer.length);
        explicit_bzero(notice.key, sizeof(notice.key));
        if (error)
                metric_add(engine->metric_refused, 1);
        answer.status = (uint32_t)(error < 0 ? FERRY_E_INTERNAL : error);
        answer.seq = (uint32_t)status;
        session_send(session, &answer);
}
