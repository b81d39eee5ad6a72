/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include <ferry/json.h>

#include "client_internal.h"
#include "decode.h"

enum { OPERATION_WAIT_MAX_S = 3600 }; /* far beyond any worker's cap */

static int operation_add_descriptors(struct json_object *json, const struct ferry_operation_spec *spec)
{
        struct json_object *list = json_object_new_array();
        if (!list)
                return -ENOMEM;
        json_object_object_add(json, "descriptors", list);
        for (size_t i = 0; i < spec->n_descriptors; i++) {
                const struct ferry_descriptor *d = &spec->descriptors[i];
                struct json_object *item = json_object_new_object();
                if (!item || json_object_array_add(list, item) < 0)
                        return -ENOMEM;
                json_object_object_add(item, "region", json_object_new_string(d->region ? d->region : ""));
                if (d->offset)
                        json_object_object_add(item, "offset", json_object_new_uint64(d->offset));
                if (d->size)
                        json_object_object_add(item, "size", json_object_new_uint64(d->size));
        }
        return 0;
}

/* What the worker makes of the metadata is its business; here it only must not break out of the body. */
static int operation_add_metadata(struct json_object *json, const char *metadata)
{
        struct ferry_json_errors errors = { 0 };
        struct json_object *parsed = NULL;
        if (!metadata)
                return 0;
        int r = ferry_json_parse(metadata, strlen(metadata), &parsed, &errors);
        if (r != 0)
                return r > 0 ? -EINVAL : r;
        json_object_object_add(json, "remote_metadata", parsed);
        return 0;
}

static int operation_body(const struct ferry_operation_spec *spec, char **ret_text)
{
        const char *kind = ferry_kind_name((int)spec->kind), *layout = ferry_layout_name((int)spec->layout);
        if (!kind || !layout || (spec->n_descriptors && !spec->descriptors))
                return -EINVAL;
        struct json_object *json = json_object_new_object();
        if (!json)
                return -ENOMEM;
        json_object_object_add(json, "kind", json_object_new_string(kind));
        if (spec->layout != FERRY_LAYOUT_PAIRWISE)
                json_object_object_add(json, "layout", json_object_new_string(layout));
        const struct {
                const char *name;
                uint64_t value;
        } numbers[] = { { "readers", spec->readers }, { "ttl_ms", spec->ttl_ms }, { "timeout_ms", spec->timeout_ms } };
        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
                if (numbers[i].value)
                        json_object_object_add(json, numbers[i].name, json_object_new_uint64(numbers[i].value));
        }
        if (spec->verify)
                json_object_object_add(json, "verify", json_object_new_boolean(true));
        if (spec->remote_url)
                json_object_object_add(json, "remote_url", json_object_new_string(spec->remote_url));
        int r = operation_add_descriptors(json, spec);
        if (r == 0)
                r = operation_add_metadata(json, spec->remote_metadata);
        if (r < 0) {
                json_object_put(json);
                return r;
        }
        *ret_text = call_body(json);
        return *ret_text ? 0 : -ENOMEM;
}

int ferry_create_operation(struct ferry *f, const struct ferry_operation_spec *spec,
                           struct ferry_operation *ret_operation)
{
        /* The body may hold the peer's metadata. */
        FERRY_CLEANUP(cleanup_secret) char *body = NULL;
        char key[CLIENT_KEY_TEXT_SIZE], prefer[40];
        const char *const headers[] = { spec->wait_ms ? prefer : NULL, NULL };
        int r = call_key(key);
        if (r == 0)
                r = operation_body(spec, &body);
        if (r != 0)
                return r == -EINVAL ? problem_argument(f, "the operation's kind, layout or metadata is not valid") : r;
        uint64_t seconds = spec->wait_ms / 1000 + (spec->wait_ms % 1000 != 0);
        if (seconds > OPERATION_WAIT_MAX_S)
                seconds = OPERATION_WAIT_MAX_S;
        snprintf(prefer, sizeof(prefer), "Prefer: wait=%" PRIu64, seconds);
        struct request request = { .exchange = {
                                           .method = "POST",
                                           .path = spec->include_metadata ? "/v1/operations?include=metadata"
                                                                          : "/v1/operations",
                                           .content_type = "application/json",
                                           .body = body,
                                           .size = strlen(body),
                                           .headers = headers,
                                           .idempotency_key = spec->idempotency_key ? spec->idempotency_key : key,
                                           .wait_ms = seconds * 1000,
                                   },
                                   .secret = true };
        return call_decode(f, &request, operation_decode, ret_operation);
}
