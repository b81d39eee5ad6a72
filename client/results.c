/* SPDX-License-Identifier: Apache-2.0 */
/* Several operations, each of which may be a problem instead. */
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "client_internal.h"
#include "decode.h"

static void result_clear(struct ferry_operation_result *result)
{
        if (result->operation)
                ferry_operation_clear(result->operation);
        free(result->operation);
        free(result->problem);
        *result = (struct ferry_operation_result){ 0 };
}

void ferry_operation_results_clear(struct ferry_operation_results *results)
{
        for (size_t i = 0; i < results->n; i++)
                result_clear(&results->items[i]);
        free(results->items);
        *results = (struct ferry_operation_results){ 0 };
}

/* An element with a "code" is a problem document; any other is an operation. */
static int result_decode(struct json_object *json, void *item, const char **ret_field)
{
        struct ferry_operation_result *result = item;
        int r;
        if (json_object_is_type(json, json_type_object) && json_object_object_get_ex(json, "code", NULL)) {
                result->problem = calloc(1, sizeof(*result->problem));
                if (!result->problem)
                        return -ENOMEM;
                result->problem->http_status = json_object_get_int(json_object_object_get(json, "status"));
                r = problem_decode(json, result->problem, ret_field);
                result->result = result->problem->error;
        } else {
                result->operation = calloc(1, sizeof(*result->operation));
                r = result->operation ? operation_decode(json, result->operation, ret_field) : -ENOMEM;
        }
        if (r < 0)
                result_clear(result);
        return r;
}

static void result_clear_item(void *item)
{
        result_clear(item);
}

static int results_decode(struct json_object *json, const char *key, struct ferry_operation_results *results,
                          const char **ret_field)
{
        const struct decode_list list = { key, sizeof(struct ferry_operation_result), result_decode,
                                          result_clear_item };
        struct decode_page page;
        int r = decode_page(json, &list, &page, ret_field);
        if (r < 0)
                return r;
        free(page.next);
        *results = (struct ferry_operation_results){ .items = page.items, .n = page.n };
        return 0;
}

static int results_page(struct json_object *json, void *results, const char **ret_field)
{
        return results_decode(json, "operations", results, ret_field);
}

static int results_batch(struct json_object *json, void *results, const char **ret_field)
{
        return results_decode(json, "results", results, ret_field);
}

int results_decode_page(struct ferry *f, const struct reply *reply, struct ferry_operation_results *ret_results)
{
        return call_decode_reply(f, reply, results_page, ret_results);
}

int results_decode_batch(struct ferry *f, const struct reply *reply, struct ferry_operation_results *ret_results)
{
        return call_decode_reply(f, reply, results_batch, ret_results);
}

bool results_are_done(const struct ferry_operation_results *results, enum ferry_wait_for wait_for)
{
        size_t done = 0;
        for (size_t i = 0; i < results->n; i++)
                done += !results->items[i].operation || results->items[i].operation->done;
        return wait_for == FERRY_WAIT_ANY ? done > 0 : done == results->n;
}

int results_path(struct ferry *f, const char *const *ids, size_t n, enum ferry_wait_for wait_for, struct path *path)
{
        path_add(path, "/v1/operations?ids=");
        path->queried = true;
        if ((n == 0 || !ids) && !path->error)
                path->error = -EINVAL;
        for (size_t i = 0; i < n && !path->error; i++) {
                path_add(path, i ? "," : "");
                path_add_segment(path, ids[i]);
        }
        path_query(path, "wait_for", wait_for == FERRY_WAIT_ANY ? "any" : NULL);
        return path->error == -EINVAL ? problem_argument(f, "an id is empty, or the ids are none or too many")
                                      : path->error;
}
