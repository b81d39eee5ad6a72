/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "client_internal.h"
#include "decode.h"

static char *region_body(const struct ferry_region_spec *spec)
{
        struct json_object *json = json_object_new_object();
        if (!json)
                return NULL;
        json_object_object_add(json, "size", json_object_new_uint64(spec->size));
        if (spec->device)
                json_object_object_add(json, "device", json_object_new_string(spec->device));
        if (spec->name)
                json_object_object_add(json, "name", json_object_new_string(spec->name));
        return call_body(json);
}

int ferry_create_region(struct ferry *f, const struct ferry_region_spec *spec, struct ferry_region *ret_region)
{
        FERRY_CLEANUP(cleanup_free) char *body = region_body(spec);
        char key[CLIENT_KEY_TEXT_SIZE];
        if (!body)
                return -ENOMEM;
        int r = call_key(key);
        if (r < 0)
                return r;
        struct request request = { .exchange = {
                                           .method = "POST",
                                           .path = "/v1/regions",
                                           .content_type = "application/json",
                                           .body = body,
                                           .size = strlen(body),
                                           .idempotency_key = spec->idempotency_key ? spec->idempotency_key : key,
                                   } };
        return call_decode(f, &request, region_decode, ret_region);
}
