/* SPDX-License-Identifier: Apache-2.0 */
#include "handlers.h"
#include "json_build.h"
#include "request.h"

void get_livez(struct http_request *request)
{
        struct json_object *object = json_object_new_object();

        request_answer_json(request, 200, json_finish(object, json_add_string(object, "status", "live")));
}
