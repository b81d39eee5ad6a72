/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "client_internal.h"

/*
 * Operations in answers: a struct ferry_operation from its document, one, a list, or several of which each may be a
 * problem. Most fields come by a table; kinds, lists and the error need code. What points into the JSON is borrowed
 * until operation_decode() returns, so that it copies whatever it keeps. Pure but for the handle, and for
 * operation_call(), which sends a request.
 */

/* What is decoded at once, and the values that need more than a table. */
struct operation_answer {
        struct ferry_operation o;
        bool unlimited;
        const char *kind, *status, *layout; /* borrowed, as are these; NULL = none */
        struct json_object *descriptors, *error, *metadata, *peer, *remote, *transports;
};

static const struct ferry_json_field operation_peer_fields[] = {
        FERRY_JSON_FIELD("worker", PROSE, false, struct ferry_operation, peer),
        FERRY_JSON_FIELD("epoch", TEXT, true, struct ferry_operation, peer_epoch),
};

struct operation_slice {
        char region[FERRY_ID_SIZE];
        uint64_t offset, size, count, stride;
        struct json_object *blocks; /* borrowed; NULL = none */
};

static const struct ferry_json_field operation_slice_fields[] = {
        FERRY_JSON_FIELD("region", TEXT, true, struct operation_slice, region),
        FERRY_JSON_FIELD("offset", UINT, false, struct operation_slice, offset),
        FERRY_JSON_FIELD("size", UINT, true, struct operation_slice, size),
        FERRY_JSON_FIELD("count", UINT, false, struct operation_slice, count),
        FERRY_JSON_FIELD("stride", UINT, false, struct operation_slice, stride),
        FERRY_JSON_FIELD("blocks", ARRAY, false, struct operation_slice, blocks),
};

/* Points the descriptors to their regions' texts, and the numbers of their blocks behind them. */
static void operation_point(struct ferry_descriptor *descriptors, size_t n, char *texts)
{
        uint64_t *blocks = (uint64_t *)(void *)(texts + n * FERRY_ID_SIZE);
        for (size_t i = 0; i < n; i++) {
                descriptors[i].region = texts + i * FERRY_ID_SIZE;
                descriptors[i].blocks = descriptors[i].n_blocks ? blocks : NULL;
                blocks += descriptors[i].n_blocks;
        }
}

static const struct ferry_json_field operation_range_fields[] = {
        FERRY_JSON_FIELD("offset", UINT, true, struct ferry_range, offset),
        FERRY_JSON_FIELD("size", UINT, true, struct ferry_range, size),
};

/* In the order in which workers write them. */
static const struct ferry_json_field operation_fields[] = {
        FERRY_JSON_FIELD("id", TEXT, true, struct operation_answer, o.id),
        FERRY_JSON_FIELD("label", PROSE, false, struct operation_answer, o.label),
        FERRY_JSON_FIELD("kind", STRING, true, struct operation_answer, kind),
        FERRY_JSON_FIELD("status", STRING, true, struct operation_answer, status),
        FERRY_JSON_FIELD("done", BOOL, true, struct operation_answer, o.done),
        FERRY_JSON_FIELD("revision", UINT, true, struct operation_answer, o.revision),
        FERRY_JSON_FIELD("bytes_total", UINT, true, struct operation_answer, o.bytes_total),
        FERRY_JSON_FIELD("bytes_done", UINT, true, struct operation_answer, o.bytes_done),
        FERRY_JSON_FIELD("descriptors", ARRAY, false, struct operation_answer, descriptors),
        FERRY_JSON_FIELD("remote", ARRAY, false, struct operation_answer, remote),
        FERRY_JSON_FIELD("layout", STRING, false, struct operation_answer, layout),
        FERRY_JSON_FIELD("uses", UINT, false, struct operation_answer, o.uses),
        FERRY_JSON_FIELD("unlimited", BOOL, false, struct operation_answer, unlimited),
        FERRY_JSON_FIELD("uses_done", UINT, false, struct operation_answer, o.uses_done),
        FERRY_JSON_FIELD("uses_declined", UINT, false, struct operation_answer, o.uses_declined),
        FERRY_JSON_FIELD("readers", UINT, false, struct operation_answer, o.readers),
        FERRY_JSON_FIELD("readers_done", UINT, false, struct operation_answer, o.readers_done),
        FERRY_JSON_FIELD("follow", TEXT, false, struct operation_answer, o.follow),
        FERRY_JSON_FIELD("ttl_ms", UINT, false, struct operation_answer, o.ttl_ms),
        FERRY_JSON_FIELD("renew_max_ms", UINT, false, struct operation_answer, o.renew_max_ms),
        FERRY_JSON_FIELD("timeout_ms", UINT, false, struct operation_answer, o.timeout_ms),
        FERRY_JSON_FIELD("verify", BOOL, false, struct operation_answer, o.verify),
        FERRY_JSON_FIELD("relay", BOOL, false, struct operation_answer, o.relay),
        FERRY_JSON_FIELD("transports", ARRAY, false, struct operation_answer, transports),
        FERRY_JSON_FIELD("request_id", PROSE, false, struct operation_answer, o.request_id),
        FERRY_JSON_FIELD("created_at", TEXT, false, struct operation_answer, o.created_at),
        FERRY_JSON_FIELD("cancel_requested", BOOL, false, struct operation_answer, o.cancel_requested),
        FERRY_JSON_FIELD("expires_at", TEXT, false, struct operation_answer, o.expires_at),
        FERRY_JSON_FIELD("ended_at", TEXT, false, struct operation_answer, o.ended_at),
        FERRY_JSON_FIELD("duration_us", UINT, false, struct operation_answer, o.duration_us),
        FERRY_JSON_FIELD("bytes_prefix", UINT, false, struct operation_answer, o.bytes_prefix),
        FERRY_JSON_FIELD("peer", OBJECT, false, struct operation_answer, peer),
        FERRY_JSON_FIELD("transport", TEXT, false, struct operation_answer, o.transport),
        FERRY_JSON_FIELD("connect_us", UINT, false, struct operation_answer, o.connect_us),
        FERRY_JSON_FIELD("error", OBJECT, false, struct operation_answer, error),
        FERRY_JSON_FIELD("metadata", OBJECT, false, struct operation_answer, metadata),
};

