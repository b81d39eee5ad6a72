/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor.h"

#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ferry/protocol.h>

/*
 * ferry doctor: what carries the bytes of a worker, and to a peer, and why nothing better does. Each look is a finding
 * (doctor.h), which names the command that mends it. What the worker tells comes from its answers; what is looked at
 * here (doctor_host.c) is this machine, and counts only where the worker runs on it.
 */

/* ---- another worker ---- */

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

static int doctor_peer(struct doctor *d, const char *name)
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

/* ---- the worker ---- */

static bool doctor_is_loopback(const char *url)
{
        return strstr(url, "://127.") || strstr(url, "://localhost") || strstr(url, "://[::1]") ||
               strncmp(url, "unix:", 5) == 0 || strncmp(url, "127.", 4) == 0 || strncmp(url, "[::1]", 5) == 0;
}

static void doctor_http(struct doctor *d)
{
        struct json_object *answer = table_parse(d->worker.json), *addresses = NULL, *urls = NULL;
        bool beyond = false;
        json_object_object_get_ex(answer, "addresses", &addresses);
        for (size_t i = 0, n = member_list(addresses, "http", &urls); i < n; i++)
                beyond |= !doctor_is_loopback(member_item(urls, i));
        json_object_put(answer);
        doctor_find(d, FINDING_GOOD, NULL, "Worker %s (version %s) answers at %s.", d->worker.name, d->worker.version,
                    d->cli->worker.url);
        if (!beyond)
                doctor_find(d, FINDING_NOTE, "ferryd --listen ADDRESS:9300 --token-file FILE",
                            "HTTP is open on this machine only: peers elsewhere cannot fetch metadata.");
}

static void doctor_transports(struct doctor *d)
{
        const char *data = d->worker.data;
        char list[256];
        if (d->worker.local)
                doctor_find(d, FINDING_GOOD, NULL,
                            "Peers on this machine, of this user: shared memory, copied once (shm).");
        else
                doctor_find(
                        d, FINDING_NOTE, "ferryd --local auto",
                        "Shared memory is off: peers on this machine are reached over the network transport, or HTTP.");
        table_format(d->devices, &(struct table_column){ "", "transports", TABLE_LIST }, list, sizeof(list));
        if (!*data)
                doctor_find(d, FINDING_NOTE,
                            "ferryd --data-listen ADDRESS:0 (in a network where every peer is trusted)",
                            "The network transport is closed: bytes to other machines go by HTTP, the slowest path.");
        else if (doctor_is_loopback(data))
                doctor_find(d, FINDING_NOTE, "ferryd --data-listen ADDRESS:PORT",
                            "The network transport is open at %s, for this machine only, by UCX: %s.", data, list);
        else
                doctor_find(d, FINDING_GOOD, NULL, "Peers on other machines: UCX at %s, by %s.", data, list);
        if (d->pid)
                doctor_find(d, FINDING_GOOD, NULL, "Files are copied from and into regions directly, without HTTP.");
        else
                doctor_find(d, FINDING_NOTE, "run ferry on the worker's machine, as its user",
                            "Files go to and from this worker through HTTP: it runs elsewhere, or as another user.");
}

/* ---- devices ---- */

static void doctor_port(struct doctor *d, const char *nic, struct json_object *port)
{
        struct json_object *number = NULL;
        json_object_object_get_ex(port, "number", &number);
        const char *state = member_text(port, "state", "in an unknown state");
        bool active = strcasestr(state, "active");
        doctor_find(d, active ? FINDING_GOOD : FINDING_BAD,
                    active ? NULL : "check the cable and the switch port; ip link set IFACE up; ibstat shows the port",
                    "RDMA port %s:%d (%s) is %s.", nic, json_object_get_int(number),
                    member_text(port, "link_layer", "?"), state);
}

