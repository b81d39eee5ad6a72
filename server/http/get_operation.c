/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/error.h>

#include "handlers.h"
#include "http_internal.h"
#include "operations/operations.h"
#include "request.h"
#include "wait.h"

static void answer(struct http_request *request)
{
        request_answer_operation(request, 200);
}

/* Saves parking the request, which would find the same. Every revision is above 0. */
static bool already_past(const struct http_request *request)
{
        uint64_t revision = query_value(&request->query, HTTP_PARAMETER_REVISION);

        return (query_has(&request->query, HTTP_PARAMETER_REVISION) && !revision) ||
               operation_is_past(request->server->config.operations, request->operation, revision);
}

void get_operation(struct http_request *request)
{
        if (!request_find_operation(request))
                return;
        uint64_t wait_ms = request_wait_ms(request);
        if (!wait_ms || already_past(request)) {
                answer(request);
                return;
        }
        wait_or_answer(request, query_value(&request->query, HTTP_PARAMETER_REVISION), wait_ms, answer);
}
