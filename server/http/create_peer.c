/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/json_write.h>
#include <ferry/metadata.h>

#include "base/log.h"
#include "handlers.h"
#include "http_internal.h"
#include "latch.h"
#include "peers/peers.h"
#include "request.h"
#include "transfer/engine.h"
#include "wait.h"

/* WAIT_MS is longer than the timeouts of fetching, resolving and connecting together. */
enum { WAIT_MS = 30000, URL_SIZE_MAX = 2048, DETAIL_SIZE = 256 };

/* ---- the work ---- */

/*
 * Fetches the description of the worker at a URL over HTTP, then has the engine connect. References: the request's, and
 * that of the work, which runs on the peers' thread and then on the engine's, is bounded in time, and touches neither
 * the server nor the request.
 */
struct connecting {
        /* fixed */
        struct http_connector connector;
        uint64_t own_epoch;
        char asked[URL_SIZE_MAX + 1];      /* the request's URL */
        char url[FERRY_METADATA_URL_SIZE]; /* the same, or that of ferry://NAME; "" = it was too long to keep */
        atomic_uint references;
        struct http_latch over;
        /* written by the work until over */
        int error; /* FERRY_E_*; 0 = connected */
        char detail[DETAIL_SIZE];
        char worker[FERRY_METADATA_NAME_SIZE];
        uint64_t epoch;
        struct engine_connection connection;
};

static void connecting_unref(struct connecting *c)
{
        if (atomic_fetch_sub(&c->references, 1) != 1)
                return;
        latch_destroy(&c->over);
        free(c);
}

/* Ends the work, and drops its reference. */
static void finish(struct connecting *c, int error, const char *detail)
{
        c->error = error;
        (void)snprintf(c->detail, sizeof(c->detail), "%s", detail);
        latch_set(&c->over);
        connecting_unref(c);
}

/* Thread: that which holds the progress lock. */
static void on_connected(void *context, const struct engine_connection *connection)
{
        struct connecting *c = context;

        c->connection = *connection;
        finish(c, connection->error, connection->detail);
}

/* Thread: the peers'. The engine outlives the peers. */
static void on_fetched(void *context, int error, const char *detail, struct ferry_metadata *metadata)
{
        struct connecting *c = context;
        struct engine_connect spec = { .context = c, .connected = on_connected };

        if (error) {
                finish(c, error, detail ? detail : "");
                return;
        }
        if (metadata->epoch == c->own_epoch) {
                finish(c, FERRY_E_INVALID_PARAMETER, "This is the worker itself");
                ferry_metadata_free(metadata);
                return;
        }
        if (*metadata->http) /* set where the URL was ferry://NAME */
                memcpy(c->url, metadata->http, sizeof(c->url));
        memcpy(c->worker, metadata->worker, sizeof(c->worker));
        c->epoch = metadata->epoch;
        spec.peer = (struct engine_peer){
                .epoch = metadata->epoch,
                .data = metadata->data,
                .name = metadata->worker,
                .url = c->url,
        };
        error = c->connector.connect(c->connector.context, &spec);
        ferry_metadata_free(metadata);
        if (error == -ESHUTDOWN) {
                finish(c, FERRY_E_CANCELLED, "The data plane is shut down");
        } else if (error < 0) {
                log_event(LOG_ERROR, "connection to a peer failed", LOG_S("reason", strerror(-error)));
                finish(c, FERRY_E_INTERNAL, "");
        }
}

/* 0 with *ret_connecting; else the error of peers_fetch_worker, with a sentence in detail. */
static int connecting_begin(const struct http_config *config, const char *url, struct connecting **ret_connecting,
                            char detail[DETAIL_SIZE])
{
        struct connecting *c = calloc(1, sizeof(*c));

        if (!c)
                return -ENOMEM;
        c->connector = config->connector;
        c->own_epoch = config->epoch;
        (void)snprintf(c->asked, sizeof(c->asked), "%s", url);
        if (strlen(url) < sizeof(c->url))
                strcpy(c->url, url);
        atomic_init(&c->references, 2);
        latch_init(&c->over);
        int error = peers_fetch_worker(config->peers, url, on_fetched, c, detail, DETAIL_SIZE);
        if (error) {
                latch_destroy(&c->over);
                free(c);
                return error;
        }
        *ret_connecting = c;
        return 0;
}

/* ---- the request ---- */

static bool decode(struct http_request *request, const char **ret_url)
{
        static const struct ferry_json_field field = { "url", FERRY_JSON_STRING, true, 0, 1, URL_SIZE_MAX, NULL };
        struct ferry_json_errors errors = { 0 };

        if (ferry_json_decode(request->json, &field, 1, ret_url, "", &errors))
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
        case FERRY_E_PROTOCOL_MISMATCH:
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

static void answer_connected(struct http_request *request, const struct connecting *c)
{
        struct ferry_json_writer writer = { 0 };

        ferry_json_begin_object(&writer);
        ferry_json_add_string(&writer, "url", c->asked);
        ferry_json_add_string(&writer, "worker", c->worker);
        ferry_json_add_id(&writer, "epoch", "", c->epoch);
        ferry_json_add_string(&writer, "transport", c->connection.transport);
        ferry_json_add_uint(&writer, "connect_us", c->connection.connect_us);
        ferry_json_add_bool(&writer, "reused", c->connection.reused);
        ferry_json_end_object(&writer);
        request_answer_json(request, c->connection.reused ? 200 : 201, &writer);
}

static void answer(struct http_request *request)
{
        struct connecting *c = request->state;
        const bool over = latch_is_set(&c->over);

        if (!over && wait_abandoned(request, "the peer answered"))
                return;
        if (!over)
                request_problem(request, FERRY_E_PEER_UNREACHABLE, "No connection within %u s", WAIT_MS / 1000);
        else if (c->error)
                answer_error(request, c->error, c->detail);
        else
                answer_connected(request, c);
}

static void end(struct http_request *request)
{
        connecting_unref(request->state);
}

/* Idempotent, so Idempotency-Key is ignored. */
void create_peer(struct http_request *request)
{
        char detail[DETAIL_SIZE] = "";
        struct connecting *connecting;
        const char *url;

        if (!decode(request, &url))
                return;
        int error = connecting_begin(&request->server->config, url, &connecting, detail);
        if (error) {
                answer_error(request, error, detail);
                return;
        }
        request_keep(request, connecting, end);
        wait_latch_or_answer(request, &connecting->over, WAIT_MS, answer);
}
