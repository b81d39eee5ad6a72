/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "fabric_internal.h"

/*
 * The way to a peer, which transfers share, and connecting for its own sake: a HELLO goes there, and when its answer is
 * back the connection stands, so that the first transfer finds it.
 */

/* One fabric_connect. It owns no memory that UCX touches, so it may end at any time. */
struct connect {
        struct fabric *fabric;
        struct fabric_connect spec;
        struct way way;
        uint64_t id;       /* the HELLO's transfer */
        struct peer *peer; /* NULL = not connected */
        bool reused;       /* the endpoint was there, and had been heard */
        uint64_t deadline_us;
        struct connect *prev, *next; /* fabric's connects */
};

/* ---- the way ---- */

/* "host:port", "[v6]:port". */
static int resolve(const char *text, struct way *way)
{
        FERRY_CLEANUP(cleanup_free) char *copy = strdup(text);
        struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list;
        char *colon = copy ? strrchr(copy, ':') : NULL, *host = copy;

        if (!colon)
                return copy ? -EINVAL : -ENOMEM;
        *colon = '\0';
        if (host[0] == '[' && colon > host + 1 && colon[-1] == ']') {
                colon[-1] = '\0';
                host++;
        }
        /* UCX takes one address. Of a name with both kinds that is IPv4, which workers listen on unless told otherwise.
         */
        hints.ai_family = AF_INET;
        if (getaddrinfo(host, colon + 1, &hints, &list) != 0) {
                hints.ai_family = AF_INET6;
                if (getaddrinfo(host, colon + 1, &hints, &list) != 0)
                        return -EADDRNOTAVAIL;
        }
        memcpy(&way->address, list->ai_addr, list->ai_addrlen);
        way->address_length = list->ai_addrlen;
        freeaddrinfo(list);
        return 0;
}

void way_init(struct way *way, uint64_t epoch, const char *data)
{
        *way = (struct way){ .epoch = epoch };
        (void)snprintf(way->data, sizeof(way->data), "%s", data ? data : "");
        if (way->data[0] && resolve(way->data, way) < 0)
                log_event(LOG_INFO, "a peer's network address cannot be resolved", LOG_S("address", way->data));
}

static const char *local_reason(int error)
{
        switch (error) {
        case -ENOENT:
                return "no such worker of this user on this machine";
        case -ESRCH:
                return "that worker is dead";
        case -EXDEV:
                return "the worker is on this machine, but in other namespaces";
        case -EACCES:
                return "the worker on this machine belongs to another user";
        case -ENODEV:
                return "the shared-memory side is off";
        default:
                return "the shared-memory side cannot connect";
        }
}

struct peer *way_take(struct fabric *fabric, const struct way *way, char *reason, size_t reason_size)
{
        int local = -ENODEV, network = -ENODEV;
        struct peer *peer = peer_local(fabric, way->epoch, &local);
        const char *why = "it names no network address to try";

        if (!peer && way->address.ss_family != 0)
                peer = peer_network(fabric, way->data, (const struct sockaddr *)&way->address, way->address_length,
                                    &network);
        if (peer)
                return peer;
        if (way->address.ss_family != 0)
                why = fabric->sides[SIDE_NETWORK].worker ? "its network address cannot be connected"
                                                         : "the network side of this worker is off (--data-listen)";
        (void)snprintf(reason, reason_size, "%s; %s", local_reason(local), why);
        return NULL;
}

/* ---- connecting ---- */

int connect_new(struct fabric *fabric, const struct fabric_connect *spec, struct connect **ret_connect)
{
        struct connect *c = calloc(1, sizeof(*c));

        if (!c)
                return -ENOMEM;
        c->fabric = fabric;
        c->spec = *spec;
        way_init(&c->way, spec->peer_epoch, spec->peer_data);
        c->spec.peer_data = c->way.data;
        c->id = random_id();
        *ret_connect = c;
        return 0;
}

void connect_free(struct connect *c)
{
        free(c);
}

