/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/json_write.h>

#include "handlers.h"
#include "request.h"

void get_livez(struct http_request *request)
{
        struct ferry_json_writer writer = { 0 };

        ferry_json_begin_object(&writer);
        ferry_json_add_string(&writer, "status", "live");
        ferry_json_end_object(&writer);
        request_answer_json(request, 200, &writer);
}
