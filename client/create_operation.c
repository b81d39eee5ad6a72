/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <ferry/json.h>
#include <ferry/json_write.h>

#include "client_internal.h"
#include "sizes.h"

enum { OPERATION_WAIT_MAX_S = 3600 }; /* far beyond any worker's cap */

/* Each descriptor takes size bytes in the program. */
static int operation_add_descriptors(struct ferry *f, struct ferry_json_writer *writer,
                                     const struct ferry_operation_spec *spec, size_t size)
{
        int r = 0;
        ferry_json_key(writer, "descriptors");
        ferry_json_begin_array(writer);
        for (size_t i = 0; r == 0 && i < spec->n_descriptors; i++) {
                struct ferry_descriptor ours, *d = &ours;
                r = sizes_take(f, d, sizeof(*d), (const char *)spec->descriptors + i * size, size);
                ferry_json_begin_object(writer);
                ferry_json_add_string(writer, "region", d->region ? d->region : "");
                if (d->offset)
                        ferry_json_add_uint(writer, "offset", d->offset);
                if (d->size)
                        ferry_json_add_uint(writer, "size", d->size);
                if (d->count)
                        ferry_json_add_uint(writer, "count", d->count);
                if (d->stride)
                        ferry_json_add_uint(writer, "stride", d->stride);
                ferry_json_end_object(writer);
        }
        ferry_json_end_array(writer);
        return r;
}

/* What the worker makes of the metadata is its business; here it only must not break out of the body. */
static int operation_add_metadata(struct ferry_json_writer *writer, const char *metadata)
{
        struct ferry_json_errors errors = { 0 };
        if (!metadata)
                return 0;
        size_t size = strlen(metadata);
        int r = ferry_json_check(metadata, size, &errors);
        if (r != 0)
                return r > 0 ? -EINVAL : r;
        ferry_json_key(writer, "remote_metadata");
        ferry_json_put_text(writer, metadata, size);
        return 0;
}

static int operation_body(struct ferry *f, const struct ferry_operation_spec *spec, size_t descriptor_size,
                          char **ret_text)
{
        const char *kind = ferry_kind_name((int)spec->kind), *layout = ferry_layout_name((int)spec->layout);
        struct ferry_json_writer writer = { 0 };
        if (!kind || !layout || (spec->n_descriptors && !spec->descriptors))
                return -EINVAL;
        ferry_json_begin_object(&writer);
        ferry_json_add_string(&writer, "kind", kind);
        if (spec->layout != FERRY_LAYOUT_PAIRWISE)
                ferry_json_add_string(&writer, "layout", layout);
        const struct {
                const char *name;
                uint64_t value;
        } numbers[] = { { "readers", spec->readers }, { "ttl_ms", spec->ttl_ms }, { "timeout_ms", spec->timeout_ms } };
        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
                if (numbers[i].value)
                        ferry_json_add_uint(&writer, numbers[i].name, numbers[i].value);
        }
        if (spec->verify)
                ferry_json_add_bool(&writer, "verify", true);
        if (spec->remote_url)
                ferry_json_add_string(&writer, "remote_url", spec->remote_url);
        int r = operation_add_descriptors(f, &writer, spec, descriptor_size);
        if (r == 0)
                r = operation_add_metadata(&writer, spec->remote_metadata);
        if (r < 0) {
                ferry_json_writer_clear(&writer);
                return r;
        }
        ferry_json_end_object(&writer);
        *ret_text = ferry_json_take(&writer, NULL);
        return *ret_text ? 0 : -ENOMEM;
}

int ferry_create_operation_sized(struct ferry *f, const struct ferry_operation_spec *their_spec,
                                 struct ferry_operation *ret_operation, const struct ferry_sizes *sizes)
{
        struct ferry_operation_spec ours, *spec = &ours;
        int r = sizes_take(f, spec, sizeof(*spec), their_spec, sizes->operation_spec);
        if (r < 0)
                return r;
        /* The body may hold the peer's metadata. */
        FERRY_CLEANUP(cleanup_secret) char *body = NULL;
        char key[CLIENT_KEY_TEXT_SIZE], prefer[40];
        const char *const headers[] = { spec->wait_ms ? prefer : NULL, NULL };
        r = call_key(key);
        if (r == 0)
                r = operation_body(f, spec, sizes->descriptor, &body);
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
        return operation_call(f, &request, ret_operation, sizes);
}
