/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/json_write.h>
#include <ferry/status.h>

#include "base/util.h"
#include "handlers.h"
#include "http_internal.h"
#include "idempotency.h"
#include "metadata_json.h"
#include "operation_body.h"
#include "operation_json.h"
#include "operations/operations.h"
#include "peers/peers.h"
#include "peers/remote.h"
#include "request.h"

/* 201 with the operation as it is now, and its metadata when they were asked for and are still to be had. */
static void answer(struct http_request *request)
{
        struct ferry_json_writer writer = { 0 };
        struct operation_view view;
        char id[FERRY_ID_TEXT_SIZE];
        int error = FERRY_E_GONE;

        operation_look(request->server->config.operations, request->operation, &view);
        ferry_id_format("op_", view.id, id);
        request_header_text(request, "Location", "/v1/operations/", id);
        if (query_has(&request->query, HTTP_PARAMETER_INCLUDE) && !view.deleted) {
                ferry_json_begin_object(&writer);
                operation_json_members(&writer, &view);
                ferry_json_key(&writer, "metadata");
                error = metadata_json_write(&writer, request);
                ferry_json_end_object(&writer);
        }
        switch (error) {
        case 0:
                (void)request_etag(request, view.revision);
                request_answer_json(request, 201, &writer);
                break;
        case FERRY_E_GONE:
                request_answer_operation(request, 201);
                break;
        default:
                request_problem(request, error, NULL);
        }
        ferry_json_writer_clear(&writer);
}

/* The operation is there; waits for its end when the client prefers that. */
static void answer_in_time(struct http_request *request)
{
        uint64_t wait_ms = request_wait_ms(request);

        if (!wait_ms || operation_is_past(request->server->config.operations, request->operation, 0) ||
            wait_park(request, 0, wait_ms, answer) != WAIT_PARKED)
                answer(request);
}

/* What was made must not stay behind an answer that says it was not. */
static void unmake(struct http_request *request, int error, const char *pointer, const char *detail)
{
        struct operation_store *store = request->server->config.operations;

        operation_fail(store, request->operation, error > 0 ? error : FERRY_E_INTERNAL, detail);
        operation_delete(store, request->operation);
        if (error < 0)
                request_problem(request, error, NULL);
        else
                request_problem_at(request, error, pointer, detail);
}

/* Starts an active operation. false: the request has been answered. */
static bool start(struct http_request *request, struct operation_body *body)
{
        const struct http_config *config = &request->server->config;
        char detail[OPERATION_DETAIL_SIZE] = "";
        int error = 0;

        if (body->metadata)
                error = operation_begin(config->operations, request->operation, body->metadata, request_waits(request),
                                        detail);
        else if (body->remote_url)
                error = remote_begin(config->operations, config->peers, request->operation, body->remote_url, detail,
                                     sizeof(detail));
        if (error)
                unmake(request, error, body->metadata ? "/remote_metadata" : "/remote_url", detail);
        return !error;
}

static void make(struct http_request *request, struct operation_body *body)
{
        struct operation_store *store = request->server->config.operations;
        struct operation_view view;

        int error = operation_create(store, &body->spec, &request->operation);
        if (error) {
                request_problem(request, error, NULL);
                return;
        }
        operation_look(store, request->operation, &view);
        replay_commit(request, view.id);
        if (start(request, body))
                answer_in_time(request);
}

static void replay(struct http_request *request, uint64_t id)
{
        if (operation_find(request->server->config.operations, id, &request->operation) == OPERATION_FOUND)
                answer_in_time(request);
        else
                request_problem(request, FERRY_E_GONE, "The operation that this key made is gone");
}

/* What can be said against the request before anything is made. false: it has been answered. */
static bool check(struct http_request *request, struct operation_body *body)
{
        const struct http_config *config = &request->server->config;
        char detail[OPERATION_DETAIL_SIZE] = "";
        int error = 0;

        if (query_has(&request->query, HTTP_PARAMETER_INCLUDE) && !ferry_kind_is_passive((int)body->spec.kind)) {
                request_problem(request, FERRY_E_INVALID_PARAMETER,
                                "Only readable and writable operations have metadata to include");
                return false;
        }
        if (body->metadata)
                error = operation_check(config->operations, &body->spec, body->metadata, detail);
        else if (body->remote_url)
                error = peers_check_url(config->peers, body->remote_url, detail, sizeof(detail));
        if (error < 0)
                request_problem(request, error, NULL);
        else if (error)
                request_problem_at(request, error, body->metadata ? "/remote_metadata" : "/remote_url", detail);
        else if (body->metadata)
                remote_screen(config->peers, body->metadata);
        return !error;
}

void create_operation(struct http_request *request)
{
        FERRY_CLEANUP(operation_body_clear) struct operation_body body = { 0 };
        struct ferry_json_errors errors = { 0 };
        uint64_t id;

        /* A key that is known comes before the checks: what it made may have changed what they would say. */
        switch (replay_begin(request, &id)) {
        case REPLAY_ANSWERED:
                return;
        case REPLAY_AGAIN:
                replay(request, id);
                return;
        case REPLAY_MAKE:
                break;
        }
        int error = operation_body_decode(&request->server->config, ferry_json_root(request->json), &body, &errors);
        if (error < 0)
                request_problem(request, error, NULL);
        else if (error)
                request_problem_body(request, &errors);
        else if (check(request, &body))
                make(request, &body);
}
