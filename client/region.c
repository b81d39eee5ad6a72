/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "client_internal.h"
#include "decode.h"

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

int region_call(struct ferry *f, const struct request *request, struct ferry_region *ret_region)
{
        struct ferry_region ours = { 0 };
        int r = call_decode(f, request, region_decode, &ours, NULL);
        if (r == 0)
                *ret_region = ours;
        return r;
}
