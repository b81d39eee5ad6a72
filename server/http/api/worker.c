/* SPDX-License-Identifier: Apache-2.0 */
#include "api_internal.h"

#include <errno.h>
#include <microhttpd.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <ferry/error.h>
#include <ferry/json_write.h>
#include <ferry/protocol.h>

#include "base/address.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "base/util.h"
#include "memory/device.h"
#include "move/engine.h"
#include "operations/content_ranges.h"
#include "operations/operations.h"
#include "peers/peers.h"
#include "registry/registry.h"

/*
 * The worker as a whole: the index and the embedded files, what it is and where, its limits, devices and throughput,
 * and the probes and metrics of operators. A limit is a row here, and in the table of server/http/README.md.
 *
 * Thread: that of the request's connection.
 */

/* ---- files, and the index ---- */

/* Only what comes from this worker, nothing in line, and in no frame of another page. */
#define POLICY                                                                                                         \
        "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "                   \
        "frame-ancestors 'none'"

/* Content-Security-Policy of a page; NULL = it is no page. */
static const char *policy_of(const struct http_asset *asset)
{
        if (asset == &asset_page)
                return POLICY "; script-src 'self'; connect-src 'self'";
        return asset == &asset_docs ? POLICY "; script-src 'self'" : NULL;
}

/* Answers with the file, gzipped where the client accepts that, or with 304. */
static void asset_answer(struct http_request *request, const struct http_asset *asset)
{
        bool packed = headers_accept(request->headers.accept_encoding, "gzip") > 0;
        const char *etag = packed ? asset->gzip_etag : asset->etag;
        bool known = request->headers.if_none_match && headers_etag_matches(request->headers.if_none_match, etag, true);
        const void *data = packed ? asset->gzip : asset->data;
        size_t size = packed ? asset->gzip_size : asset->size; /* the Content-Length of a 304, too, which has no body */
        struct MHD_Response *response =
                MHD_create_response_from_buffer(size, (void *)(uintptr_t)data, MHD_RESPMEM_PERSISTENT);

        if (response) {
                MHD_add_response_header(response, "ETag", etag);
                MHD_add_response_header(response, "Vary", "Accept, Accept-Encoding");
                MHD_add_response_header(response, "Cache-Control", "no-cache");
                if (packed && !known)
                        MHD_add_response_header(response, "Content-Encoding", "gzip");
                if (!known)
                        MHD_add_response_header(response, "Content-Type", asset->type);
                if (policy_of(asset)) {
                        MHD_add_response_header(response, "Content-Security-Policy", policy_of(asset));
                        MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
                }
        }
        request_answer(request, known ? 304 : 200, response);
}

void get_asset(struct http_request *request)
{
        asset_answer(request, request->route->asset);
}

static const struct {
        const char *name, *path;
} links[] = {
        { "worker", "/v1/worker" },   { "devices", "/v1/devices" },
        { "limits", "/v1/limits" },   { "throughput", "/v1/throughput" },
        { "regions", "/v1/regions" }, { "operations", "/v1/operations" },
        { "peers", "/v1/peers" },     { "events", "/v1/events" },
        { "livez", "/livez" },        { "readyz", "/readyz" },
        { "metrics", "/metrics" },    { "openapi", "/openapi.yaml" },
        { "docs", "/docs" },
};

void get_root(struct http_request *request)
{
        struct ferry_json_writer writer = { 0 };
        const char *accept = request->headers.accept;

        if (headers_accept(accept, "text/html") > headers_accept(accept, "application/json")) {
                asset_answer(request, &asset_page);
                return;
        }
        request_header_text(request, "Vary", "Accept", "");
        ferry_json_begin_object(&writer);
        ferry_json_add_string(&writer, "name", request->server->config.worker_name);
        ferry_json_add_string(&writer, "version", request->server->config.version);
        ferry_json_open_object(&writer, "links");
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(links); i++)
                ferry_json_add_string(&writer, links[i].name, links[i].path);
        ferry_json_end_object(&writer);
        ferry_json_end_object(&writer);
        request_answer_json(request, 200, &writer);
}

/* ---- the worker ---- */

