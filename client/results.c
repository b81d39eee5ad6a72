/* SPDX-License-Identifier: Apache-2.0 */
/* Several operations, each of which may be a problem instead. */
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "client_internal.h"
#include "decode.h"
#include "sizes.h"

static void result_clear(struct ferry_operation_result *result, const struct ferry_sizes *sizes)
{
        if (result->operation)
                ferry_operation_clear_sized(result->operation, sizes);
        free(result->operation);
        free(result->problem);
        *result = (struct ferry_operation_result){ 0 };
}

void ferry_operation_results_clear_sized(struct ferry_operation_results *results, const struct ferry_sizes *sizes)
{
        struct ferry_operation_results ours;
        struct ferry_operation_result item;
        sizes_give(&ours, sizeof(ours), results, sizes->operation_results);
        memset(results, 0, sizes->operation_results);
        for (size_t i = 0; i < ours.n; i++) {
                sizes_give(&item, sizeof(item), (char *)ours.items + i * sizes->operation_result,
                           sizes->operation_result);
                result_clear(&item, sizes);
        }
        free(ours.items);
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
                result_clear(result, &ferry_sizes_here);
        return r;
}

static void result_clear_item(void *item)
{
        result_clear(item, &ferry_sizes_here);
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
        *results = (struct ferry_operation_results){ page.items, page.n };
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

int results_give(struct ferry_operation_results *ours, struct ferry_operation_results *theirs,
                 const struct ferry_sizes *sizes)
{
        struct ferry_sizes given = ferry_sizes_here; /* of the items before the i-th */
        size_t i = 0;
        int r = 0;
        given.operation = sizes->operation;
        for (; r == 0 && i < ours->n; i += r == 0) {
                struct ferry_operation *operation = ours->items[i].operation;
                if (operation)
                        r = operation_give_descriptors(operation, sizes->descriptor);
                if (r == 0 && operation)
                        r = sizes_give_items((void **)&ours->items[i].operation, 1, sizes->operation,
                                             sizeof(*operation));
        }
        if (r == 0)
                r = sizes_give_items((void **)&ours->items, ours->n, sizes->operation_result, sizeof(*ours->items));
        if (r == 0)
                sizes_give_up(theirs, sizes->operation_results, ours, sizeof(*ours));
        for (size_t k = 0; r < 0 && k < i; k++)
                result_clear(&ours->items[k], &given);
        if (r < 0)
                ferry_operation_results_clear(ours);
        return r;
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
