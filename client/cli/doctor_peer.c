/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor.h"

#include <json-c/json.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/protocol.h>

#include "member.h"
#include "table.h"

static void peer_route(struct doctor *d, const char *url)
{
        char host[256], port[16], interface[IF_NAMESIZE + 1];
        int mtu = 0;
        if (!cli_host_port(url, host, sizeof(host), port, sizeof(port)))
                return;
        if (doctor_route(host, port, interface, sizeof(interface), &mtu))
                doctor_find(d, FINDING_GOOD, NULL, "The route to %s leaves by interface %s, MTU %d.", host, interface,
                            mtu);
        else
                doctor_find(d, FINDING_BAD, "ip route get ADDRESS shows why", "No route to %s.", host);
}

/* HTTP may reach a peer whose data port does not answer. */
static void peer_data_port(struct doctor *d, const struct ferry_worker_info *peer)
{
        char host[256], port[16];
        if (!peer->data[0]) {
                doctor_find(d, FINDING_NOTE, "ferryd --data-listen ADDRESS:0 at the peer, and here",
                            "The peer's network transport is closed: from another machine only HTTP reaches it.");
                return;
        }
        if (!cli_host_port(peer->data, host, sizeof(host), port, sizeof(port)))
                return;
        int r = doctor_reach(host, port);
        if (r == 0)
                doctor_find(d, FINDING_GOOD, NULL, "The peer's data port %s takes connections.", peer->data);
        else
                doctor_find(d, FINDING_BAD,
                            "open the port in the firewall (and UCX_TCP_PORT_RANGE for the lanes), or ferryd "
                            "--data-listen with an address that is reached from here",
                            "HTTP reaches the peer, its data port %s does not answer: %s.", peer->data, strerror(-r));
}

/* Why one transport is not used; the worker tries one that has failed again. */
static void peer_unused_way(struct doctor *d, struct json_object *way)
{
        const char *retry = member_text(way, "retry_at", NULL), *name = member_text(way, "transport", "?");
        const char *reason = member_text(way, "reason", "no reason known");

        if (retry)
                doctor_find(
                        d, FINDING_NOTE, NULL,
                        "Not by %s: %s. It failed lately: the first transfer after %s tries it again, beside itself.",
                        name, reason, retry);
        else
                doctor_find(d, FINDING_NOTE, NULL, "Not by %s: %s.", name, reason);
}

/* Why the worker's link to the peer uses nothing better. */
static void peer_unused(struct doctor *d, const char *epoch)
{
        struct json_object *list = NULL, *unused;
        if (table_get_all(&d->cli->worker, "/v1/peers?limit=1000", "peers", NULL, &list) != CLI_OK)
                return;
        for (size_t i = 0; i < json_object_array_length(list); i++) {
                struct json_object *one = json_object_array_get_idx(list, i);
                if (strcmp(member_text(one, "epoch", ""), epoch) != 0)
                        continue;
                if (strncmp(member_text(one, "transport", ""), "http", 4) == 0)
                        doctor_find(d, FINDING_NOTE, NULL, "Transfers go by %s meanwhile.",
                                    member_text(one, "transport", "?"));
                for (size_t j = 0, n = member_list(one, "unused", &unused); j < n; j++)
                        peer_unused_way(d, json_object_array_get_idx(unused, j));
        }
        json_object_put(list);
}

static void peer_refused(struct doctor *d, int r, const struct ferry_worker_info *peer)
{
        const char *fix = "see the peer's log";
        switch (r) {
        case FERRY_E_FORBIDDEN:
                fix = "ferryd --allow-peer ADDRESS here";
                break;
        case FERRY_E_PEER_UNREACHABLE:
                fix = "the following lines tell which way is closed";
                break;
        case FERRY_E_PEER_REFUSED:
                fix = "ferryd --peer-token-file FILE here, with the peer's token";
                break;
        default:
                break;
        }
        doctor_find(d, FINDING_BAD, fix, "The worker cannot connect to the peer: %s.",
                    ferry_last_message(d->cli->worker.ferry));
        peer_data_port(d, peer);
        if (r == FERRY_E_PEER_UNREACHABLE)
                doctor_find(d, FINDING_NOTE, "open the ports of UCX_TCP_PORT_RANGE in both directions",
                            "UCX connects to further ports, from either machine: a firewall may drop that.");
        peer_unused(d, peer->epoch);
}

/* Two builds that cannot talk; nothing else matters then. */
static bool peer_protocol_differs(struct doctor *d, const struct ferry_worker_info *peer)
{
        char detail[160];
        bool differ = ferry_protocol_differs(d->worker.protocol, peer->protocol, detail, sizeof(detail));
        if (differ)
                doctor_find(d, FINDING_BAD, "install one version of Ferry on both (docs/versions.md)",
                            "No bytes can move between the two: %s.", detail);
        return differ;
}

static void peer_connect(struct doctor *d, const struct cli_worker *peer, const struct ferry_worker_info *info)
{
        struct ferry_peer link = { 0 };
        int r;

        if (strncmp(peer->url, "unix:", strlen("unix:")) == 0) {
                doctor_find(d, FINDING_NOTE, "ferry peers, after a transfer, or give the peer's http URL",
                            "What carries the bytes is not known: workers do not connect to a Unix socket's URL.");
                return;
        }
        r = ferry_connect_peer(d->cli->worker.ferry, peer->url, &link);
        if (r != 0) {
                peer_refused(d, r, info);
                return;
        }
        doctor_find(d, FINDING_GOOD, NULL, "Bytes to %s go by %s (%s).", link.worker, link.transport,
                    link.reused ? "connected already" : "connected now");
        peer_unused(d, link.epoch);
        if (strcmp(link.transport, "shm") != 0)
                peer_data_port(d, info);
        ferry_peer_clear(&link);
}

int doctor_peer(struct doctor *d, const char *name)
{
        struct cli_worker peer = { 0 };
        struct ferry_worker_info info = { 0 };
        int status = cli_worker_named(d->cli, name, WORKER_ITSELF, &peer);
        if (status != CLI_OK)
                return status;
        peer_route(d, peer.url);
        status = cli_result(&peer, ferry_get_worker(peer.ferry, &info));
        if (status == CLI_OK) {
                doctor_find(d, FINDING_GOOD, NULL, "Peer %s (version %s) answers at %s, %s.", info.name, info.version,
                            peer.url,
                            doctor_is_here(&info, peer.url) ? "on this machine"
                                                            : "on another machine or as another user");
                if (!peer_protocol_differs(d, &info))
                        peer_connect(d, &peer, &info);
        }
        ferry_worker_info_clear(&info);
        worker_close(&peer);
        return status;
}
