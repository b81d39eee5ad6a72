/* SPDX-License-Identifier: Apache-2.0 */
/* Several operations, each of which may be a problem instead. */
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/json.h>

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

static int results_page(struct json_object *json, void *results, const char **ret_field)
{
        static const struct decode_list list = { "operations", sizeof(struct ferry_operation_result), result_decode,
                                                 result_clear_item };
        struct decode_page page;
        int r = decode_page(json, &list, &page, ret_field);
        if (r < 0)
                return r;
        free(page.next);
        *(struct ferry_operation_results *)results =
                (struct ferry_operation_results){ .items = page.items, .n = page.n };
        return 0;
}

int results_decode_page(struct ferry *f, const struct reply *reply, struct ferry_operation_results *ret_results)
{
        return call_decode_reply(f, reply, results_page, ret_results);
}

/* 1: it is an operation as workers write it; 0: it is to be decoded; -ENOMEM. */
static int result_scan(const char *text, size_t size, struct ferry_operation_result *result)
{
        struct ferry_operation operation;
        if (!operation_scan(text, size, &operation))
                return 0;
        result->operation = malloc(sizeof(operation));
        if (!result->operation) {
                ferry_operation_clear(&operation);
                return -ENOMEM;
        }
        *result->operation = operation;
        return 1;
}

/* One element of a batch's answer, which is a document of its own: its metadata are only passed on. */
static int results_add(struct ferry_operation_results *results, size_t *room, const char *text, size_t size,
                       const char **ret_field)
{
        struct ferry_json_errors errors = { 0 };
        struct ferry_json *json = NULL;
        struct ferry_operation_result *items = ferry_reserve(results->items, room, results->n + 1, sizeof(*items));
        if (!items)
                return -ENOMEM;
        results->items = items;
        items[results->n] = (struct ferry_operation_result){ 0 };
        int r = result_scan(text, size, &items[results->n]);
        if (r != 0) {
                results->n += r > 0;
                return r < 0 ? r : 0;
        }
        r = ferry_json_parse(text, size, "metadata", &json, &errors);
        if (r != 0)
                return r < 0 ? r : -EPROTO;
        r = result_decode(ferry_json_root(json), &items[results->n], ret_field);
        results->n += r == 0;
        (void)ferry_json_free(json);
        return r;
}

/* The text of the array of a batch's results, within json. NULL: the field is missing or wrong; or memory is short. */
static const char *results_text(const struct ferry_json *json)
{
        struct json_object *results;
        size_t size;
        if (!json_object_object_get_ex(ferry_json_root(json), "results", &results) ||
            !json_object_is_type(results, json_type_array))
                return NULL;
        return ferry_json_text(results, &size);
}

int results_decode_batch(struct ferry *f, const struct reply *reply, struct ferry_operation_results *ret_results)
{
        struct ferry_json_errors errors = { 0 };
        struct ferry_operation_results results = { 0 };
        struct ferry_json *json = NULL;
        const char *field = "results", *text;
        size_t size, room = 0;
        int r = call_check_type(f, reply);
        if (r != 0)
                return r;
        r = ferry_json_parse(reply->body.data, reply->body.size, NULL, &json, &errors);
        if (r > 0)
                return problem_protocol(f, "the body is not JSON", errors.n ? errors.items[0].detail : "");
        const char *at = r == 0 ? results_text(json) : NULL;
        if (r == 0 && !at)
                r = -EPROTO;
        while (r == 0 && ferry_json_next_text(&at, &text, &size))
                r = results_add(&results, &room, text, size, &field);
        if (r == -EPROTO)
                (void)problem_protocol(f, "a field is missing or wrong", field);
        if (r == 0)
                *ret_results = results;
        else
                ferry_operation_results_clear(&results);
        (void)ferry_json_free(json);
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
