/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/error.h>

#include "handlers.h"
#include "metadata_json.h"
#include "request.h"

void get_operation_metadata(struct http_request *request)
{
        struct json_object *metadata;

        if (!request_find_operation(request))
                return;
        int error = metadata_json_new(request, &metadata);
        switch (error) {
        case 0:
                request_answer_json(request, 200, metadata);
                break;
        case FERRY_E_NOT_PASSIVE:
                request_problem(request, error, "Its peer has the metadata");
                break;
        case FERRY_E_GONE:
                request_problem(request, error, "The operation has ended");
                break;
        default:
                request_problem(request, error, NULL);
        }
}
