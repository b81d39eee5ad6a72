/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <unistd.h>

#include <ferry/json_write.h>
#include <ferry/protocol.h>

#include "base/address.h"
#include "base/clock.h"
#include "connection.h"
#include "handlers.h"
#include "http_internal.h"
#include "peers/registry.h"
#include "request.h"
#include "transfer/engine.h"

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
        char started[CLOCK_TEXT_SIZE];

        clock_format(server->started_unix_ms, started);
        ferry_json_begin_object(&writer);
        ferry_json_add_string(&writer, "name", server->config.worker_name);
        ferry_json_add_id(&writer, "epoch", "", server->config.epoch);
        ferry_json_add_string(&writer, "version", server->config.version);
        if (server->config.commit)
                ferry_json_add_string(&writer, "commit", server->config.commit);
        ferry_json_add_uint(&writer, "protocol", FERRY_PROTOCOL);
        if (facts->ucx_version[0])
                ferry_json_add_string(&writer, "ucx_version", facts->ucx_version);
        ferry_json_add_uint(&writer, "uptime_ms", (clock_now_us() - server->started_us) / 1000);
        ferry_json_add_string(&writer, "started_at", started);
        add_addresses(&writer, request);
        if (server->config.registry)
                add_registry(&writer, server->config.registry);
        ferry_json_add_bool(&writer, "local", facts->local_directory != NULL);
        ferry_json_add_uint(&writer, "pid", (uint64_t)getpid());
        ferry_json_end_object(&writer);
        request_answer_json(request, 200, &writer);
}
