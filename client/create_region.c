/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include <ferry/json_write.h>

#include "client_internal.h"

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
        struct request request = { .exchange = {
                                           .method = "POST",
                                           .path = "/v1/regions",
                                           .content_type = "application/json",
                                           .body = body,
                                           .size = strlen(body),
                                           .idempotency_key = spec->idempotency_key ? spec->idempotency_key : key,
                                           .wait_ms = spec->size / BYTES_PER_MS,
                                   } };
        return region_call(f, &request, ret_region);
}
