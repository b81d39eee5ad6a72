/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_internal.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <ferry/commit.h>
#include <ferry/encoding.h>
#include <ferry/json_write.h>

#include "base/address.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "http/server.h"
#include "move/engine.h"
#include "peers/peers.h"
#include "registry/registry.h"

/*
 * How others reach the worker: its HTTP server, its addresses in metadata, and its name in the registry. The server
 * gets everything that its endpoints use in one struct http_config, with the limits that GET /v1/limits shows.
 *
 * Thread: the one that starts the worker; worker_origin_look() any, worker_reload() one at a time.
 */

/* Files for all but HTTP connections. */
enum { DESCRIPTORS_KEPT = 256 };

/* A shard needs a descriptor, too; at most SHARD_CONNECTIONS (server/http/serve/serve_internal.h). */
enum { CONNECTIONS_A_DESCRIPTOR = 32 };

enum { HTTP_SPIN_PART = 3 }; /* of the engine's spin time, since there are several HTTP threads */

/* ---- the HTTP server ---- */

/* The HTTP server's calls to the engine, which is below it: the server sees no struct engine. */
static int on_connect(void *context, const struct engine_connect *connect)
{
        struct ferry_worker *worker = context;

        return engine_connect(worker->engine, connect);
}

static ssize_t on_peers_page(void *context, uint64_t *cursor, struct engine_peer_view *page, size_t max)
{
        struct ferry_worker *worker = context;

        return engine_peers_page(worker->engine, cursor, page, max);
}

/* The number of connections that leaves descriptors for everything else. */
static uint64_t connections_possible(uint64_t wanted)
{
        struct rlimit files;
        uint64_t possible;

        if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur == RLIM_INFINITY)
                return wanted;
        if (files.rlim_cur <= 2 * DESCRIPTORS_KEPT)
                possible = at_least(files.rlim_cur / 2, 1);
        else
                possible = files.rlim_cur - DESCRIPTORS_KEPT;
        possible -= possible / CONNECTIONS_A_DESCRIPTOR;
        if (possible >= wanted)
                return wanted;
        log_event(LOG_INFO, "the limit of open files allows fewer connections than --max-connections",
                  LOG_U("connections", possible), LOG_U("wanted", wanted), LOG_U("files", files.rlim_cur),
                  LOG_S("advice", "ulimit -n, LimitNOFILE="));
        return possible;
}

/* Borrows the secrets of the settings. */
static struct http_secrets worker_secrets(const struct worker_settings *settings)
{
        return (struct http_secrets){ .token = settings->secrets.token,
                                      .peer_token = settings->secrets.peer_token,
                                      .metrics_token = settings->secrets.metrics_token,
                                      .tls_cert = settings->secrets.tls_cert_pem,
                                      .tls_key = settings->secrets.tls_key_pem,
                                      .tls_client_ca = settings->secrets.tls_client_ca_pem };
}

int worker_reload(struct ferry_worker *worker)
{
        int r = worker_settings_reread(worker->settings);

        if (r < 0)
                return r;
        const struct http_secrets secrets = worker_secrets(worker->settings);
        if (worker->http)
                r = http_server_reload(worker->http, &secrets);
        if (r == 0)
                r = peers_set_token(worker->peers, worker->settings->secrets.peer_token);
        if (r < 0)
                (void)worker_fail(r, "%s",
                                  r == -EINVAL ? "--tls-cert, --tls-key or --tls-client-ca is not usable"
                                               : strerror(-r));
        return r;
}

/*
 * Without --listen the worker serves no HTTP, and worker->http stays NULL. The limits that have no flag are set here.
 */
int worker_listen(struct ferry_worker *worker)
{
        const struct worker_settings *settings = worker->settings;
        const struct ferry_worker_options *options = &settings->options;
        const struct http_config config = {
                .routes = { http_routes, http_routes_count },
                .listen = (const char *const *)options->listen.items,
                .n_listen = options->listen.n,
                .advertise = options->advertise,
                .advertise_url = settings->advertise_url,
                .secrets = worker_secrets(settings),
                .allow_host = (const char *const *)options->allow_host.items,
                .n_allow_host = options->allow_host.n,
                .allow_origin = (const char *const *)options->allow_origin.items,
                .n_allow_origin = options->allow_origin.n,
                .threads = (unsigned)options->http_threads,
                .spin_us = (uint32_t)options->spin_us / HTTP_SPIN_PART,
                .worker_name = options->name,
                .version = FERRY_VERSION,
                .commit = ferry_commit,
                .epoch = worker->epoch,
                .engine = engine_get_facts(worker->engine),
                .operations = worker->operations,
                .mover = worker->http_mover,
                .operation_limits = &worker->limits,
                .regions = worker->regions,
                .peers = worker->peers,
                .registry = worker->registry,
                .connector = { .connect = on_connect, .peers_page = on_peers_page, .context = worker },
                .events = worker->events,
                .loop = worker->loop,
                .metrics = worker->metrics,
                .limits = { .body_max = 8 << 20,
                            .bodies_max = 64 * (8 << 20),
                            .batch_max = 1024,
                            .ids_max = 512, /* they fill about half of a head */
                            .descriptors_max = FERRY_METADATA_DESCRIPTORS,
                            .wait_ms_max = 55 * 1000, /* proxies give up after 60 s of silence */
                            .waiters_max = options->max_waiters,
                            .links_max = options->max_links,
                            .connections_max = connections_possible(options->max_connections),
                            .page_max = 1000,
                            .regions_max = options->max_regions,
                            .memory_limit = options->memory_limit,
                            .idempotency_max = 4096 },
        };

        return options->listen.n ? http_server_new(&config, &worker->http) : 0;
}