static int operation_refuse(struct ferry_json_errors *errors, const char *pointer, const char *detail)
{
        ferry_json_complain(errors, FERRY_E_INVALID_PARAMETER, pointer, "%s", detail);
        return -EPROTO;
}

/* "shm,tcp". What is beyond the room is left out: a transport more makes no program wrong. */
static int operation_decode_transports(struct json_object *list, struct ferry_operation *o,
                                       struct ferry_json_errors *errors)
{
        size_t used = 0;
        for (size_t i = 0; list && i < json_object_array_length(list); i++) {
                struct json_object *item = json_object_array_get_idx(list, i);
                if (!json_object_is_type(item, json_type_string))
                        return operation_refuse(errors, "/transports", "expected strings");
                size_t length = (size_t)json_object_get_string_len(item) + (used ? 1 : 0);
                if (used + length >= sizeof(o->transports))
                        break;
                snprintf(o->transports + used, sizeof(o->transports) - used, "%s%s", used ? "," : "",
                         json_object_get_string(item));
                used += length;
        }
        return 0;
}

/* Adds the numbers of the next descriptor at the end of the allocation, which may move. size: bytes of it so far. */
static int operation_decode_blocks(struct json_object *list, struct ferry_operation *o, size_t *size,
                                   size_t *ret_n_blocks, struct ferry_json_errors *errors)
{
        if (!list)
                return 0;
        size_t n = json_object_array_length(list);
        struct ferry_descriptor *grown = realloc(o->descriptors, *size + n * sizeof(uint64_t));
        if (!grown)
                return -ENOMEM;
        o->descriptors = grown;
        uint64_t *numbers = (uint64_t *)(void *)((char *)grown + *size);
        *size += n * sizeof(uint64_t);
        *ret_n_blocks = n;
        return ferry_json_get_uints(list, numbers) == n ? 0 : operation_refuse(errors, "/blocks", "expected integers");
}

/* One allocation: the descriptors, the texts that they point to, the numbers of their blocks. */
static int operation_decode_descriptors(struct json_object *list, struct ferry_operation *o,
                                        struct ferry_json_errors *errors)
{
        size_t n = list ? json_object_array_length(list) : 0;
        if (n == 0)
                return 0;
        size_t size = n * (sizeof(*o->descriptors) + FERRY_ID_SIZE);
        o->descriptors = calloc(1, size);
        if (!o->descriptors)
                return -ENOMEM;
        int r = 0;
        while (o->n_descriptors < n) {
                struct operation_slice slice = { .count = 1 };
                r = DECODE(json_object_array_get_idx(list, o->n_descriptors), operation_slice_fields, &slice, errors);
                struct ferry_descriptor d = {
                        .offset = slice.offset, .size = slice.size, .count = slice.count, .stride = slice.stride
                };
                if (r == 0)
                        r = operation_decode_blocks(slice.blocks, o, &size, &d.n_blocks, errors);
                if (r < 0)
                        break;
                memcpy((char *)(o->descriptors + n) + o->n_descriptors * FERRY_ID_SIZE, slice.region, FERRY_ID_SIZE);
                o->descriptors[o->n_descriptors++] = d;
        }
        operation_point(o->descriptors, n, (char *)(o->descriptors + n));
        return r;
}