/* The base URLs by which other machines reach the worker. */
static void add_urls(struct ferry_json_writer *writer, const struct http_request *request, const char *local_host)
{
        const struct http_server *server = request->server;
        const char *advertised = server->config.advertise_url;
        char url[ADDRESS_SIZE + 8];

        ferry_json_open_array(writer, "http");
        if (advertised)
                ferry_json_put_string(writer, advertised);
        for (size_t i = 0; i < server->n_listeners; i++) {
                const struct http_listener *listener = &server->listeners[i];
                if (listener->local) {
                        ferry_json_put_string(writer, listener->url);
                } else if (!advertised) {
                        listener_public_url(listener, local_host, url, sizeof(url));
                        ferry_json_put_string(writer, url);
                }
        }
        ferry_json_end_array(writer);
}

static void add_addresses(struct ferry_json_writer *writer, const struct http_request *request)
{
        const struct http_config *config = &request->server->config;
        char local_host[ADDRESS_HOST_SIZE], data[ENGINE_ADDRESS_SIZE];

        connection_local_host(request->connection, local_host, sizeof(local_host));
        ferry_json_open_object(writer, "addresses");
        add_urls(writer, request, local_host);
        if (engine_network_is_open(config->engine)) {
                address_publish(config->engine->data_address, config->advertise, local_host, data, sizeof(data));
                ferry_json_add_string(writer, "data", data);
        }
        ferry_json_end_object(writer);
}

static void add_registry(struct ferry_json_writer *writer, struct registry *registry)
{
        struct registry_view view;

        registry_get_view(registry, &view);
        ferry_json_open_object(writer, "registry");
        ferry_json_add_string(writer, "status", registry_status_name(view.status));
        ferry_json_add_string(writer, "key", view.key);
        ferry_json_add_uint(writer, "ttl_ms", view.ttl_ms);
        ferry_json_end_object(writer);
}

void get_worker(struct http_request *request)
{
        const struct http_server *server = request->server;
        const struct engine_facts *facts = server->config.engine;
        struct ferry_json_writer writer = { 0 };

        ferry_json_begin_object(&writer);
        ferry_json_add_string(&writer, "name", server->config.worker_name);
        ferry_json_add_id(&writer, "epoch", "", server->config.epoch);
        ferry_json_add_string(&writer, "version", server->config.version);
        document_add_text(&writer, "commit", server->config.commit);
        ferry_json_add_uint(&writer, "protocol", FERRY_PROTOCOL);
        document_add_text(&writer, "ucx_version", facts->ucx_version);
        ferry_json_add_uint(&writer, "uptime_ms", (clock_now_us() - server->started_us) / 1000);
        document_add_time(&writer, "started_at", server->started_unix_ms);
        add_addresses(&writer, request);
        if (server->config.registry)
                add_registry(&writer, server->config.registry);
        ferry_json_add_bool(&writer, "local", facts->local_directory != NULL);
        ferry_json_add_uint(&writer, "pid", (uint64_t)getpid());
        ferry_json_end_object(&writer);
        request_answer_json(request, 200, &writer);
}

/* ---- its limits ---- */

/* clang-format off */
#define LIMIT(name) { #name, offsetof(struct http_limits, name) }
/* clang-format on */

static const struct {
        const char *name;
        size_t offset;
} limits[] = {
        LIMIT(body_max),     LIMIT(bodies_max),      LIMIT(batch_max),       LIMIT(ids_max),  LIMIT(descriptors_max),
        LIMIT(wait_ms_max),  LIMIT(waiters_max),     LIMIT(connections_max), LIMIT(page_max), LIMIT(regions_max),
        LIMIT(memory_limit), LIMIT(idempotency_max), LIMIT(links_max),
};
_Static_assert(sizeof(struct http_limits) == FERRY_ARRAY_SIZE(limits) * sizeof(uint64_t), "every limit is shown");

/* Limits that no flag changes. */
static const struct {
        const char *name;
        uint64_t value;
} fixed[] = {
        { "head_max", HEAD_MAX },
        { "head_ms", GATE_HEAD_US / 1000 },
        { "body_ms", CONNECTION_BODY_US / 1000 },
        { "read_ms", CONNECTION_READ_US / 1000 },
        { "rate_min", CONNECTION_RATE },
        { "answer_max", PAGE_ANSWER_MAX },
        { "claims_max", ENGINE_CLAIMS_MAX },
        { "content_ranges_max", CONTENT_RANGES_MAX },
        { "digest_max", RANGE_DIGEST_MAX },
        { "fetches_max", PEERS_FETCHES_MAX },
        { "lookups_max", REGISTRY_LOOKUPS_MAX },
        { "event_readers_max", EVENT_READERS_MAX },
        { "events_kept", EVENTS_KEPT },
};

