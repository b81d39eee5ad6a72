/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include <ferry/json.h>

#include "client_internal.h"
#include "decode.h"

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
        FERRY_CLEANUP(ferry_json_elements_clear) struct ferry_json_elements urls = { 0 };
        if (answer.http)
                urls = ferry_json_elements(answer.http);
        struct json_object *item;
        while (!answer.info.url[0] && (r = ferry_json_next(&urls, &item)) > 0) {
                const char *url = json_object_get_string(item);
                if (url && strncmp(url, "http", 4) == 0)
                        snprintf(answer.info.url, sizeof(answer.info.url), "%s", url);
        }
        if (r < 0)
                return r;
        *(struct ferry_worker_info *)info = answer.info;
        return 0;
}

int ferry_get_worker(struct ferry *f, struct ferry_worker_info *ret_info)
{
        struct request request = { .exchange = { .method = "GET", .path = "/v1/worker" } };
        struct ferry_worker_info info = { 0 };
        int r = call_decode(f, &request, worker_decode, &info, &info.json);
        if (r == 0)
                *ret_info = info;
        return r;
}

void ferry_worker_info_clear(struct ferry_worker_info *info)
{
        free(info->json);
        *info = (struct ferry_worker_info){ 0 };
}
