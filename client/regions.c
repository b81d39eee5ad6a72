/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include <ferry/json_write.h>

#include "client_internal.h"
#include "decode.h"

/* ---- answers ---- */

/* What is decoded at once, and the value that needs more than a table. */
struct region_answer {
        struct ferry_region r;
        struct json_object *error; /* borrowed; NULL = none */
};

static const struct decode_field region_fields[] = {
        DECODE_FIELD("id", DECODE_TEXT, true, struct region_answer, r.id),
        DECODE_FIELD("size", DECODE_UINT, true, struct region_answer, r.size),
        DECODE_FIELD("device", DECODE_TEXT, true, struct region_answer, r.device),
        DECODE_FIELD("name", DECODE_TEXT, false, struct region_answer, r.name),
        DECODE_FIELD("bytes_prepared", DECODE_UINT, false, struct region_answer, r.bytes_prepared),
        DECODE_FIELD("path", DECODE_TEXT, false, struct region_answer, r.path),
        DECODE_FIELD("state", DECODE_TEXT, false, struct region_answer, r.state),
        DECODE_FIELD("sealed", DECODE_BOOL, false, struct region_answer, r.sealed),
        DECODE_FIELD("error", DECODE_VALUE, false, struct region_answer, error),
        DECODE_FIELD("in_use", DECODE_UINT, false, struct region_answer, r.in_use),
        DECODE_FIELD("created_at", DECODE_TEXT, false, struct region_answer, r.created_at),
        DECODE_FIELD("idle_ms", DECODE_UINT, false, struct region_answer, r.idle_ms),
        DECODE_FIELD("expires_at", DECODE_TEXT, false, struct region_answer, r.expires_at),
};

static const struct decode_list region_list = { "regions", sizeof(struct ferry_region), region_decode, NULL };

int region_decode(struct json_object *json, void *region, const char **ret_field)
{
        struct region_answer answer = { 0 };
        struct decode_error error = { 0 };
        int r = decode_object(json, region_fields, FERRY_ARRAY_SIZE(region_fields), &answer, ret_field);
        if (r == 0)
                r = decode_error(answer.error, &error, ret_field);
        if (r < 0)
                return r;
        answer.r.error = error.number;
        memcpy(answer.r.error_code, error.code, sizeof(error.code));
        memcpy(answer.r.error_detail, error.detail, sizeof(error.detail));
        *(struct ferry_region *)region = answer.r;
        return 0;
}

int region_page_decode(struct json_object *json, void *list, const char **ret_field)
{
        struct decode_page page;
        int r = decode_page(json, &region_list, &page, ret_field);
        if (r == 0)
                *(struct ferry_region_list *)list =
                        (struct ferry_region_list){ .items = page.items, .n = page.n, .next = page.next };
        return r;
}

void ferry_region_list_clear(struct ferry_region_list *list)
{
        free(list->items);
        free(list->next);
        *list = (struct ferry_region_list){ 0 };
}

static int region_call(struct ferry *f, const struct request *request, struct ferry_region *ret_region)
{
        struct ferry_region ours = { 0 };
        int r = call_decode(f, request, region_decode, &ours, NULL);
        if (r == 0)
                *ret_region = ours;
        return r;
}

/* ---- calls ---- */

/* 4 s per GiB: the worker's pages may come that slowly where the host has to find them first. */
enum { BYTES_PER_MS = 1 << 18 };

static char *region_body(const struct ferry_region_spec *spec)
{
        struct ferry_json_writer writer = { 0 };
        ferry_json_begin_object(&writer);
        ferry_json_add_uint(&writer, "size", spec->size);
        if (spec->device)
                ferry_json_add_string(&writer, "device", spec->device);
        if (spec->name)
                ferry_json_add_string(&writer, "name", spec->name);
        if (spec->sealed)
                ferry_json_add_bool(&writer, "sealed", true);
        if (spec->idle_ms)
                ferry_json_add_uint(&writer, "idle_ms", spec->idle_ms);
        ferry_json_end_object(&writer);
        return ferry_json_take(&writer, NULL);
}

int ferry_create_region(struct ferry *f, const struct ferry_region_spec *spec, struct ferry_region *ret_region)
{
        char key[CLIENT_KEY_TEXT_SIZE];
        int r = ARGUMENT_CHECK(f, spec);
        if (r < 0)
                return r;
        FERRY_CLEANUP(cleanup_free) char *body = region_body(spec);
        if (!body)
                return -ENOMEM;
        r = call_key(key);
        if (r < 0)
                return r;
        struct request request = { .exchange = {
                                           .method = "POST",
                                           .path = "/v1/regions",
                                           .content_type = "application/json",
                                           .body = body,
                                           .size = strlen(body),
                                           .idempotency_key = spec->idempotency_key ? spec->idempotency_key : key,
                                           .wait_ms = spec->size / BYTES_PER_MS,
                                   } };
        return region_call(f, &request, ret_region);
}

int ferry_get_region(struct ferry *f, const char *id, struct ferry_region *ret_region)
{
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        int r = call_path(f, "/v1/regions/", id, "", &path);
        if (r < 0)
                return r;
        struct request request = { .exchange = { .method = "GET", .path = path.text.data } };
        return region_call(f, &request, ret_region);
}

int ferry_list_regions(struct ferry *f, unsigned limit, const char *after, struct ferry_region_list *ret_list)
{
        struct ferry_region_list list = { 0 };
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        path_add(&path, "/v1/regions");
        path_query_number(&path, "limit", limit);
        path_query(&path, "after", after);
        if (path.error)
                return path.error == -EINVAL ? problem_argument(f, "after is too long") : path.error;
        struct request request = { .exchange = { .method = "GET", .path = path.text.data } };
        int r = call_decode(f, &request, region_page_decode, &list, NULL);
        if (r == 0)
                *ret_list = list;
        return r;
}

int ferry_delete_region(struct ferry *f, const char *id)
{
        return call_delete(f, "/v1/regions/", id);
}
