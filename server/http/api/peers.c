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

#include "base/log.h"
#include "base/util.h"
#include "move/engine.h"
#include "peers/peers.h"
#include "registry/registry.h"

/*
 * The workers that this one knows: connecting to one, those it is or was connected to, and those in the registry. What
 * takes time is work (struct http_work) on the peers' and the engine's threads; the request is parked on its flag, and
 * may end before.
 *
 * Thread: that of the request's connection, unless a callback says otherwise.
 */

enum { URL_SIZE_MAX = 2048 };

/* ---- POST ---- */

/* Fetches the description of the worker at a URL over HTTP, on libcurl's thread, then has the engine connect. */
struct connecting {
        struct http_work work;
        /* fixed */
        struct http_connector connector;
        uint64_t own_epoch;
        char asked[URL_SIZE_MAX + 1];      /* the request's URL */
        char url[FERRY_METADATA_URL_SIZE]; /* the same, or that of ferry://NAME; "" = it was too long to keep */
        /* written by the work until over */
        char worker[FERRY_METADATA_NAME_SIZE];
        uint64_t epoch;
        struct engine_connection connection;
};

/* Thread: that which holds the progress lock. */
static void on_connected(void *context, const struct engine_connection *connection)
{
        struct connecting *c = context;

        c->connection = *connection;
        work_end(&c->work, connection->error, connection->detail);
}

/* Thread: the peers'. The engine outlives the peers. */
static void on_fetched(void *context, int error, const char *detail, struct ferry_metadata *metadata)
{
        struct connecting *c = context;
        struct engine_connect spec = { .context = c, .connected = on_connected };

        if (error) {
                work_end(&c->work, error, detail ? detail : "");
                return;
        }
        if (metadata->epoch == c->own_epoch) {
                work_end(&c->work, FERRY_E_INVALID_PARAMETER, "This is the worker itself");
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
                work_end(&c->work, FERRY_E_CANCELLED, "The data plane is shut down");
        } else if (error < 0) {
                log_event(LOG_ERROR, "connection to a peer failed", LOG_S("reason", strerror(-error)));
                work_end(&c->work, FERRY_E_INTERNAL, "");
        }
}