static void end(struct connect *c, int error, const char *detail)
{
        struct fabric_connection connection = { .error = error, .reused = c->reused };

        DL_DELETE(c->fabric->connects, c);
        if (error) {
                connection.reused = false;
                (void)snprintf(connection.detail, sizeof(connection.detail), "%s", detail);
        } else {
                connection.connect_us = c->reused ? 0 : c->peer->connect_us;
                (void)snprintf(connection.transport, sizeof(connection.transport), "%s", peer_transport(c->peer));
        }
        if (c->peer)
                peer_released(c->peer);
        c->spec.connected(c->spec.context, &connection);
        connect_free(c);
}

/* It may be gone afterwards. */
static void greet(struct connect *c)
{
        struct wire_header h = {
                .type = WIRE_HELLO,
                .to_epoch = c->spec.peer_epoch,
                .from_epoch = c->fabric->epoch,
                .operation = c->id, /* not used, but never 0 */
                .transfer = c->id,
        };
        char reason[128];

        c->peer = way_take(c->fabric, &c->way, reason, sizeof(reason));
        if (!c->peer) {
                end(c, FERRY_E_PEER_UNREACHABLE, reason);
                return;
        }
        c->reused = c->peer->heard;
        message_send_header(c->peer, &h);
}

void connect_run(struct fabric *fabric, struct connect *c)
{
        c->deadline_us = clock_now_us() + fabric->connect_us;
        DL_APPEND(fabric->connects, c);
        if (c->deadline_us < fabric->tick_us)
                fabric->tick_us = c->deadline_us;
        if (fabric->stopping)
                end(c, FERRY_E_CANCELLED, "the worker is shutting down");
        else
                greet(c);
}

void connects_cancel(struct fabric *fabric)
{
        struct connect *c, *next;

        DL_FOREACH_SAFE (fabric->connects, c, next)
                end(c, FERRY_E_CANCELLED, "the worker is shutting down");
}

/* ---- events ---- */

bool connects_use(const struct peer *peer)
{
        const struct connect *c;

        DL_FOREACH (peer->side->fabric->connects, c)
                if (c->peer == peer)
                        return true;
        return false;
}

void connects_lost(struct peer *peer)
{
        struct fabric *fabric = peer->side->fabric;
        struct connect *c, *next;

        DL_FOREACH_SAFE (fabric->connects, c, next) {
                if (c->peer != peer)
                        continue;
                if (peer->moved && !fabric->stopping)
                        greet(c); /* it has another address now */
                else
                        end(c, FERRY_E_PEER_UNREACHABLE, peer->detail);
        }
}

uint64_t connects_tick(struct fabric *fabric, uint64_t now_us)
{
        static const char late[] = "no answer within the connect time";
        uint64_t first_us = UINT64_MAX;
        struct connect *c, *next;

        DL_FOREACH_SAFE (fabric->connects, c, next) {
                if (now_us < c->deadline_us) {
                        first_us = c->deadline_us < first_us ? c->deadline_us : first_us;
                        continue;
                }
                /* One that was heard before may be slow with others, whose transfers have limits of their own. */
                if (!c->peer->heard)
                        peer_fail(c->peer, FERRY_E_PEER_UNREACHABLE, late);
                end(c, FERRY_E_PEER_UNREACHABLE, late);
        }
        return first_us;
}

void connect_on_hello(struct fabric *fabric, struct peer *peer, const struct wire_header *header)
{
        struct wire_header h = {
                .type = WIRE_HELLO_ACK,
                .to_epoch = header->from_epoch,
                .from_epoch = fabric->epoch,
                .operation = header->operation,
                .transfer = header->transfer,
        };

        message_send_header(peer, &h);
}

void connect_on_hello_ack(struct fabric *fabric, struct peer *peer, const struct wire_header *header)
{
        struct connect *c;

        DL_SEARCH_SCALAR(fabric->connects, c, id, header->transfer);
        if (!c || c->peer != peer)
                return;
        if (header->from_epoch != c->spec.peer_epoch)
                end(c, FERRY_E_STALE_METADATA, "another worker answers at this address");
        else if (header->status == 0)
                end(c, 0, "");
}
