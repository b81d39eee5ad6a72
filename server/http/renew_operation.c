/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/json_write.h>

#include "guard.h"
#include "handlers.h"
#include "http_internal.h"
#include "operation_content.h"
#include "operation_json.h"
#include "operations/operations.h"
#include "request.h"

static bool decode(struct http_request *request, uint64_t *ttl_ms)
{
        struct ferry_json_errors errors = { 0 };
        uint64_t max = request->server->config.operation_limits->ttl_ms_max;
        const struct ferry_json_field field = { "ttl_ms", FERRY_JSON_UINT, false, 0, 1, max, NULL };

        if (!request->body.size || ferry_json_decode(request->json, &field, 1, ttl_ms, "", &errors))
                return true;
        request_problem_body(request, &errors);
        return false;
}

static void refuse(struct http_request *request, int error)
{
        switch (error) {
        case FERRY_E_NOT_PASSIVE:
                request_problem(request, error, "Only readable and writable operations expire");
                break;
        case FERRY_E_GONE:
                request_problem(request, error, "The operation has ended");
                break;
        case FERRY_E_FORBIDDEN:
                request_problem(request, error,
                                "Only its owner can renew this operation: it was created without renew_max_ms");
                break;
        default:
                request_problem(request, error, "The time to live cannot be set anew");
        }
}

static void renew_for_owner(struct http_request *request)
{
        uint64_t ttl_ms = 0;

        guard_trust(request);
        if (!request_check_operation(request) || !decode(request, &ttl_ms))
                return;
        int error = operation_renew(request->server->config.operations, request->operation, ttl_ms);
        if (error)
                refuse(request, error);
        else
                request_answer_operation(request, 200);
}

/* The holder of the key learns no more of the operation than that it is kept. */
static void renew_for_holder(struct http_request *request)
{
        struct ferry_json_writer writer = { 0 };
        struct operation_view view;
        uint64_t ttl_ms = 0, expires_unix_ms;
        enum ferry_status status;

        if (!content_find(request, &view) || !decode(request, &ttl_ms))
                return;
        int error = operation_keep(request->server->config.operations, request->operation, ttl_ms, &status,
                                   &expires_unix_ms);
        if (error) {
                refuse(request, error);
                return;
        }
        operation_get_view(request->server->config.operations, request->operation, &view);
        (void)request_etag(request, view.revision);
        operation_json_offer(&writer, status, expires_unix_ms);
        request_answer_json(request, 200, &writer);
}

void renew_operation(struct http_request *request)
{
        if (content_shows_key(request))
                renew_for_holder(request);
        else if (request_look_up_operation(request))
                renew_for_owner(request);
}