/* 0 and it is the request's state; else the error of peers_fetch_worker, with a sentence in detail. */
static int connecting_begin(struct http_request *request, const char *url, char detail[WORK_DETAIL_SIZE])
{
        const struct http_config *config = &request->server->config;
        struct connecting *c = work_new(sizeof(*c));

        if (!c)
                return -ENOMEM;
        c->connector = config->connector;
        c->own_epoch = config->epoch;
        (void)snprintf(c->asked, sizeof(c->asked), "%s", url);
        if (strlen(url) < sizeof(c->url))
                strcpy(c->url, url);
        return work_begun(request, &c->work,
                          peers_fetch_worker(config->peers, url, on_fetched, c, detail, WORK_DETAIL_SIZE));
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

static void answer_connecting(struct http_request *request)
{
        struct connecting *c = request->state;

        if (!work_is_over(request, "the peer answered", "No connection"))
                return;
        if (c->work.error)
                answer_error(request, c->work.error, c->work.detail);
        else
                answer_connected(request, c);
}

/* Idempotent, so Idempotency-Key is ignored. */
void create_peer(struct http_request *request)
{
        static const struct ferry_json_field field = { "url", FERRY_JSON_STRING, true, 0, 1, URL_SIZE_MAX, NULL };
        char detail[WORK_DETAIL_SIZE] = "";
        const char *url;

        if (!request_decode(request, &field, 1, &url))
                return;
        int error = connecting_begin(request, url, detail);
        if (error) {
                answer_error(request, error, detail);
                return;
        }
        struct http_work *work = request->state;
        wait_flag_or_answer(request, &work->over, WORK_WAIT_MS, answer_connecting);
}

/* ---- GET, of the registry ---- */

/* A page of workers, for which the registry is asked. */
struct registered {
        struct http_work work;
        struct registry_page page; /* written by the work until over; its entries are owned */
};

/* Thread: the peers'. */
static void on_found(void *context, int error, const char *detail, const struct registry_page *page)
{
        struct registered *r = context;

        if (page) {
                r->page = *page;
                r->page.entries = r->work.owned = calloc(page->n + 1, sizeof(*page->entries));
                if (r->work.owned && page->n)
                        memcpy(r->work.owned, page->entries, page->n * sizeof(*page->entries));
                if (!r->work.owned)
                        error = FERRY_E_INTERNAL;
        }
        work_end(&r->work, error, detail);
}

static void write_worker(struct ferry_json_writer *writer, const struct registry_entry *entry)
{
        ferry_json_begin_object(writer);
        ferry_json_add_string(writer, "worker", entry->name);
        ferry_json_add_id(writer, "epoch", "", entry->epoch);
        peer_json_addresses(writer, entry->http, entry->data);
        ferry_json_add_string(writer, "status", "registered");
        document_add_text(writer, "version", entry->version);
        document_add_text(writer, "started_at", entry->started_at);
        ferry_json_end_object(writer);
}

static void answer_page(struct http_request *request, const struct registry_page *page)
{
        struct ferry_json_writer writer = { 0 };

        ferry_json_begin_object(&writer);
        ferry_json_add_uint(&writer, "revision", page->revision);
        if (page->n_skipped)
                ferry_json_add_uint(&writer, "skipped", page->n_skipped);
        ferry_json_open_array(&writer, "peers");
        for (size_t i = 0; i < page->n; i++)
                write_worker(&writer, &page->entries[i]);
        page_end(&writer, request, page->cursor);
        request_answer_json(request, 200, &writer);
}

static void answer_registered(struct http_request *request)
{
        struct registered *r = request->state;

        if (!work_is_over(request, "the registry answered", "No answer of the registry"))
                return;
        if (!r->work.error)
                answer_page(request, &r->page);
        else if (r->work.error == FERRY_E_CANCELLED)
                request_problem(request, FERRY_E_DRAINING, PROBLEM_DRAINING);
        else if (r->work.error == FERRY_E_INTERNAL)
                request_problem(request, FERRY_E_INTERNAL, NULL);
        else
                request_problem(request, FERRY_E_PEER_UNREACHABLE, "The registry cannot be asked: %s", r->work.detail);
}

/* A wait needs the revision of an earlier answer. */
static uint64_t wait_of(struct http_request *request)
{
        return query_has(&request->query, HTTP_PARAMETER_REVISION) ? request_wait_ms(request) : 0;
}

static void list_registered(struct http_request *request)
{
        struct registry *registry = request->server->config.registry;
        const struct registry_query query = {
                .after = page_cursor(request),
                .limit = page_limit(request),
                .revision = query_value(&request->query, HTTP_PARAMETER_REVISION),
                .wait_ms = wait_of(request),
        };
        struct registered *r;
        int error;

        if (!registry) {
                request_problem(request, FERRY_E_INVALID_PARAMETER, "This worker has no registry (--registry)");
                return;
        }
        r = work_new(sizeof(*r));
        error = r ? work_begun(request, &r->work, registry_find(registry, &query, on_found, r)) : -ENOMEM;
        if (error)
                request_problem(request, error == FERRY_E_CANCELLED ? FERRY_E_DRAINING : error, NULL);
        else
                wait_flag_or_answer(request, &r->work.over, query.wait_ms + WORK_WAIT_MS, answer_registered);
}

/* ---- GET ---- */

static void list_connected(struct http_request *request)
{
        const struct http_connector *connector = &request->server->config.connector;
        size_t limit = page_limit(request);
        uint64_t cursor = page_cursor(request);
        FERRY_CLEANUP(cleanup_free) struct engine_peer_view *page = calloc(limit, sizeof(*page));
        struct ferry_json_writer writer = { 0 };
        ssize_t n = page ? connector->peers_page(connector->context, &cursor, page, limit) : -ENOMEM;

        if (n < 0) {
                request_problem(request, n == -ESHUTDOWN ? FERRY_E_DRAINING : (int)n, NULL);
                return;
        }
        page_begin(&writer, "peers");
        for (ssize_t i = 0; i < n; i++)
                peer_json_write(&writer, &page[i]);
        page_end(&writer, request, cursor);
        request_answer_json(request, 200, &writer);
}

void list_peers(struct http_request *request)
{
        if (query_has(&request->query, HTTP_PARAMETER_REGISTRY))
                list_registered(request);
        else if (query_has(&request->query, HTTP_PARAMETER_WAIT_MS) ||
                 query_has(&request->query, HTTP_PARAMETER_REVISION))
                request_problem(request, FERRY_E_INVALID_PARAMETER, "wait_ms and revision require registry=1");
        else
                list_connected(request);
}
