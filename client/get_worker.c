/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/json.h>

#include "client_internal.h"
#include "decode.h"

static const struct decode_field worker_fields[] = {
        DECODE_FIELD("name", DECODE_TEXT, true, struct ferry_worker_info, name),
        DECODE_FIELD("epoch", DECODE_LABEL, true, struct ferry_worker_info, epoch),
        DECODE_FIELD("version", DECODE_TEXT, true, struct ferry_worker_info, version),
        DECODE_FIELD("ucx_version", DECODE_TEXT, false, struct ferry_worker_info, ucx_version),
        DECODE_FIELD("uptime_ms", DECODE_UINT, false, struct ferry_worker_info, uptime_ms),
};

int ferry_get_worker(struct ferry *f, struct ferry_worker_info *ret_info)
{
        struct request request = { .exchange = { .method = "GET", .path = "/v1/worker" } };
        struct ferry_worker_info info = { 0 };
        struct ferry_json *json = NULL;
        const char *field;
        int r = call_json(f, &request, &json, &info.json);
        if (r != 0)
                return r;
        r = decode_object(ferry_json_root(json), worker_fields, sizeof(worker_fields) / sizeof(worker_fields[0]), &info,
                          &field);
        (void)ferry_json_free(json);
        if (r < 0) {
                ferry_worker_info_clear(&info);
                return problem_protocol(f, "a field is missing or wrong", field);
        }
        *ret_info = info;
        return 0;
}

void ferry_worker_info_clear(struct ferry_worker_info *info)
{
        free(info->json);
        *info = (struct ferry_worker_info){ 0 };
}
