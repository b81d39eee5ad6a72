/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/error.h>
#include <ferry/json.h>

#include "handlers.h"
#include "http_internal.h"
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

void renew_operation(struct http_request *request)
{
        uint64_t ttl_ms = 0;

        if (!request_find_operation(request) || !decode(request, &ttl_ms))
                return;
        int error = operation_renew(request->server->config.operations, request->operation, ttl_ms);
        switch (error) {
        case 0:
                request_answer_operation(request, 200);
                break;
        case FERRY_E_NOT_PASSIVE:
                request_problem(request, error, "Only readable and writable operations expire");
                break;
        case FERRY_E_GONE:
                request_problem(request, error, "The operation has ended");
                break;
        default:
                request_problem(request, error, "The time to live cannot be set anew");
        }
}
