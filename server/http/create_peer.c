/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <json-c/json.h>
#include <stdatomic.h>
#include <stdio.h>

#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/json_write.h>

#include "base/util.h"
#include "connecting.h"
#include "connection.h"
#include "handlers.h"
#include "http_internal.h"
#include "latch.h"
#include "problem.h"
#include "request.h"
#include "wait.h"

/* WAIT_MS is longer than the timeouts of fetching, resolving and connecting together. */
enum { WAIT_MS = 30000, URL_SIZE_MAX = 2048 };

struct peer_body {
        const char *url;
};

static const struct ferry_json_field fields[] = {
        { "url", FERRY_JSON_STRING, true, offsetof(struct peer_body, url), 1, URL_SIZE_MAX, NULL },
};

static bool decode(struct http_request *request, struct peer_body *body)
{
        struct ferry_json_errors errors = { 0 };

        if (ferry_json_decode(ferry_json_root(request->json), fields, FERRY_ARRAY_SIZE(fields), body, "", &errors))
                return true;
        request_problem_body(request, &errors);
        return false;
}

static void answer_error(struct http_request *request, int error, const char *detail)
{
        switch (error) {
        case FERRY_E_INVALID_PARAMETER:
        case FERRY_E_FORBIDDEN:
                request_problem_at(request, error, "/url", detail);
                break;
        case FERRY_E_LIMIT_REACHED:
        case FERRY_E_PEER_REFUSED:
                request_problem(request, error, "%s", detail);
                break;
        case FERRY_E_CANCELLED:
                request_problem(request, FERRY_E_DRAINING, "%s", detail);
                break;
        default:
                /* Any other fault of the peer means that no worker was reached at this URL. */
                if (error < 0 || error == FERRY_E_INTERNAL)
                        request_problem(request, error, NULL);
                else
                        request_problem(request, FERRY_E_PEER_UNREACHABLE, "%s", detail);
        }
}

static void answer_connected(struct http_request *request, const struct connecting_result *result)
{
        const struct engine_connection *connection = &result->connection;
        struct json_object *url = json_object_object_get(ferry_json_root(request->json), "url");
        struct ferry_json_writer writer = { 0 };
        char epoch[20];

        snprintf(epoch, sizeof(epoch), "%016" PRIx64, result->epoch);
        ferry_json_begin_object(&writer);
        ferry_json_add_string(&writer, "url", json_object_get_string(url));
        ferry_json_add_string(&writer, "worker", result->worker);
        ferry_json_add_string(&writer, "epoch", epoch);
        ferry_json_add_string(&writer, "transport", connection->transport);
        ferry_json_add_uint(&writer, "connect_us", connection->connect_us);
        ferry_json_add_bool(&writer, "reused", connection->reused);
        ferry_json_end_object(&writer);
        request_answer_json(request, connection->reused ? 200 : 201, &writer);
}

static void answer(struct http_request *request)
{
        const struct connecting_result *result = connecting_look(request->state);

        if (!result && atomic_load(&request->server->draining))
                request_problem(request, FERRY_E_DRAINING, PROBLEM_DRAINING);
        else if (!result && connection_has_ended(request->connection))
                request_problem(request, FERRY_E_PEER_UNREACHABLE,
                                "The client closed the connection before the peer answered");
        else if (!result)
                request_problem(request, FERRY_E_PEER_UNREACHABLE, "No connection within %u s", WAIT_MS / 1000);
        else if (result->error)
                answer_error(request, result->error, result->detail);
        else
                answer_connected(request, result);
}

static void end(struct http_request *request)
{
        connecting_unref(request->state);
}

/* Idempotent, so Idempotency-Key is ignored. */
void create_peer(struct http_request *request)
{
        char detail[CONNECTING_DETAIL_SIZE] = "";
        struct connecting *connecting;
        struct peer_body body = { 0 };

        if (!decode(request, &body))
                return;
        int error = connecting_begin(&request->server->config, body.url, &connecting, detail, sizeof(detail));
        if (error) {
                answer_error(request, error, detail);
                return;
        }
        request_keep(request, connecting, end);
        wait_latch_or_answer(request, connecting_over(connecting), WAIT_MS, answer);
}
