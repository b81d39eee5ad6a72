/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "client_internal.h"
#include "decode.h"

/* ---- what it is ---- */

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

int ferry_get_root(struct ferry *f, char **ret_json)
{
        return call_get_text(f, "/", ret_json);
}

int ferry_get_devices(struct ferry *f, char **ret_json)
{
        return call_get_text(f, "/v1/devices", ret_json);
}

/* ---- how much of everything ---- */

/* clang-format off */
#define LIMIT(name) DECODE_FIELD(#name, DECODE_UINT, false, struct ferry_limits, name)
/* clang-format on */

static const struct decode_field limits_fields[] = {
        LIMIT(body_max),
        LIMIT(batch_max),
        LIMIT(ids_max),
        LIMIT(descriptors_max),
        LIMIT(wait_ms_max),
        LIMIT(waiters_max),
        LIMIT(connections_max),
        LIMIT(page_max),
        LIMIT(regions_max),
        LIMIT(memory_limit),
        LIMIT(idempotency_max),
        LIMIT(links_max),
        LIMIT(head_max),
        LIMIT(head_ms),
        LIMIT(body_ms),
        LIMIT(read_ms),
        LIMIT(rate_min),
        LIMIT(content_ranges_max),
        LIMIT(digest_max),
        LIMIT(fetches_max),
        LIMIT(event_readers_max),
        LIMIT(events_kept),
        LIMIT(address_connections_max),
        LIMIT(operations_max),
        LIMIT(terminal_max),
        LIMIT(gone_max),
        LIMIT(uses_max),
        LIMIT(ttl_ms_default),
        LIMIT(ttl_ms_max),
        LIMIT(timeout_ms_max),
        LIMIT(stall_ms),
        LIMIT(retention_ms),
        LIMIT(answer_max),
        LIMIT(claims_max),
        LIMIT(lookups_max),
        LIMIT(pieces_max),
        LIMIT(bodies_max),
        LIMIT(mappings_max),
};
_Static_assert(FERRY_ARRAY_SIZE(limits_fields) == offsetof(struct ferry_limits, json) / sizeof(uint64_t),
               "every field is decoded");

static int limits_decode(struct json_object *json, void *limits, const char **ret_field)
{
        return decode_object(json, limits_fields, FERRY_ARRAY_SIZE(limits_fields), limits, ret_field);
}

int ferry_get_limits(struct ferry *f, struct ferry_limits *ret_limits)
{
        struct request request = { .exchange = { .method = "GET", .path = "/v1/limits" } };
        struct ferry_limits limits = { 0 };
        int r = call_decode(f, &request, limits_decode, &limits, &limits.json);
        if (r == 0)
                *ret_limits = limits;
        return r;
}

void ferry_limits_clear(struct ferry_limits *limits)
{
        free(limits->json);
        *limits = (struct ferry_limits){ 0 };
}

int ferry_get_throughput(struct ferry *f, char **ret_json)
{
        return call_get_text(f, "/v1/throughput", ret_json);
}

int ferry_get_metrics(struct ferry *f, char **ret_text)
{
        static const char *const types[] = { "text/plain", NULL };
        return call_text(f, "/metrics", types, ret_text);
}

int ferry_get_openapi(struct ferry *f, char **ret_yaml)
{
        /* RFC 9512 names application/yaml; the others were in use before. */
        static const char *const types[] = { "application/yaml", "application/x-yaml", "text/yaml", NULL };
        return call_text(f, "/openapi.yaml", types, ret_yaml);
}

/* ---- whether it is there ---- */

int ferry_get_livez(struct ferry *f)
{
        return call_plain(
                f, &(struct request){ .exchange = { .method = "GET", .path = "/livez", .no_status_retry = true } });
}

int ferry_get_readyz(struct ferry *f)
{
        return call_plain(
                f, &(struct request){ .exchange = { .method = "GET", .path = "/readyz", .no_status_retry = true } });
}
