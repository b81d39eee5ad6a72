/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "client_internal.h"
#include "decode.h"
#include "sizes.h"

/* What is decoded at once, and the values that need more than a table. */
struct worker_answer {
        struct ferry_worker_info info;
        struct json_object *addresses, *http; /* borrowed; NULL = none */
};

static const struct decode_field worker_fields[] = {
        DECODE_FIELD("name", DECODE_TEXT, true, struct worker_answer, info.name),
        DECODE_FIELD("epoch", DECODE_LABEL, true, struct worker_answer, info.epoch),
        DECODE_FIELD("version", DECODE_TEXT, true, struct worker_answer, info.version),
        DECODE_FIELD("commit", DECODE_TEXT, false, struct worker_answer, info.commit),
        DECODE_FIELD("protocol", DECODE_UINT, false, struct worker_answer, info.protocol),
        DECODE_FIELD("ucx_version", DECODE_TEXT, false, struct worker_answer, info.ucx_version),
        DECODE_FIELD("uptime_ms", DECODE_UINT, false, struct worker_answer, info.uptime_ms),
        DECODE_FIELD("started_at", DECODE_TEXT, false, struct worker_answer, info.started_at),
        DECODE_FIELD("pid", DECODE_UINT, false, struct worker_answer, info.pid),
        DECODE_FIELD("addresses", DECODE_VALUE, false, struct worker_answer, addresses),
        DECODE_FIELD("local", DECODE_BOOL, false, struct worker_answer, info.local),
};

static const struct decode_field worker_address_fields[] = {
        DECODE_FIELD("http", DECODE_VALUE, false, struct worker_answer, http),
        DECODE_FIELD("data", DECODE_PROSE, false, struct worker_answer, info.data),
};

static int worker_decode(struct json_object *json, void *info, const char **ret_field)
{
        struct worker_answer answer = { 0 };
        int r = decode_object(json, worker_fields, FERRY_ARRAY_SIZE(worker_fields), &answer, ret_field);
        if (r == 0 && answer.addresses)
                r = decode_object(answer.addresses, worker_address_fields, FERRY_ARRAY_SIZE(worker_address_fields),
                                  &answer, ret_field);
        if (r == 0 && answer.http && !json_object_is_type(answer.http, json_type_array))
                r = -EPROTO;
        if (r < 0)
                return r;
        size_t n = answer.http ? json_object_array_length(answer.http) : 0;
        for (size_t i = 0; i < n && !answer.info.url[0]; i++) {
                const char *url = json_object_get_string(json_object_array_get_idx(answer.http, i));
                if (url && strncmp(url, "http", 4) == 0)
                        snprintf(answer.info.url, sizeof(answer.info.url), "%s", url);
        }
        *(struct ferry_worker_info *)info = answer.info;
        return 0;
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