static void doctor_rdma(struct doctor *d)
{
        struct json_object *nics = NULL, *ports;
        const char *error = member_text(d->devices, "rdma_error", NULL);
        size_t n = member_list(d->devices, "rdma", &nics);
        if (n == 0)
                doctor_find(d, FINDING_NOTE,
                            error ? "modprobe ib_uverbs, and the driver of the card" : "ibv_devinfo lists cards",
                            "No RDMA: %s.", error ? error : "no RDMA network card");
        for (size_t i = 0; i < n; i++) {
                struct json_object *nic = json_object_array_get_idx(nics, i);
                for (size_t j = 0, n_ports = member_list(nic, "ports", &ports); j < n_ports; j++)
                        doctor_port(d, member_text(nic, "name", "?"), json_object_array_get_idx(ports, j));
        }
}

/* What is not told yet: without a GPU only why there is none, and never again why there is no RDMA. */
static bool doctor_gpu_is_news(const char *missing, size_t gpus)
{
        if (gpus == 0)
                return strstr(missing, "CUDA driver") || strstr(missing, "no GPU");
        return !strstr(missing, "RDMA devices could not be listed") && !strstr(missing, "no RDMA network card");
}

static void doctor_gpu(struct doctor *d)
{
        struct json_object *memory = NULL, *gpu = NULL, *possible = NULL, *missing = NULL;
        size_t gpus = 0;
        for (size_t i = 0, n = member_list(d->devices, "memory", &memory); i < n; i++)
                gpus += strncmp(member_text(json_object_array_get_idx(memory, i), "name", ""), "cuda", 4) == 0;
        if (gpus)
                doctor_find(d, FINDING_GOOD, NULL, "%zu GPU%s: regions can be in GPU memory.", gpus,
                            gpus == 1 ? "" : "s");
        json_object_object_get_ex(d->devices, "gpu_direct_rdma", &gpu);
        if (json_object_object_get_ex(gpu, "possible", &possible) && json_object_get_boolean(possible)) {
                doctor_find(d, FINDING_GOOD, NULL, "GPU Direct RDMA is possible.");
                return;
        }
        for (size_t i = 0, n = member_list(gpu, "missing", &missing); i < n; i++) {
                const char *text = member_item(missing, i), *colon = strstr(text, ": ");
                if (doctor_gpu_is_news(text, gpus))
                        doctor_find(d, FINDING_NOTE, colon ? colon + 2 : NULL, "%s: %.*s.",
                                    gpus ? "No GPU Direct RDMA" : "No GPU",
                                    colon ? (int)(colon - text) : (int)strlen(text) - 1, text);
        }
}

/* ---- the command ---- */

/* Asks the worker for what the findings are about. An exit status. */
static int doctor_ask(struct doctor *d)
{
        struct cli_worker *worker = &d->cli->worker;
        int status = cli_connect(d->cli);
        if (status == CLI_OK)
                status = cli_result(worker, ferry_get_worker(worker->ferry, &d->worker));
        if (status == CLI_OK)
                status = table_get(worker, "/v1/devices", "transports", json_type_array, &d->devices);
        if (status == CLI_OK && doctor_is_here(&d->worker, worker->url))
                d->pid = (pid_t)d->worker.pid;
        return status;
}

int cli_run_doctor(struct cli *cli, int argc, char **argv)
{
        struct doctor d = { .cli = cli, .findings = cli->json ? json_object_new_array() : NULL };
        int status = doctor_ask(&d);
        if (status == CLI_OK) {
                doctor_http(&d);
                doctor_transports(&d);
                doctor_rdma(&d);
                doctor_gpu(&d);
                doctor_memory(&d);
                doctor_interfaces(&d);
                if (argc > 1)
                        status = doctor_peer(&d, argv[1]);
        }
        if (d.findings && d.worker.json)
                (void)table_print_document(d.findings);
        json_object_put(d.findings);
        ferry_worker_info_clear(&d.worker);
        json_object_put(d.devices);
        return status == CLI_OK && d.bad ? CLI_PROBLEM : status;
}
