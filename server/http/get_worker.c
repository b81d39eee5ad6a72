/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "address.h"
#include "base/clock.h"
#include "fabric/fabric.h"
#include "handlers.h"
#include "http_internal.h"
#include "json_build.h"
#include "request.h"

/* Base URLs as clients elsewhere use them. */
static struct json_object *urls_new(const struct http_request *request, const char *local_host)
{
        const struct http_server *server = request->server;
        struct json_object *list = json_object_new_array_ext((int)server->n_listeners);
        char bound[ADDRESS_SIZE], public[ADDRESS_SIZE], url[ADDRESS_SIZE + 8];
        bool ok = list;

        for (size_t i = 0; ok && i < server->n_listeners; i++) {
                const struct http_listener *listener = &server->listeners[i];
                if (listener->local) {
                        ok = json_append(list, json_object_new_string(listener->url));
                        continue;
                }
                address_join(listener->host, listener->port, bound);
                address_publish(bound, server->config.advertise, local_host, public, sizeof(public));
                snprintf(url, sizeof(url), "%s://%s", server->config.tls ? "https" : "http", public);
                ok = json_append(list, json_object_new_string(url));
        }
        return json_finish(list, ok);
}

static struct json_object *addresses_new(const struct http_request *request)
{
        const struct http_config *config = &request->server->config;
        struct json_object *object = json_object_new_object();
        char local_host[ADDRESS_HOST_SIZE], data[FABRIC_ADDRESS_SIZE];

        request_local_host(request, local_host, sizeof(local_host));
        bool ok = json_add(object, "http", urls_new(request, local_host));
        if (*config->fabric->data_address) {
                address_publish(config->fabric->data_address, config->advertise, local_host, data, sizeof(data));
                ok = ok && json_add_string(object, "data", data);
        }
        return json_finish(object, ok);
}

void get_worker(struct http_request *request)
{
        const struct http_server *server = request->server;
        const struct fabric_facts *facts = server->config.fabric;
        struct json_object *object = json_object_new_object();
        char epoch[20], started[CLOCK_TEXT_SIZE];

        snprintf(epoch, sizeof(epoch), "%016" PRIx64, server->config.epoch);
        clock_format(server->started_unix_ms, started);
        bool ok = json_add_string(object, "name", server->config.worker_name) &&
                  json_add_string(object, "epoch", epoch) &&
                  json_add_string(object, "version", server->config.version) &&
                  json_add_string(object, "ucx_version", facts->ucx_version) &&
                  json_add_uint(object, "uptime_ms", (clock_now_us() - server->started_us) / 1000) &&
                  json_add_string(object, "started_at", started) &&
                  json_add(object, "addresses", addresses_new(request)) &&
                  json_add_bool(object, "local", facts->local_address != NULL) &&
                  json_add_uint(object, "pid", (uint64_t)getpid());
        request_answer_json(request, 200, json_finish(object, ok));
}
