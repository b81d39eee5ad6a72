/* SPDX-License-Identifier: Apache-2.0 */
#include "api_internal.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/json_write.h>
#include <ferry/status.h>

#include "base/util.h"
#include "memory/region.h"
#include "operations/operations.h"
#include "peers/peers.h"

/*
 * POST of one operation and of a batch. Both make an operation of a body in the same steps: decode, check against the
 * metadata, create, begin; a step that refuses leaves nothing behind. Why it refused is a struct refusal, which the one
 * endpoint answers with, and the other writes among its results.
 *
 * Thread: that of the request's connection.
 */

/* ---- why a body was refused ---- */

/* Why a body was refused. */
struct refusal {
        int error; /* FERRY_E_*, or -errno; 0 = nothing is wrong */
        char detail[OPERATION_DETAIL_SIZE];
        struct ferry_json_errors errors; /* faults at places of the body; they take precedence over detail */
};

/* Fill in the refusal. Return false, for the caller to return. detail NULL = the error's title. */
static bool refuse(struct refusal *refusal, int error, const char *detail)
{
        refusal->error = error;
        snprintf(refusal->detail, sizeof(refusal->detail), "%s", detail ? detail : "");
        return false;
}

static bool refuse_at(struct refusal *refusal, int error, const char *pointer, const char *detail)
{
        if (error > 0)
                ferry_json_complain(&refusal->errors, error, pointer, "%s",
                                    detail && *detail ? detail : ferry_error_title(error));
        return refuse(refusal, error, NULL);
}

/* The body was the value at a pointer of the request's: the places of the faults become places there. */
static void refusal_place(struct refusal *refusal, const char *pointer)
{
        const size_t n = strlen(pointer);

        for (size_t i = 0; i < refusal->errors.n; i++) {
                char *place = refusal->errors.items[i].pointer;

                memmove(place + n, place, FERRY_JSON_POINTER_SIZE - n); /* cut short */
                memcpy(place, pointer, n);
                place[FERRY_JSON_POINTER_SIZE - 1] = '\0';
        }
}

static void refusal_answer(const struct refusal *refusal, struct http_request *request)
{
        if (refusal->errors.n)
                request_problem_body(request, &refusal->errors);
        else if (*refusal->detail)
                request_problem(request, refusal->error, "%s", refusal->detail);
        else
                request_problem(request, refusal->error, NULL);
}

/* Writes it as a problem document, one of several results. A -errno is logged and shown as internal. */
static void refusal_write(const struct refusal *refusal, const struct http_request *request,
                          struct ferry_json_writer *writer)
{
        const struct ferry_json_errors *errors = &refusal->errors;
        int error = refusal->error;

        if (error < 0)
                error = request_log_failure(request, error);
        problem_write(writer, error, ferry_error_retryable(error), refusal->detail, errors);
}

/* ---- one operation, for both endpoints ---- */

/* Where the fault is of what does not fit the offer. */
static const char *remote_pointer(const struct operation_body *body, int error)
{
        if (body->remote && (error == FERRY_E_SIZE_MISMATCH || error == FERRY_E_OUT_OF_BOUNDS))
                return "/remote";
        return body->metadata ? "/remote_metadata" : "/remote_url";
}

/* Checks the body before anything is made. */
static bool check(const struct http_config *config, struct operation_body *body, bool passive, struct refusal *refusal)
{
        char detail[OPERATION_DETAIL_SIZE] = "";
        int error = 0;

        if (passive && !ferry_kind_is_passive((int)body->spec.kind))
                return refuse(refusal, FERRY_E_INVALID_PARAMETER,
                              "Only readable and writable operations have metadata to include");
        if (body->metadata)
                error = operation_check(config->operations, &body->spec, body->metadata, detail);
        else if (body->remote_url)
                error = peers_check_url(config->peers, body->remote_url, detail, sizeof(detail));
        if (error)
                return refuse_at(refusal, error, remote_pointer(body, error), detail);
        return true;
}

/* Deletes an operation whose creation is answered with a problem. */
static void unmake(struct operation_store *store, struct operation *operation, int error, const char *detail)
{
        operation_fail(store, operation, error > 0 ? error : FERRY_E_INTERNAL, detail);
        operation_delete(store, operation);
        operation_unref(operation);
}

