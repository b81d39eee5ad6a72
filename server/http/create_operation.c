/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/error.h>
#include <ferry/json_write.h>

#include "base/util.h"
#include "handlers.h"
#include "http_internal.h"
#include "metadata_json.h"
#include "operation_json.h"
#include "operation_making.h"
#include "operations/operations.h"
#include "refusal.h"
#include "replay.h"
#include "request.h"
#include "wait.h"

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
