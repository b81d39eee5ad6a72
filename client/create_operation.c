/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include <ferry/json.h>
#include <ferry/json_write.h>

#include "client_internal.h"
#include "sizes.h"

enum { OPERATION_WAIT_MAX_MS = 3600 * 1000 }; /* far beyond any worker's cap */

static int operation_add_blocks(struct ferry_json_writer *writer, const struct ferry_descriptor *d)
{
        if (!d->n_blocks)
                return 0;
        if (!d->blocks)
                return -EINVAL;
        ferry_json_open_array(writer, "blocks");
        for (size_t i = 0; i < d->n_blocks; i++)
                ferry_json_put_uint(writer, d->blocks[i]);
        ferry_json_end_array(writer);
        return 0;
}

/* Each descriptor takes size bytes in the program. */
static int operation_add_descriptors(struct ferry *f, struct ferry_json_writer *writer,
                                     const struct ferry_operation_spec *spec, size_t size)
{
        int r = 0;
        ferry_json_open_array(writer, "descriptors");
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
                if (r == 0)
                        r = operation_add_blocks(writer, d);
                ferry_json_end_object(writer);
        }
        ferry_json_end_array(writer);
        return r;
}

/* Of "shm,tcp". Which names there are is the worker's business. */
static void operation_add_transports(struct ferry_json_writer *writer, const char *transports)
{
        if (!transports)
                return;
        ferry_json_open_array(writer, "transports");
        while (*transports) {
                char name[64];
                size_t length = strcspn(transports, ",");
                snprintf(name, sizeof(name), "%.*s", (int)length, transports);
                ferry_json_put_string(writer, name);
                transports += length + (transports[length] == ',');
        }
        ferry_json_end_array(writer);
}

/* Checks that the metadata are one JSON value, so that they cannot break out of the body. The worker checks the rest.
 */
static int operation_add_metadata(struct ferry_json_writer *writer, const char *metadata)
{
        struct ferry_json_errors errors = { 0 };
        struct json_object *json = NULL;
        if (!metadata)
                return 0;
        size_t size = strlen(metadata);
        int r = ferry_json_parse(metadata, size, &json, &errors);
        json_object_put(json);
        if (r != 0)
                return r > 0 ? -EINVAL : r;
        ferry_json_key(writer, "remote_metadata");
        ferry_json_put_text(writer, metadata, size);
        return 0;
}

static int operation_add(struct ferry *f, struct ferry_json_writer *writer, const struct ferry_operation_spec *spec,
                         size_t descriptor_size)
{
        const char *kind = ferry_kind_name((int)spec->kind), *layout = ferry_layout_name((int)spec->layout);
        if (!kind || !layout || (spec->n_descriptors && !spec->descriptors))
                return -EINVAL;
        ferry_json_begin_object(writer);
        ferry_json_add_string(writer, "kind", kind);
        if (spec->layout != FERRY_LAYOUT_PAIRWISE)
                ferry_json_add_string(writer, "layout", layout);
        if (spec->label)
                ferry_json_add_string(writer, "label", spec->label);
        const struct {
                const char *name;
                uint64_t value;
        } numbers[] = { { "readers", spec->readers },
                        { "uses", spec->uses },
                        { "ttl_ms", spec->ttl_ms },
                        { "timeout_ms", spec->timeout_ms } };
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(numbers); i++) {
                if (numbers[i].value)
                        ferry_json_add_uint(writer, numbers[i].name, numbers[i].value);
        }
        if (spec->relay)
                ferry_json_add_bool(writer, "relay", true);
        if (spec->follow)
                ferry_json_add_string(writer, "follow", spec->follow);
        if (spec->verify)
                ferry_json_add_bool(writer, "verify", true);
        operation_add_transports(writer, spec->transports);
        if (spec->remote_url)
                ferry_json_add_string(writer, "remote_url", spec->remote_url);
        int r = operation_add_descriptors(f, writer, spec, descriptor_size);
        if (r == 0)
                r = operation_add_metadata(writer, spec->remote_metadata);
        ferry_json_end_object(writer);
        return r;
}

