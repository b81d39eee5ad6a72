/* SPDX-License-Identifier: Apache-2.0 */
#include "problem.h"

#include <json-c/json.h>
#include <stdio.h>

#include <ferry/error.h>
#include <ferry/json.h>

#include "json_build.h"

unsigned problem_status(int error)
{
        int status = ferry_error_http(error);

        return status ? (unsigned)status : 500;
}

unsigned problem_retry_after(int error)
{
        switch (error) {
        case FERRY_E_LIMIT_REACHED:
        case FERRY_E_NO_SPACE:
                return 1;
        case FERRY_E_DRAINING:
                return 5;
        default:
                return 0;
        }
}

static struct json_object *complaints_new(const struct ferry_json_errors *errors)
{
        struct json_object *list = json_object_new_array_ext((int)errors->n);
        bool ok = list;

        for (size_t i = 0; ok && i < errors->n; i++) {
                struct json_object *item = json_object_new_object();
                ok = json_add_string(item, "pointer", errors->items[i].pointer) &&
                     json_add_string(item, "detail", errors->items[i].detail);
                ok = json_append(list, item) && ok;
        }
        return json_finish(list, ok);
}

struct json_object *problem_new(int error, bool retryable, const char *detail, const struct ferry_json_errors *errors)
{
        struct json_object *problem = json_object_new_object();
        char type[64];

        snprintf(type, sizeof(type), "urn:ferry:error:%s", ferry_error_code(error));
        bool ok = json_add_string(problem, "type", type) &&
                  json_add_string(problem, "title", ferry_error_title(error)) &&
                  json_add_uint(problem, "status", problem_status(error));
        if (detail && *detail)
                ok = ok && json_add_string(problem, "detail", detail);
        ok = ok && json_add_string(problem, "code", ferry_error_code(error)) &&
             json_add_bool(problem, "retryable", retryable);
        if (errors && errors->n)
                ok = ok && json_add(problem, "errors", complaints_new(errors));
        return json_finish(problem, ok);
}
