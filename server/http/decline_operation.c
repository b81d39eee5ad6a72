/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/error.h>
#include <ferry/json_write.h>

#include "handlers.h"
#include "http_internal.h"
#include "operation_content.h"
#include "operation_json.h"
#include "operations/operations.h"
#include "request.h"

void decline_operation(struct http_request *request)
{
        struct ferry_json_writer writer = { 0 };
        struct operation_view view;
        enum ferry_status status;
        uint64_t transfer;

        if (!content_find(request, &view) || !content_transfer(request, &transfer))
                return;
        int error = operation_decline(request->server->config.operations, request->operation, transfer, &status);
        if (error == FERRY_E_ALREADY_CLAIMED) {
                request_problem(request, error,
                                view.uses > 1 ? "No use of the operation is left to decline"
                                              : "A peer is moving the bytes: its transfer can be cancelled");
                return;
        }
        if (error) {
                content_refuse(request, error);
                return;
        }
        operation_json_offer(&writer, status, 0);
        request_answer_json(request, 200, &writer);
}
