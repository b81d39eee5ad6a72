/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/json_write.h>
#include <ferry/status.h>

#include "handlers.h"
#include "operation_content.h"
#include "operations/operations.h"
#include "request.h"

void delete_operation_content(struct http_request *request)
{
        struct ferry_json_writer writer = { 0 };
        struct operation_view view;
        bool complete;

        if (!content_find(request, &view) || !content_end(request, &complete))
                return;
        ferry_json_begin_object(&writer);
        ferry_json_add_string(&writer, "status", ferry_status_name(complete ? FERRY_COMPLETE : FERRY_CANCELLED));
        ferry_json_end_object(&writer);
        request_answer_json(request, 200, &writer);
}
