/* SPDX-License-Identifier: Apache-2.0 */
/* A batch: several operations by one request. Its set of results is the request's state. */
#include <errno.h>
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
static uint64_t make_result(struct http_request *request, size_t i, const char *text, size_t size)
{
        struct refusal refusal = { 0 };
        struct operation *operation = operation_make(request, text, size, false, false, &refusal);
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

/* text: of the array of bodies. ids: made earlier with the same Idempotency-Key; 0 = not. */
static void make(struct http_request *request, const char *text, uint64_t *ids)
{
        char id[FERRY_ID_TEXT_SIZE];
        size_t size, n_made = 0;
        const char *body;

        for (size_t i = 0; ferry_json_next_text(&text, &body, &size); i++) {
                if (ids[i]) {
                        ferry_id_format("op_", ids[i], id);
                        operation_set_find(request->state, i, id);
                } else {
                        ids[i] = make_result(request, i, body, size);
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

        if (ferry_json_decode(ferry_json_root(request->json), fields, FERRY_ARRAY_SIZE(fields), &bodies, "", &errors))
                return bodies;
        request_problem_body(request, &errors);
        return NULL;
}

void create_operations(struct http_request *request)
{
        struct json_object *bodies = take_bodies(request);
        FERRY_CLEANUP(cleanup_free) uint64_t *ids = NULL;
        const char *text;
        size_t n, size;
        int error;

        if (!bodies)
                return;
        n = ferry_json_count(bodies);
        text = ferry_json_text(bodies, &size);
        ids = calloc(n, sizeof(ids[0]));
        error = ids && text ? operation_set_begin(request, n) : -ENOMEM;
        if (error)
                request_problem(request, error, NULL);
        else if (replay_begin(request, ids, n) != REPLAY_ANSWERED)
                make(request, text, ids);
}
