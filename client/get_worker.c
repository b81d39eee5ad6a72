/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "client_internal.h"
#include "decode.h"
#include "sizes.h"

static const struct decode_field worker_fields[] = {
        DECODE_FIELD("name", DECODE_TEXT, true, struct ferry_worker_info, name),
        DECODE_FIELD("epoch", DECODE_LABEL, true, struct ferry_worker_info, epoch),
        DECODE_FIELD("version", DECODE_TEXT, true, struct ferry_worker_info, version),
        DECODE_FIELD("ucx_version", DECODE_TEXT, false, struct ferry_worker_info, ucx_version),
        DECODE_FIELD("uptime_ms", DECODE_UINT, false, struct ferry_worker_info, uptime_ms),
};

static int worker_decode(struct json_object *json, void *info, const char **ret_field)
{
        return decode_object(json, worker_fields, sizeof(worker_fields) / sizeof(worker_fields[0]), info, ret_field);
}

int ferry_get_worker_sized(struct ferry *f, struct ferry_worker_info *ret_info, const struct ferry_sizes *sizes)
{
        struct request request = { .exchange = { .method = "GET", .path = "/v1/worker" } };
        struct ferry_worker_info info = { 0 };
        int r = call_decode(f, &request, worker_decode, &info, &info.json);
        if (r == 0)
                sizes_give(ret_info, sizes->worker_info, &info, sizeof(info));
        return r;
}

void ferry_worker_info_clear_sized(struct ferry_worker_info *info, const struct ferry_sizes *sizes)
{
        free(info->json);
        memset(info, 0, sizes->worker_info);
}
