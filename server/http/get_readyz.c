/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/error.h>

#include "handlers.h"
#include "http_internal.h"
#include "json_build.h"
#include "request.h"

void get_readyz(struct http_request *request)
{
        struct json_object *object;

        if (atomic_load(&request->server->draining)) {
                request_problem(request, FERRY_E_DRAINING, NULL);
                return;
        }
        object = json_object_new_object();
        request_answer_json(request, 200, json_finish(object, json_add_string(object, "status", "ready")));
}
