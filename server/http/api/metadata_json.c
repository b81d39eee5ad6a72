/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/json_write.h>
#include <ferry/metadata.h>

#include "base/address.h"
#include "connection.h"
#include "operations/operations.h"
#include "request.h"
#include "transfer/engine.h"

/* What metadata say of the worker, as this connection's client reaches it. */
struct metadata_origin {
        char worker[FERRY_METADATA_NAME_SIZE];
        char data[FERRY_METADATA_ADDRESS_SIZE];
        char http[FERRY_METADATA_URL_SIZE];
};

/* Formats the base URL for peers: the advertised one, else that of the connection's listener or, for a Unix socket, of
 * the first TCP listener. */
static void format_url(const struct http_request *request, const char *local_host, char *url, size_t size)
{
        const struct http_server *server = request->server;
        const struct http_listener *listener = request->connection->listener;

        for (size_t i = 0; listener->local && i < server->n_listeners; i++)
                listener = &server->listeners[i];
        *url = '\0';
        if (server->config.advertise_url)
                snprintf(url, size, "%s", server->config.advertise_url);
        else if (!listener->local)
                listener_public_url(listener, local_host, url, size);
}

/* Cached in the connection. NULL: no memory. */
static const struct metadata_origin *origin_of(struct http_request *request)
{
        struct http_connection *connection = request->connection;
        const struct http_config *config = &request->server->config;
        struct metadata_origin *origin = connection->origin;
        char local_host[ADDRESS_HOST_SIZE];

        if (origin && (origin->data[0] || !engine_network_is_open(config->engine)))
                return origin;
        if (!origin)
                origin = connection->origin = calloc(1, sizeof(*origin));
        if (!origin)
                return NULL;
        connection_local_host(connection, local_host, sizeof(local_host));
        snprintf(origin->worker, sizeof(origin->worker), "%s", config->worker_name);
        if (engine_network_is_open(config->engine))
                address_publish(config->engine->data_address, config->advertise, local_host, origin->data,
                                sizeof(origin->data));
        format_url(request, local_host, origin->http, sizeof(origin->http));
        return origin;
}

int metadata_json_write(struct ferry_json_writer *writer, struct http_request *request, struct operation *operation,
                        const char *key)
{
        const struct metadata_origin *origin = origin_of(request);
        struct ferry_metadata *metadata;

        if (!origin)
                return -ENOMEM;
        int error = operation_metadata(request->server->config.operations, operation, &metadata);
        if (error)
                return error;
        memcpy(metadata->worker, origin->worker, sizeof(metadata->worker));
        memcpy(metadata->data, origin->data, sizeof(metadata->data));
        memcpy(metadata->http, origin->http, sizeof(metadata->http));
        if (key)
                ferry_json_key(writer, key);
        error = ferry_metadata_encode(metadata, writer);
        ferry_metadata_free(metadata);
        return error;
}

void metadata_json_add(struct ferry_json_writer *writer, struct http_request *request, struct operation *operation)
{
        if (metadata_json_write(writer, request, operation, "metadata") < 0)
                writer->failed = true;
}