/* The body of n specs, one object for a batch. *ret_request gets the options of the whole request: include_metadata of
 * any spec, the longest wait_ms, the first idempotency_key. */
static int operation_body(struct ferry *f, const struct operation_specs *specs, const struct ferry_sizes *sizes,
                          struct ferry_operation_spec *ret_request, char **ret_text)
{
        struct ferry_json_writer writer = { 0 };
        struct ferry_operation_spec ours = { 0 }, request = { 0 };
        int r = specs->n ? 0 : -EINVAL;
        if (specs->batch) {
                ferry_json_begin_object(&writer);
                ferry_json_open_array(&writer, "operations");
        }
        for (size_t i = 0; r == 0 && i < specs->n; i++) {
                const char *theirs = (const char *)specs->items + i * sizes->operation_spec;
                r = sizes_take(f, &ours, sizeof(ours), theirs, sizes->operation_spec);
                if (r == 0)
                        r = operation_add(f, &writer, &ours, sizes->descriptor);
                if (i == 0)
                        request.idempotency_key = ours.idempotency_key;
                request.include_metadata |= ours.include_metadata;
                request.wait_ms = ours.wait_ms > request.wait_ms ? ours.wait_ms : request.wait_ms;
        }
        if (r < 0) {
                ferry_json_writer_clear(&writer);
                return r;
        }
        if (specs->batch) {
                ferry_json_end_array(&writer);
                ferry_json_end_object(&writer);
        }
        *ret_request = request;
        *ret_text = ferry_json_take(&writer, NULL);
        return *ret_text ? 0 : -ENOMEM;
}

int operation_request_make(struct ferry *f, const struct operation_specs *specs, const struct ferry_sizes *sizes,
                           struct operation_request *ret_request)
{
        struct operation_request *o = ret_request;
        struct ferry_operation_spec ours;
        char key[CLIENT_KEY_TEXT_SIZE];
        *o = (struct operation_request){ 0 };
        int r = call_key(key);
        if (r == 0)
                r = operation_body(f, specs, sizes, &ours, &o->body);
        if (r != 0)
                return r == -EINVAL ? problem_argument(
                                              f, "the operation's kind, layout, descriptors or metadata is not valid")
                                    : r;
        o->idempotency_key = strdup(ours.idempotency_key ? ours.idempotency_key : key);
        if (!o->idempotency_key)
                return -ENOMEM;
        uint64_t wait_ms = ours.wait_ms < OPERATION_WAIT_MAX_MS ? ours.wait_ms : OPERATION_WAIT_MAX_MS;
        int length = snprintf(o->path, sizeof(o->path), "/v1/operations%s%s", specs->batch ? "/batch" : "",
                              ours.include_metadata ? "?include=metadata" : "");
        if (wait_ms)
                snprintf(o->path + length, sizeof(o->path) - (size_t)length, "%cwait_ms=%" PRIu64,
                         ours.include_metadata ? '&' : '?', wait_ms);
        o->request = (struct request){ .exchange = {
                                               .method = "POST",
                                               .path = o->path,
                                               .content_type = "application/json",
                                               .body = o->body,
                                               .size = strlen(o->body),
                                               .idempotency_key = o->idempotency_key,
                                               .wait_ms = wait_ms,
                                       },
                                       .secret = true };
        return 0;
}

void operation_request_clear(struct operation_request *request)
{
        ferry_secret_free(request->body);
        free(request->idempotency_key);
        *request = (struct operation_request){ 0 };
}

int ferry_create_operation_sized(struct ferry *f, const struct ferry_operation_spec *spec,
                                 struct ferry_operation *ret_operation, const struct ferry_sizes *sizes)
{
        FERRY_CLEANUP(operation_request_clear) struct operation_request made;
        int r = operation_request_make(f, &(struct operation_specs){ spec, 1, false }, sizes, &made);
        return r == 0 ? operation_call(f, &made.request, ret_operation, sizes) : r;
}
