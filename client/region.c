/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "client_internal.h"
#include "decode.h"
#include "sizes.h"

static const struct decode_field region_fields[] = {
        DECODE_FIELD("id", DECODE_TEXT, true, struct ferry_region, id),
        DECODE_FIELD("size", DECODE_UINT, true, struct ferry_region, size),
        DECODE_FIELD("device", DECODE_TEXT, true, struct ferry_region, device),
        DECODE_FIELD("name", DECODE_TEXT, false, struct ferry_region, name),
        DECODE_FIELD("path", DECODE_TEXT, false, struct ferry_region, path),
        DECODE_FIELD("state", DECODE_TEXT, false, struct ferry_region, state),
        DECODE_FIELD("sealed", DECODE_BOOL, false, struct ferry_region, sealed),
        DECODE_FIELD("in_use", DECODE_UINT, false, struct ferry_region, in_use),
        DECODE_FIELD("created_at", DECODE_TEXT, false, struct ferry_region, created_at),
};

static const struct decode_list region_list = { "regions", sizeof(struct ferry_region), region_decode, NULL };

int region_decode(struct json_object *json, void *region, const char **ret_field)
{
        struct ferry_region decoded = { 0 };
        int r = decode_object(json, region_fields, sizeof(region_fields) / sizeof(region_fields[0]), &decoded,
                              ret_field);
        if (r == 0)
                *(struct ferry_region *)region = decoded;
        return r;
}

int region_page_decode(struct json_object *json, void *list, const char **ret_field)
{
        struct decode_page page;
        int r = decode_page(json, &region_list, &page, ret_field);
        if (r == 0)
                *(struct ferry_region_list *)list = (struct ferry_region_list){ page.items, page.n, page.next };
        return r;
}

void ferry_region_list_clear_sized(struct ferry_region_list *list, const struct ferry_sizes *sizes)
{
        struct ferry_region_list ours;
        sizes_give(&ours, sizeof(ours), list, sizes->region_list);
        memset(list, 0, sizes->region_list);
        free(ours.items);
        free(ours.next);
}

int region_call(struct ferry *f, const struct request *request, struct ferry_region *ret_region,
                const struct ferry_sizes *sizes)
{
        struct ferry_region ours = { 0 };
        int r = call_decode(f, request, region_decode, &ours, NULL);
        if (r == 0)
                sizes_give(ret_region, sizes->region, &ours, sizeof(ours));
        return r;
}