int worker_make_ready_line(struct ferry_worker *worker)
{
        const struct engine_facts *facts = engine_get_facts(worker->engine);
        struct ferry_json_writer line = { 0 };
        const char *url;

        ferry_json_begin_object(&line);
        ferry_json_add_string(&line, "event", "ready");
        ferry_json_open_array(&line, "http");
        for (size_t i = 0; (url = http_server_url(worker->http, i)); i++)
                ferry_json_put_string(&line, url);
        ferry_json_end_array(&line);
        if (engine_network_is_open(facts))
                ferry_json_add_string(&line, "data", facts->data_address);
        ferry_json_add_string(&line, "worker", worker->settings->options.name);
        ferry_json_add_uint(&line, "pid", (uint64_t)getpid());
        ferry_json_end_object(&line);
        worker->ready_line = ferry_json_take(&line, NULL);
        return worker->ready_line ? 0 : -ENOMEM;
}

/* ---- addresses ---- */

/*
 * The addresses in metadata of operations made without HTTP. A client's connection would show by which address it
 * reaches this host; without one, a listener on all addresses is named by that of the default route. Each may change:
 * the network transport may open later, and the route may go elsewhere.
 */

/* Addresses reserved for documentation; no packet is sent. */
static const char *const outside[] = { "192.0.2.1", "2001:db8::1" };

/*
 * Finds the address of this host from which the kernel would reach the target: connect() of a datagram socket looks up
 * the route and sends nothing. Returns false when no route leads there.
 */
static bool look_outside(const char *target, char host[ADDRESS_HOST_SIZE])
{
        const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_DGRAM };
        FERRY_CLEANUP(cleanup_close) int fd = -1;
        struct sockaddr_storage local;
        socklen_t size = sizeof(local);
        struct addrinfo *address;
        bool routed;

        if (getaddrinfo(target, "9", &hints, &address) != 0) /* discard */
                return false;
        fd = socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        routed = fd >= 0 && connect(fd, address->ai_addr, address->ai_addrlen) == 0;
        freeaddrinfo(address);
        return routed && getsockname(fd, (struct sockaddr *)&local, &size) == 0 &&
               getnameinfo((struct sockaddr *)&local, size, host, ADDRESS_HOST_SIZE, NULL, 0, NI_NUMERICHOST) == 0;
}

/* The address of the default route, of IPv4 before IPv6; loopback where this host has no route. */
static void local_host_look(char host[ADDRESS_HOST_SIZE])
{
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(outside); i++)
                if (look_outside(outside[i], host))
                        return;
        (void)snprintf(host, ADDRESS_HOST_SIZE, "127.0.0.1");
}

/* Writes the address that peers use for a bound one: --advertise, else, of a listener on all addresses, this host's. */
static void publish(const struct ferry_worker *worker, const char *bound, char *text, size_t size)
{
        const char *advertise = worker->settings->options.advertise;
        char host[ADDRESS_HOST_SIZE], local_host[ADDRESS_HOST_SIZE] = "";
        uint16_t port;

        if (!advertise && address_split(bound, host, &port) && address_is_wildcard(host))
                local_host_look(local_host);
        address_publish(bound, advertise, local_host, text, size);
}

/* Formats "http://HOST:PORT", with another host if needed. */
static void publish_url(const struct ferry_worker *worker, const char *url, char *text, size_t size)
{
        const char *bound = strstr(url, "://") + 3;
        char address[ADDRESS_SIZE];

        publish(worker, bound, address, sizeof(address));
        (void)snprintf(text, size, "%.*s%s", (int)(bound - url), url, address);
}

void worker_origin_look(const struct ferry_worker *worker, struct worker_origin *ret_origin)
{
        const struct engine_facts *facts = engine_get_facts(worker->engine);
        const char *url;

        *ret_origin = (struct worker_origin){ 0 };
        if (engine_network_is_open(facts))
                publish(worker, facts->data_address, ret_origin->data, sizeof(ret_origin->data));
        if (worker->settings->advertise_url)
                (void)snprintf(ret_origin->http, sizeof(ret_origin->http), "%s", worker->settings->advertise_url);
        for (size_t i = 0; !*ret_origin->http && (url = http_server_url(worker->http, i)); i++)
                if (strncmp(url, "http", 4) == 0)
                        publish_url(worker, url, ret_origin->http, sizeof(ret_origin->http));
}

/* ---- the name ---- */

int worker_join_registry(struct ferry_worker *worker)
{
        struct registry_entry self = { .epoch = worker->epoch, .version = FERRY_VERSION };
        struct worker_origin origin;
        char message[WORKER_ERROR_SIZE] = "";
        int r;

        if (!worker->registry)
                return 0;
        (void)snprintf(self.name, sizeof(self.name), "%s", worker->settings->options.name);
        worker_origin_look(worker, &origin);
        (void)snprintf(self.http, sizeof(self.http), "%s", origin.http);
        (void)snprintf(self.data, sizeof(self.data), "%s", origin.data);
        clock_format(clock_unix_ms(), self.started_at);
        r = registry_join(worker->registry, &self, message, sizeof(message));
        return r ? worker_fail(r, *message ? "%s" : NULL, message) : 0;
}
