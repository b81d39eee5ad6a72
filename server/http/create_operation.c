/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/json_write.h>
#include <ferry/status.h>

#include "base/util.h"
#include "handlers.h"
#include "http_internal.h"
#include "metadata_json.h"
#include "operation_json.h"
#include "operation_making.h"
#include "operation_set.h"
#include "operations/operations.h"
#include "refusal.h"
#include "replay.h"
#include "request.h"
#include "wait.h"

/* ---- one operation ---- */

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

static void make(struct http_request *request)
{
        struct refusal refusal = { 0 };
        uint64_t id;

        request->operation =
                operation_make(request, request->body.data, request->body.size,
                               query_has(&request->query, HTTP_PARAMETER_INCLUDE), request_waits(request), &refusal);
        if (!request->operation) {
                refusal_answer(&refusal, request);
                return;
        }
        id = operation_id(request->operation);
        replay_commit(request, &id);
        answer_in_time(request);
}

static void create_one(struct http_request *request)
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

/* ---- a batch, whose set is the request's state ---- */

static void answer_batch(struct http_request *request)
{
        struct ferry_json_writer writer = { 0 };

        /* Needs no limit of its own: the answer is at most a few times body_max. */
        operation_set_write(request->state, request, query_has(&request->query, HTTP_PARAMETER_INCLUDE), SIZE_MAX,
                            &writer);
        request_answer_json(request, 200, &writer);
}

static void answer_batch_in_time(struct http_request *request)
{
        uint64_t wait_ms = request_wait_ms(request);

        if (!wait_ms ||
            wait_park_latch(request, operation_set_wait(request->state, false), wait_ms, answer_batch) != WAIT_PARKED)
                answer_batch(request);
}

/* Makes one operation of the batch. Returns its id; 0 = refused. */
static uint64_t make_result(struct http_request *request, size_t i, const char *text, size_t size)
{
        struct refusal refusal = { 0 };
        struct operation *operation = operation_make(request, text, size, false, false, &refusal);

        if (!operation) {
                operation_set_refuse(request->state, i, request, &refusal);
                return 0;
        }
        operation_set_put(request->state, i, operation);
        return operation_id(operation);
}

/* ids: made earlier with the same Idempotency-Key; 0 = not. */
static void make_batch(struct http_request *request, uint64_t *ids)
{
        const char *at = request->body.data, *text;
        char id[FERRY_ID_TEXT_SIZE];
        size_t size, n_made = 0;

        for (size_t i = 0; ferry_json_next_text(&at, &text, &size); i++) {
                if (ids[i]) {
                        ferry_id_format("op_", ids[i], id);
                        operation_set_find(request->state, i, id);
                } else {
                        ids[i] = make_result(request, i, text, size);
                }
                n_made += ids[i] != 0;
        }
        if (n_made)
                replay_commit(request, ids);
        answer_batch_in_time(request);
}

static void create_batch(struct http_request *request)
{
        const uint64_t max = request->server->config.limits.batch_max;
        FERRY_CLEANUP(cleanup_free) uint64_t *ids = NULL;
        int error;

        if (!request_parse_body(request))
                return;
        size_t n = ferry_json_count(ferry_json_root(request->json));
        if (n < 1 || n > max) {
                request_problem(request, FERRY_E_INVALID_PARAMETER, "A batch has 1 to %llu operations",
                                (unsigned long long)max);
                return;
        }
        ids = calloc(n, sizeof(ids[0]));
        error = ids ? operation_set_begin(request, n) : -ENOMEM;
        if (error)
                request_problem(request, error, NULL);
        else if (replay_begin(request, ids, n) != REPLAY_ANSWERED)
                make_batch(request, ids);
}

void create_operation(struct http_request *request)
{
        const char *text = request->body.data;

        if (text[strspn(text, " \t\r\n")] == '[')
                create_batch(request);
        else
                create_one(request);
}
