/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include <ferry/json_write.h>

#include "client_internal.h"

/* ---- answers ---- */

/* What is decoded at once, and the value that needs more than a table. */
struct region_answer {
        struct ferry_region r;
        struct json_object *error; /* borrowed; NULL = none */
};

static const struct ferry_json_field region_fields[] = {
        FERRY_JSON_FIELD("id", TEXT, true, struct region_answer, r.id),
        FERRY_JSON_FIELD("size", UINT, true, struct region_answer, r.size),
        FERRY_JSON_FIELD("device", TEXT, true, struct region_answer, r.device),
        FERRY_JSON_FIELD("name", TEXT, false, struct region_answer, r.name),
        FERRY_JSON_FIELD("bytes_prepared", UINT, false, struct region_answer, r.bytes_prepared),
        FERRY_JSON_FIELD("path", TEXT, false, struct region_answer, r.path),
        FERRY_JSON_FIELD("state", TEXT, false, struct region_answer, r.state),
        FERRY_JSON_FIELD("sealed", BOOL, false, struct region_answer, r.sealed),
        FERRY_JSON_FIELD("error", OBJECT, false, struct region_answer, error),
        FERRY_JSON_FIELD("in_use", UINT, false, struct region_answer, r.in_use),
        FERRY_JSON_FIELD("created_at", TEXT, false, struct region_answer, r.created_at),
        FERRY_JSON_FIELD("idle_ms", UINT, false, struct region_answer, r.idle_ms),
        FERRY_JSON_FIELD("expires_at", TEXT, false, struct region_answer, r.expires_at),
};

int region_decode(struct json_object *json, void *region, struct ferry_json_errors *errors)
{
        struct region_answer answer = { 0 };
        struct ferry_region *r = &answer.r;
        int error = DECODE(json, region_fields, &answer, errors);
        if (error == 0)
                error = call_decode_error(answer.error, &r->error, r->error_code, r->error_detail, errors);
        if (error == 0)
                *(struct ferry_region *)region = *r;
        return error;
}

const struct call_list region_list = { "regions", sizeof(struct ferry_region), region_decode, NULL };

void ferry_region_list_clear(struct ferry_region_list *list)
{
        free(list->items);
        free(list->next);
        *list = (struct ferry_region_list){ 0 };
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
        struct request request = { .exchange = { .method = "POST",
                                                 .path = "/v1/regions",
                                                 .idempotency_key = spec->idempotency_key ? spec->idempotency_key : key,
                                                 .wait_ms = spec->size / BYTES_PER_MS } };
        request_set_body(&request, body);
        return call_decode(f, &request, region_decode, ret_region, NULL);
}

int ferry_get_region(struct ferry *f, const char *id, struct ferry_region *ret_region)
{
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        int r = call_path(f, "/v1/regions/", id, "", &path);
        return r < 0 ? r : call_get(f, path.text.data, region_decode, ret_region, NULL);
}

int ferry_list_regions(struct ferry *f, unsigned limit, const char *after, struct ferry_region_list *ret_list)
{
        struct call_page page = { .list = &region_list };
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        path_add(&path, "/v1/regions");
        path_query_number(&path, "limit", limit);
        path_query(&path, "after", after);
        int r = call_get_page(f, &path, &page, NULL);
        if (r == 0)
                *ret_list = (struct ferry_region_list){ .items = page.items, .n = page.n, .next = page.next };
        return r;
}

int ferry_delete_region(struct ferry *f, const char *id)
{
        return call_delete(f, "/v1/regions/", id);
}