/* Begins an active operation. false: it was deleted again, and the refusal says why. */
static bool start(const struct http_config *config, struct operation *operation, const struct operation_body *body,
                  bool may_run_inline, struct refusal *refusal)
{
        char detail[OPERATION_DETAIL_SIZE] = "";
        int error = 0;

        if (body->metadata)
                error = operation_begin(config->operations, operation, body->metadata, may_run_inline, detail);
        else if (body->remote_url)
                error = remote_begin(config->operations, config->peers, operation, body->remote_url, detail,
                                     sizeof(detail));
        if (!error)
                return true;
        unmake(config->operations, operation, error, detail);
        return refuse_at(refusal, error, remote_pointer(body, error), detail);
}

/* Names a region that is not ready; the last one, where it has become ready meanwhile. */
static void refuse_unready(const struct operation_spec *spec, struct refusal *refusal)
{
        char pointer[FERRY_JSON_POINTER_SIZE];
        size_t i = 0;

        while (i + 1 < spec->n_slices && region_state(spec->slices[i].region) == REGION_READY)
                i++;
        (void)snprintf(pointer, sizeof(pointer), "/descriptors/%zu/region", i);
        (void)refuse_at(refusal, FERRY_E_REGION_NOT_READY, pointer,
                        region_state(spec->slices[i].region) == REGION_FAILED ? PROBLEM_UNMADE : PROBLEM_PREPARING);
}

/* Fills in why the store refused to create the operation. */
static void refuse_creation(const struct operation_spec *spec, int error, const char *detail, struct refusal *refusal)
{
        if (spec->remote && error == FERRY_E_SIZE_MISMATCH)
                (void)refuse_at(refusal, error, "/remote", detail);
        else if (spec->follow && error == FERRY_E_OUT_OF_BOUNDS)
                (void)refuse_at(refusal, error, "/descriptors", detail);
        else if (spec->follow &&
                 (error == FERRY_E_KIND_MISMATCH || error == FERRY_E_INVALID_PARAMETER || error == FERRY_E_GONE))
                (void)refuse_at(refusal, error, "/follow", detail);
        else if (error == FERRY_E_REGION_NOT_READY)
                refuse_unready(spec, refusal);
        else
                (void)refuse(refusal, error, error == FERRY_E_DRAINING ? PROBLEM_DRAINING : *detail ? detail : NULL);
}

/*
 * Creates the operation of a body and starts it if it is active. Returns it with a reference. NULL: nothing was made;
 * *refusal, which must be zeroed, says why. passive: refuse active kinds. may_run_inline: see operation_begin.
 */
static struct operation *operation_make(struct http_request *request, struct json_object *json, bool passive,
                                        bool may_run_inline, struct refusal *refusal)
{
        FERRY_CLEANUP(operation_body_clear) struct operation_body body = { 0 };
        const struct http_config *config = &request->server->config;
        char detail[OPERATION_DETAIL_SIZE] = "";
        struct operation *operation;
        int error;

        error = operation_body_read(config, json, &body, &refusal->errors);
        if (!error && !check(config, &body, passive, refusal))
                return NULL;
        body.spec.request_id = request->id;
        if (!error)
                error = operation_create(config->operations, &body.spec, &operation, detail);
        if (error) {
                refuse_creation(&body.spec, error, detail, refusal);
                return NULL;
        }
        return start(config, operation, &body, may_run_inline, refusal) ? operation : NULL;
}

/* ---- POST /v1/operations ---- */

/* Answers 201 with the operation's present state and, if asked for and still valid, its metadata. */
static void answer(struct http_request *request)
{
        struct ferry_json_writer writer = { 0 };
        struct operation_view view;
        char id[FERRY_ID_TEXT_SIZE];

        operation_get_view(request->server->config.operations, request->operation, &view);
        ferry_id_format("op_", view.id, id);
        request_header_text(request, "Location", "/v1/operations/", id);
        if (view.deleted || !query_has(&request->query, HTTP_PARAMETER_INCLUDE)) {
                request_answer_operation(request, 201);
                return;
        }
        ferry_json_begin_object(&writer);
        operation_json_members(&writer, &view);
        metadata_json_add(&writer, request, request->operation);
        ferry_json_end_object(&writer);
        (void)request_etag(request, view.revision);
        request_answer_json(request, 201, &writer);
}

