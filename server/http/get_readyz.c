/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/error.h>
#include <ferry/json_write.h>

#include "handlers.h"
#include "http_internal.h"
#include "problem.h"
#include "request.h"

void get_readyz(struct http_request *request)
{
        struct ferry_json_writer writer = { 0 };

        if (atomic_load(&request->server->draining)) {
                request_problem(request, FERRY_E_DRAINING, PROBLEM_DRAINING);
                return;
        }
        ferry_json_begin_object(&writer);
        ferry_json_add_string(&writer, "status", "ready");
        ferry_json_end_object(&writer);
        request_answer_json(request, 200, &writer);
}
