/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/error.h>
#include <ferry/json_write.h>

#include "handlers.h"
#include "metadata_json.h"
#include "request.h"

void get_operation_metadata(struct http_request *request)
{
        struct ferry_json_writer writer = { 0 };

        if (!request_find_operation(request))
                return;
        int error = metadata_json_write(&writer, request, request->operation, NULL);
        switch (error) {
        case 0:
                request_answer_json(request, 200, &writer);
                break;
        case FERRY_E_NOT_PASSIVE:
                request_problem(request, error, "Ask the worker that offers the memory");
                break;
        case FERRY_E_GONE:
                request_problem(request, error, "The operation has ended");
                break;
        default:
                request_problem(request, error, NULL);
        }
}