static int operation_decode_remote(struct json_object *list, struct ferry_operation *o,
                                   struct ferry_json_errors *errors)
{
        size_t n = list ? json_object_array_length(list) : 0;
        o->remote = n ? calloc(n, sizeof(*o->remote)) : NULL;
        if (n && !o->remote)
                return -ENOMEM;
        int r = 0;
        for (; r == 0 && o->n_remote < n; o->n_remote++)
                r = DECODE(json_object_array_get_idx(list, o->n_remote), operation_range_fields,
                           &o->remote[o->n_remote], errors);
        return r;
}

/* The metadata as the text that a peer's worker is given, a secret. */
static int operation_decode_metadata(struct json_object *metadata, struct ferry_operation *o)
{
        if (!metadata)
                return 0;
        size_t size;
        const char *text = json_object_to_json_string_length(
                metadata, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &size);
        o->metadata = text ? strndup(text, size) : NULL;
        return o->metadata ? 0 : -ENOMEM;
}

int operation_decode(struct json_object *json, void *operation, struct ferry_json_errors *errors)
{
        struct operation_answer answer = { .layout = "pairwise" };
        struct ferry_operation *o = &answer.o;
        int r = DECODE(json, operation_fields, &answer, errors);
        if (r < 0)
                return r;
        if (answer.unlimited)
                o->uses = FERRY_USES_UNLIMITED;
        o->kind = ferry_kind_from_name(answer.kind);
        o->status = ferry_status_from_name(answer.status);
        o->layout = ferry_layout_from_name(answer.layout);
        r = call_decode_error(answer.error, &o->error, o->error_code, o->error_detail, errors);
        if (r == 0 && answer.peer)
                r = DECODE(answer.peer, operation_peer_fields, o, errors);
        if (r == 0)
                r = operation_decode_transports(answer.transports, o, errors);
        if (r == 0)
                r = operation_decode_descriptors(answer.descriptors, o, errors);
        if (r == 0)
                r = operation_decode_remote(answer.remote, o, errors);
        if (r == 0)
                r = operation_decode_metadata(answer.metadata, o);
        if (r < 0)
                ferry_operation_clear(o);
        else
                *(struct ferry_operation *)operation = *o;
        return r;
}

void ferry_operation_clear(struct ferry_operation *operation)
{
        free(operation->descriptors);
        free(operation->remote);
        ferry_secret_free(operation->metadata);
        *operation = (struct ferry_operation){ 0 };
}

int operation_call(struct ferry *f, const struct request *request, struct ferry_operation *ret_operation)
{
        struct ferry_operation ours = { 0 };
        int r = call_decode(f, request, operation_decode, &ours, NULL);
        if (r == 0 && ret_operation)
                *ret_operation = ours;
        else
                ferry_operation_clear(&ours);
        return r;
}

static void operation_clear_item(void *item)
{
        ferry_operation_clear(item);
}

const struct call_list operation_list = { "operations", sizeof(struct ferry_operation), operation_decode,
                                          operation_clear_item };

void ferry_operation_list_clear(struct ferry_operation_list *list)
{
        for (size_t i = 0; i < list->n; i++)
                ferry_operation_clear(&list->items[i]);
        free(list->items);
        free(list->next);
        *list = (struct ferry_operation_list){ 0 };
}

/* ---- several, each of which may be a problem instead ---- */

static void result_clear(void *item)
{
        struct ferry_operation_result *result = item;
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

/* An element with a "problem" is one; any other is an operation. */
static int result_decode(struct json_object *json, void *item, struct ferry_json_errors *errors)
{
        struct ferry_operation_result *result = item;
        struct json_object *problem;
        int r = -ENOMEM;
        if (json_object_is_type(json, json_type_object) && json_object_object_get_ex(json, "problem", &problem)) {
                result->problem = calloc(1, sizeof(*result->problem));
                if (!result->problem)
                        return r;
                result->problem->http_status = json_object_get_int(json_object_object_get(problem, "status"));
                r = problem_decode(problem, result->problem, errors);
                result->result = result->problem->error;
        } else {
                result->operation = calloc(1, sizeof(*result->operation));
                if (result->operation)
                        r = operation_decode(json, result->operation, errors);
        }
        if (r < 0)
                result_clear(result);
        return r;
}

int results_decode(struct ferry *f, const struct reply *reply, const char *key, size_t n,
                   struct ferry_operation_results *ret_results)
{
        const struct call_list list = { key, sizeof(struct ferry_operation_result), result_decode, result_clear };
        struct call_page page = { .list = &list };
        int r = call_decode_reply(f, reply, call_decode_page, &page);
        if (r != 0)
                return r;
        free(page.next);
        struct ferry_operation_results results = { .items = page.items, .n = page.n };
        if (results.n != n) {
                ferry_operation_results_clear(&results);
                return problem_protocol(f, "another number of operations was asked for", "");
        }
        *ret_results = results;
        return 0;
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
