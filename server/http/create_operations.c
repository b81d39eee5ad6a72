/* SPDX-License-Identifier: Apache-2.0 */
/* A batch: several operations by one request. Its set of results is the request's state. */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/json_write.h>
#include <ferry/status.h>

#include "base/util.h"
#include "handlers.h"
#include "http_internal.h"
#include "operation_making.h"
#include "operation_set.h"
#include "operations/operations.h"
#include "refusal.h"
#include "replay.h"
#include "request.h"
#include "wait.h"

static void answer(struct http_request *request)
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

static void answer_in_time(struct http_request *request)
{
        uint64_t wait_ms = request_wait_ms(request);

        if (!wait_ms ||
            wait_park_latch(request, operation_set_wait(request->state, false), wait_ms, answer) != WAIT_PARKED)
                answer(request);
}

/* Makes operation i of the batch. Returns its id; 0 = refused. */
static uint64_t make_result(struct http_request *request, size_t i, struct json_object *body)
{
        struct refusal refusal = { 0 };
        struct operation *operation = operation_make(request, body, false, false, &refusal);
        char pointer[40];

        if (!operation) {
                (void)snprintf(pointer, sizeof(pointer), "/operations/%zu", i);
                refusal_place(&refusal, pointer);
                operation_set_refuse(request->state, i, request, &refusal);
                return 0;
        }
        operation_set_put(request->state, i, operation);
        return operation_id(operation);
}

/* ids: made earlier with the same Idempotency-Key; 0 = not. */
static void make(struct http_request *request, struct json_object *bodies, uint64_t *ids)
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
        answer_in_time(request);
}

/* The array of bodies; NULL: the request has been answered. */
static struct json_object *take_bodies(struct http_request *request)
{
        const struct ferry_json_field fields[] = {
                { "operations", FERRY_JSON_ARRAY, true, 0, 1, request->server->config.limits.batch_max, NULL },
        };
        struct ferry_json_errors errors = { 0 };
        struct json_object *bodies = NULL;

        if (ferry_json_decode(request->json, fields, FERRY_ARRAY_SIZE(fields), &bodies, "", &errors))
                return bodies;
        request_problem_body(request, &errors);
        return NULL;
}

void create_operations(struct http_request *request)
{
        struct json_object *bodies = take_bodies(request);
        FERRY_CLEANUP(cleanup_free) uint64_t *ids = NULL;
        size_t n;
        int error;

        if (!bodies)
                return;
        n = json_object_array_length(bodies);
        ids = calloc(n, sizeof(ids[0]));
        error = ids ? operation_set_begin(request, n) : -ENOMEM;
        if (error)
                request_problem(request, error, NULL);
        else if (replay_begin(request, ids, n) != REPLAY_ANSWERED)
                make(request, bodies, ids);
}
