/* SPDX-License-Identifier: Apache-2.0 */
#include "handlers.h"
#include "http_internal.h"
#include "operations/operations.h"
#include "request.h"

void cancel_operation(struct http_request *request)
{
        struct operation *operation = request_find_operation(request);

        if (!operation)
                return;
        operation_cancel(request->server->config.operations, operation);
        request_answer_operation(request, 200);
}
