/* SPDX-License-Identifier: Apache-2.0 */
#include "metadata_json.h"

#include <stdio.h>

#include <ferry/metadata.h>

#include "address.h"
#include "fabric/fabric.h"
#include "http_internal.h"
#include "operations/operations.h"
#include "request.h"

/* The base URL that peers use: that of the listener asked, or of the first TCP one when that is a Unix socket. */
static void format_url(const struct http_request *request, const char *local_host, char *url, size_t size)
{
        const struct http_server *server = request->server;
        const struct http_listener *listener = request->listener;
        char bound[ADDRESS_SIZE], public[ADDRESS_SIZE];

        for (size_t i = 0; listener->local && i < server->n_listeners; i++)
                listener = &server->listeners[i];
        *url = '\0';
        if (listener->local)
                return;
        address_join(listener->host, listener->port, bound);
        address_publish(bound, server->config.advertise, local_host, public, sizeof(public));
        snprintf(url, size, "%s://%s", server->config.tls ? "https" : "http", public);
}

int metadata_json_write(struct ferry_json_writer *writer, struct http_request *request)
{
        const struct http_config *config = &request->server->config;
        struct ferry_metadata *metadata;
        char local_host[ADDRESS_HOST_SIZE];

        int error = operation_metadata(config->operations, request->operation, &metadata);
        if (error)
                return error;
        request_local_host(request, local_host, sizeof(local_host));
        snprintf(metadata->worker, sizeof(metadata->worker), "%s", config->worker_name);
        if (*config->fabric->data_address)
                address_publish(config->fabric->data_address, config->advertise, local_host, metadata->data,
                                sizeof(metadata->data));
        format_url(request, local_host, metadata->http, sizeof(metadata->http));
        error = ferry_metadata_encode(metadata, writer);
        ferry_metadata_free(metadata);
        return error;
}
