/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/json_write.h>

#include "handlers.h"
#include "http_internal.h"
#include "latch.h"
#include "page.h"
#include "peer_json.h"
#include "peers/registry.h"
#include "problem.h"
#include "request.h"
#include "wait.h"

/* Longer than the registry's own timeouts together. */
enum { WAIT_MS = 30000 };

/* ---- the work ---- */

/*
 * A request to the registry for a page of workers. References: the HTTP request's, and that of the work, which runs on
 * the peers' thread, is bounded in time, and touches neither the server nor the HTTP request.
 */
struct registered {
        atomic_uint references;
        struct http_latch over;
        /* written by the work until over */
        int error; /* FERRY_E_*; 0 = the page is there */
        char detail[REGISTRY_DETAIL_SIZE];
        struct registry_page page;
        struct registry_entry *entries; /* owned; the page's */
};

static void registered_unref(struct registered *r)
{
        if (atomic_fetch_sub(&r->references, 1) != 1)
                return;
        latch_destroy(&r->over);
        free(r->entries);
        free(r);
}

/* Thread: the peers'. */
static void on_found(void *context, int error, const char *detail, const struct registry_page *page)
{
        struct registered *r = context;

        r->error = error;
        (void)snprintf(r->detail, sizeof(r->detail), "%s", detail);
        if (page) {
                r->page = *page;
                r->entries = calloc(page->n ? page->n : 1, sizeof(*r->entries));
                if (r->entries && page->n)
                        memcpy(r->entries, page->entries, page->n * sizeof(*r->entries));
                if (!r->entries)
                        r->error = FERRY_E_INTERNAL;
                r->page.entries = r->entries;
        }
        latch_set(&r->over);
        registered_unref(r);
}

/* 0 with *ret_registered; else the error of registry_find. */
static int registered_begin(struct registry *registry, const struct registry_query *query,
                            struct registered **ret_registered)
{
        struct registered *r = calloc(1, sizeof(*r));

        if (!r)
                return -ENOMEM;
        atomic_init(&r->references, 2);
        latch_init(&r->over);
        int error = registry_find(registry, query, on_found, r);
        if (error) {
                latch_destroy(&r->over);
                free(r);
                return error;
        }
        *ret_registered = r;
        return 0;
}

/* ---- the request ---- */

static void write_worker(struct ferry_json_writer *writer, const struct registry_entry *entry)
{
        ferry_json_begin_object(writer);
        ferry_json_add_string(writer, "worker", entry->name);
        ferry_json_add_id(writer, "epoch", "", entry->epoch);
        peer_json_addresses(writer, entry->http, entry->data);
        ferry_json_add_string(writer, "status", "registered");
        peer_json_text(writer, "version", entry->version);
        peer_json_text(writer, "started_at", entry->started_at);
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

static void answer(struct http_request *request)
{
        struct registered *r = request->state;
        const bool over = latch_is_set(&r->over);

        if (over && !r->error)
                answer_page(request, &r->page);
        else if (over && r->error == FERRY_E_CANCELLED)
                request_problem(request, FERRY_E_DRAINING, PROBLEM_DRAINING);
        else if (!over && wait_abandoned(request, "the registry answered"))
                return;
        else if (!over)
                request_problem(request, FERRY_E_PEER_UNREACHABLE, "No answer of the registry within %u s",
                                WAIT_MS / 1000);
        else if (r->error == FERRY_E_INTERNAL)
                request_problem(request, FERRY_E_INTERNAL, NULL);
        else
                request_problem(request, FERRY_E_PEER_UNREACHABLE, "The registry cannot be asked: %s", r->detail);
}

static void end(struct http_request *request)
{
        registered_unref(request->state);
}

/* A wait needs the revision of an earlier answer. */
static uint64_t wait_of(struct http_request *request)
{
        return query_has(&request->query, HTTP_PARAMETER_REVISION) ? request_wait_ms(request) : 0;
}

void list_registered(struct http_request *request)
{
        struct registry *registry = request->server->config.registry;
        const struct registry_query query = {
                .after = page_cursor(request),
                .limit = page_limit(request),
                .revision = query_value(&request->query, HTTP_PARAMETER_REVISION),
                .wait_ms = wait_of(request),
        };
        struct registered *registered;
        int error;

        if (!registry) {
                request_problem(request, FERRY_E_INVALID_PARAMETER, "This worker has no registry (--registry)");
                return;
        }
        error = registered_begin(registry, &query, &registered);
        if (error) {
                request_problem(request, error == FERRY_E_CANCELLED ? FERRY_E_DRAINING : error, NULL);
                return;
        }
        request_keep(request, registered, end);
        wait_latch_or_answer(request, &registered->over, query.wait_ms + WAIT_MS, answer);
}