/* Answers, after a wait for the operation's end if the client asks for one. */
static void answer_in_time(struct http_request *request)
{
        uint64_t wait_ms = request_wait_ms(request);

        if (!wait_ms || operation_is_past(request->server->config.operations, request->operation, 0) ||
            wait_park(request, 0, wait_ms, answer) != WAIT_PARKED)
                answer(request);
}

/* Makes the operation, remembers the key, and answers. */
static void make(struct http_request *request)
{
        struct refusal refusal = { 0 };
        uint64_t id;

        request->operation = operation_make(request, request->json, query_has(&request->query, HTTP_PARAMETER_INCLUDE),
                                            request_waits(request), &refusal);
        if (!request->operation) {
                refusal_answer(&refusal, request);
                return;
        }
        id = operation_id(request->operation);
        replay_commit(request, &id);
        answer_in_time(request);
}

void create_operation(struct http_request *request)
{
        uint64_t id;

        /* A known key is checked first: what its request made may make the other checks fail now. */
        switch (replay_begin(request, &id, 1)) {
        case REPLAY_ANSWERED:
                break;
        case REPLAY_AGAIN:
                if (operation_find(request->server->config.operations, id, &request->operation) == OPERATION_FOUND)
                        answer_in_time(request);
                else
                        request_problem(request, FERRY_E_GONE, "The operation created with this key is gone");
                break;
        case REPLAY_MAKE:
                make(request);
                break;
        }
}

/* ---- POST /v1/operations/batch: the set of results is the request's state ---- */

static void answer_batch(struct http_request *request)
{
        struct ferry_json_writer writer = { 0 };

        ferry_json_begin_object(&writer);
        ferry_json_key(&writer, "results");
        /* Needs no limit of its own: the answer is at most a few times body_max. */
        operation_set_write(request->state, request, query_has(&request->query, HTTP_PARAMETER_INCLUDE), SIZE_MAX,
                            &writer);
        ferry_json_end_object(&writer);
        request_answer_json(request, 200, &writer);
}

static void answer_batch_in_time(struct http_request *request)
{
        uint64_t wait_ms = request_wait_ms(request);

        if (!wait_ms ||
            wait_park_flag(request, operation_set_wait(request->state, false), wait_ms, answer_batch) != WAIT_PARKED)
                answer_batch(request);
}

/* Makes operation i of the batch. Returns its id; 0 = refused. */
static uint64_t make_result(struct http_request *request, size_t i, struct json_object *body)
{
        struct refusal refusal = { 0 };
        struct operation *operation = operation_make(request, body, false, false, &refusal);
        struct ferry_json_writer writer = { 0 };
        char pointer[40];

        if (!operation) {
                (void)snprintf(pointer, sizeof(pointer), "/operations/%zu", i);
                refusal_place(&refusal, pointer);
                refusal_write(&refusal, request, &writer);
                operation_set_refuse(request->state, i, &writer);
                return 0;
        }
        operation_set_put(request->state, i, operation);
        return operation_id(operation);
}

/* ids: made earlier with the same Idempotency-Key; 0 = not. */
static void make_batch(struct http_request *request, struct json_object *bodies, uint64_t *ids)
{
        size_t n = json_object_array_length(bodies), n_made = 0;
        char id[FERRY_ID_TEXT_SIZE];

        for (size_t i = 0; i < n; i++) {
                if (ids[i]) {
                        ferry_id_format("op_", ids[i], id);
                        operation_set_find(request->state, i, id);
                } else {
                        ids[i] = make_result(request, i, json_object_array_get_idx(bodies, i));
                }
                n_made += ids[i] != 0;
        }
        if (n_made)
                replay_commit(request, ids);
        answer_batch_in_time(request);
}

void create_operations(struct http_request *request)
{
        const struct ferry_json_field field = {
                "operations", FERRY_JSON_ARRAY, true, 0, 1, request->server->config.limits.batch_max, NULL
        };
        FERRY_CLEANUP(cleanup_free) uint64_t *ids = NULL;
        struct json_object *bodies;
        size_t n;
        int error;

        if (!request_decode(request, &field, 1, &bodies))
                return;
        n = json_object_array_length(bodies);
        ids = calloc(n, sizeof(ids[0]));
        error = ids ? operation_set_begin(request, n) : -ENOMEM;
        if (error)
                request_problem(request, error, NULL);
        else if (replay_begin(request, ids, n) != REPLAY_ANSWERED)
                make_batch(request, bodies, ids);
}
