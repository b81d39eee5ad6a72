/* SPDX-License-Identifier: Apache-2.0 */
#include "api_internal.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/json_write.h>
#include <ferry/metadata.h>

#include "base/address.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "move/engine.h"
#include "operations/operations.h"

/*
 * Offers: their metadata, with the addresses at which the client's machine reaches this worker, and what their holders
 * say. A holder declines an offer of this worker by its key; for an offer of another worker, a client has this one say
 * the notice, over a link or over HTTP, and is parked until the answer.
 *
 * Thread: that of the request's connection; on_answered() the engine's or the peers'.
 */

/* ---- the metadata of an offer ---- */

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

/* ---- of this worker ---- */

void decline_operation(struct http_request *request)
{
        struct ferry_json_writer writer = { 0 };
        struct operation_view view;
        enum ferry_status status;
        uint64_t transfer;

        if (!content_find(request, &view) || !content_transfer(request, &transfer))
                return;
        int error = operation_decline(request->server->config.operations, request->operation, transfer, &status);
        if (error == FERRY_E_ALREADY_CLAIMED) {
                request_problem(request, error,
                                view.uses > 1 ? "No use of the operation is left to decline"
                                              : "A peer is moving the bytes: its transfer can be cancelled");
                return;
        }
        if (error) {
                content_refuse(request, error);
                return;
        }
        operation_json_offer(&writer, status, 0);
        request_answer_json(request, 200, &writer);
}

/* ---- of another worker: notices that this one says to it for a client ---- */

/* A notice under way. */
struct telling {
        struct http_work work;
        struct engine_connection answer; /* written by the work until over */
};

/* Thread: the holder of the progress lock, or the peers'. */
static void on_answered(void *context, const struct engine_connection *answer)
{
        struct telling *telling = context;

        telling->answer = *answer;
        work_end(&telling->work, answer->error, answer->detail);
}

/* 0 and it is the request's state; -errno. */
static int telling_begin(struct http_request *request, const struct ferry_metadata *metadata,
                         const struct engine_notice *notice)
{
        const struct http_connector *connector = &request->server->config.connector;
        struct telling *telling = work_new(sizeof(*telling));
        struct engine_connect spec = { .notice = *notice, .context = telling, .connected = on_answered };
        int r;

        if (!telling)
                return -ENOMEM;
        spec.peer = (struct engine_peer){
                .epoch = metadata->epoch, .data = metadata->data, .name = metadata->worker, .url = metadata->http
        };
        spec.notice.operation = metadata->operation;
        memcpy(spec.notice.key, metadata->key, sizeof(spec.notice.key));
        r = connector->connect(connector->context, &spec);
        explicit_bzero(spec.notice.key, sizeof(spec.notice.key));
        return work_begun(request, &telling->work, r);
}

/* ---- the request ---- */

struct body {
        struct json_object *metadata;
        uint64_t ttl_ms;
};

/* false: answered. */
static bool decode(struct http_request *request, bool renews, struct ferry_metadata **ret_metadata,
                   uint64_t *ret_ttl_ms)
{
        const uint64_t ttl_ms_max = request->server->config.operation_limits->ttl_ms_max;
        const struct ferry_json_field fields[] = {
                { "remote_metadata", FERRY_JSON_OBJECT, true, offsetof(struct body, metadata), 0, 0, NULL },
                { "ttl_ms", FERRY_JSON_UINT, false, offsetof(struct body, ttl_ms), 1, ttl_ms_max, NULL },
        };
        struct ferry_json_errors errors = { 0 };
        struct body body = { 0 };
        int r = ferry_json_decode(request->json, fields, renews ? 2 : 1, &body, "", &errors) ? 0 : errors.error;

        if (!r)
                r = ferry_metadata_read(body.metadata, "/remote_metadata", ret_metadata, &errors);
        if (r < 0)
                request_problem(request, r, NULL);
        else if (r)
                request_problem_body(request, &errors);
        *ret_ttl_ms = body.ttl_ms;
        return r == 0;
}

/* An error of the other worker, as one that this worker can answer with. */
static void answer_error(struct http_request *request, int error, const char *detail)
{
        switch (error) {
        case FERRY_E_STALE_METADATA:
        case FERRY_E_CANCELLED_BY_PEER:
                error = FERRY_E_GONE;
                break;
        case FERRY_E_CANCELLED: /* this worker is shutting down */
                error = FERRY_E_DRAINING;
                break;
        case FERRY_E_DRAINING:
        case FERRY_E_TIMEOUT:
        case FERRY_E_INVALID_PARAMETER: /* its URL */
        case FERRY_E_INVALID_METADATA:  /* its answer */
        case FERRY_E_TRANSFER_FAILED:
                error = FERRY_E_PEER_UNREACHABLE;
                break;
        default:
                if (!ferry_error_http(error))
                        error = FERRY_E_PEER_UNREACHABLE;
                break;
        }
        request_problem(request, error, *detail ? "%s" : NULL, detail);
}

static void answer(struct http_request *request)
{
        const struct telling *telling = request->state;
        struct ferry_json_writer writer = { 0 };

        if (!work_is_over(request, "the peer answered", "No answer"))
                return;
        if (telling->work.error) {
                answer_error(request, telling->work.error, telling->work.detail);
                return;
        }
        operation_json_offer(&writer, (enum ferry_status)telling->answer.status,
                             telling->answer.left_ms ? clock_unix_ms() + telling->answer.left_ms : 0);
        request_answer_json(request, 200, &writer);
}

/* Repeated with the same Ferry-Transfer, a decline takes no further use. */
static void tell(struct http_request *request, bool renews)
{
        struct engine_notice notice = { .renews = renews };
        struct ferry_metadata *metadata;
        struct http_work *work;

        if (!content_transfer(request, &notice.transfer) || !decode(request, renews, &metadata, &notice.ttl_ms))
                return;
        if (!notice.transfer)
                notice.transfer = random_id();
        int r = telling_begin(request, metadata, &notice);
        ferry_metadata_free(metadata);
        if (r) {
                request_problem(request, r == -ESHUTDOWN ? FERRY_E_DRAINING : r, NULL);
                return;
        }
        work = request->state;
        wait_flag_or_answer(request, &work->over, WORK_WAIT_MS, answer);
}

void decline_remote(struct http_request *request)
{
        tell(request, false);
}

void renew_remote(struct http_request *request)
{
        tell(request, true);
}