void get_limits(struct http_request *request)
{
        const struct operation_limits *operations = request->server->config.operation_limits;
        const char *base = (const char *)&request->server->config.limits;
        struct ferry_json_writer writer = { 0 };

        ferry_json_begin_object(&writer);
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(limits); i++)
                ferry_json_add_uint(&writer, limits[i].name,
                                    *(const uint64_t *)(const void *)(base + limits[i].offset));
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(fixed); i++)
                ferry_json_add_uint(&writer, fixed[i].name, fixed[i].value);
        ferry_json_add_uint(&writer, "address_connections_max",
                            quota_share(request->server->config.limits.connections_max));
        ferry_json_add_uint(&writer, "mappings_max", request->server->config.engine->mappings_max);
        ferry_json_add_uint(&writer, "operations_max", operations->operations_max);
        ferry_json_add_uint(&writer, "pieces_max", operations->pieces_max);
        ferry_json_add_uint(&writer, "terminal_max", operations->terminal_max);
        ferry_json_add_uint(&writer, "gone_max", operations->gone_max);
        ferry_json_add_uint(&writer, "uses_max", operations->uses_max);
        ferry_json_add_uint(&writer, "readers_max", operations->uses_max); /* its older name */
        ferry_json_add_uint(&writer, "ttl_ms_default", operations->ttl_ms_default);
        ferry_json_add_uint(&writer, "ttl_ms_max", operations->ttl_ms_max);
        ferry_json_add_uint(&writer, "timeout_ms_max", operations->timeout_ms_max);
        ferry_json_add_uint(&writer, "stall_ms", operations->stall_ms);
        ferry_json_add_uint(&writer, "retention_ms", operations->retention_ms);
        ferry_json_end_object(&writer);
        request_answer_json(request, 200, &writer);
}

/* ---- its devices and its throughput ---- */

void get_devices(struct http_request *request)
{
        const struct http_config *config = &request->server->config;
        struct ferry_json_writer writer = { 0 };
        struct device_inventory *inventory;
        struct device_ucx ucx = { 0 };
        int error;

        if (engine_network_is_open(config->engine))
                ucx = config->engine->device;
        error = device_inventory_new(&ucx, config->device_source, &inventory);
        if (error) {
                request_problem(request, error, NULL);
                return;
        }
        device_json_write(&writer, inventory, config->engine);
        device_inventory_free(inventory);
        request_answer_json(request, 200, &writer);
}

static void add_seconds(struct ferry_json_writer *writer, const char *name, const uint64_t *bytes, size_t n)
{
        ferry_json_open_array(writer, name);
        for (size_t i = 0; i < n; i++)
                ferry_json_put_uint(writer, bytes[i]);
        ferry_json_end_array(writer);
}

void get_throughput(struct http_request *request)
{
        struct operation_throughput throughput;
        struct ferry_json_writer writer = { 0 };
        uint64_t now_us = clock_now_us();

        operation_store_get_throughput(request->server->config.operations, now_us, &throughput);
        ferry_json_begin_object(&writer);
        document_add_time(&writer, "since", clock_unix_ms() - (now_us - throughput.since_us) / 1000);
        add_seconds(&writer, "received", throughput.received, throughput.n);
        add_seconds(&writer, "sent", throughput.sent, throughput.n);
        ferry_json_end_object(&writer);
        request_answer_json(request, 200, &writer);
}

/* ---- its state ---- */

static void answer_status(struct http_request *request, const char *status)
{
        struct ferry_json_writer writer = { 0 };

        ferry_json_begin_object(&writer);
        ferry_json_add_string(&writer, "status", status);
        ferry_json_end_object(&writer);
        request_answer_json(request, 200, &writer);
}

void get_livez(struct http_request *request)
{
        answer_status(request, "live");
}

void get_readyz(struct http_request *request)
{
        if (atomic_load(&request->server->draining))
                request_problem(request, FERRY_E_DRAINING, PROBLEM_DRAINING);
        else
                answer_status(request, "ready");
}

void get_metrics(struct http_request *request)
{
        size_t size;
        char *text = metrics_render(request->server->config.metrics, &size);

        if (text)
                request_answer_text(request, "text/plain; version=0.0.4; charset=utf-8", text, size);
        else
                request_problem(request, -ENOMEM, NULL);
}
