/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include <ferry/json_write.h>

#include "client_internal.h"

/*
 * The calls on operations. A POST that makes one, or a batch, is made whole (operation_request_make) before the first
 * try, with an Idempotency-Key: all tries are the same request, and make one operation. ferry_aio uses the same
 * requests.
 *
 * Thread: the one that uses the handle. The bodies may hold a peer's metadata, and are wiped.
 */

/* ---- creation ---- */

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

static int operation_add_descriptors(struct ferry *f, struct ferry_json_writer *writer,
                                     const struct ferry_operation_spec *spec)
{
        int r = 0;
        ferry_json_open_array(writer, "descriptors");
        for (size_t i = 0; r == 0 && i < spec->n_descriptors; i++) {
                const struct ferry_descriptor *d = &spec->descriptors[i];
                r = ARGUMENT_CHECK(f, d);
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

static int operation_add_remote(struct ferry *f, struct ferry_json_writer *writer,
                                const struct ferry_operation_spec *spec)
{
        int r = 0;
        if (!spec->n_remote)
                return 0;
        ferry_json_open_array(writer, "remote");
        for (size_t i = 0; r == 0 && i < spec->n_remote; i++) {
                const struct ferry_range *range = &spec->remote[i];
                r = ARGUMENT_CHECK(f, range);
                ferry_json_begin_object(writer);
                ferry_json_add_uint(writer, "offset", range->offset);
                ferry_json_add_uint(writer, "size", range->size);
                ferry_json_end_object(writer);
        }
        ferry_json_end_array(writer);
        return r;
}

/* Adds the list of a text such as "shm,tcp". Which names there are is the worker's business. */
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

int operation_add_metadata(struct ferry_json_writer *writer, const char *metadata)
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

/*
 * Adds a spec as an object, without what the worker has by default. Returns 0; -EINVAL; -ENOTSUP: a field of a later
 * version; -ENOMEM.
 */
static int operation_add(struct ferry *f, struct ferry_json_writer *writer, const struct ferry_operation_spec *spec)
{
        const char *kind = ferry_kind_name((int)spec->kind), *layout = ferry_layout_name((int)spec->layout);
        if (!kind || !layout || (spec->n_descriptors && !spec->descriptors) || (spec->n_remote && !spec->remote))
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
                        { "uses", spec->uses == FERRY_USES_UNLIMITED ? 0 : spec->uses },
                        { "ttl_ms", spec->ttl_ms },
                        { "renew_max_ms", spec->renew_max_ms },
                        { "timeout_ms", spec->timeout_ms } };
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(numbers); i++) {
                if (numbers[i].value)
                        ferry_json_add_uint(writer, numbers[i].name, numbers[i].value);
        }
        if (spec->uses == FERRY_USES_UNLIMITED)
                ferry_json_add_bool(writer, "unlimited", true);
        if (spec->relay)
                ferry_json_add_bool(writer, "relay", true);
        if (spec->follow)
                ferry_json_add_string(writer, "follow", spec->follow);
        if (spec->verify)
                ferry_json_add_bool(writer, "verify", true);
        operation_add_transports(writer, spec->transports);
        if (spec->remote_url)
                ferry_json_add_string(writer, "remote_url", spec->remote_url);
        int r = operation_add_descriptors(f, writer, spec);
        if (r == 0)
                r = operation_add_remote(f, writer, spec);
        if (r == 0)
                r = operation_add_metadata(writer, spec->remote_metadata);
        ferry_json_end_object(writer);
        return r;
}

/* The body of n specs, one object for a batch. *ret_request gets the options of the whole request: include_metadata of
 * any spec, the longest wait_ms, the first idempotency_key. */
static int operation_body(struct ferry *f, const struct operation_specs *specs,
                          struct ferry_operation_spec *ret_request, char **ret_text)
{
        struct ferry_json_writer writer = { 0 };
        struct ferry_operation_spec request = { 0 };
        int r = specs->n ? 0 : -EINVAL;
        if (specs->batch) {
                ferry_json_begin_object(&writer);
                ferry_json_open_array(&writer, "operations");
        }
        for (size_t i = 0; r == 0 && i < specs->n; i++) {
                const struct ferry_operation_spec *spec = &specs->items[i];
                r = specs->items ? ARGUMENT_CHECK(f, spec) : problem_argument(f, "an argument is missing");
                if (r == 0)
                        r = operation_add(f, &writer, spec);
                if (r < 0)
                        break;
                if (i == 0)
                        request.idempotency_key = spec->idempotency_key;
                request.include_metadata |= spec->include_metadata;
                request.wait_ms = spec->wait_ms > request.wait_ms ? spec->wait_ms : request.wait_ms;
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

int operation_request_make(struct ferry *f, const struct operation_specs *specs, struct operation_request *ret_request)
{
        struct operation_request *o = ret_request;
        struct ferry_operation_spec ours;
        char key[CLIENT_KEY_TEXT_SIZE];
        *o = (struct operation_request){ 0 };
        int r = call_key(key);
        if (r == 0)
                r = operation_body(f, specs, &ours, &o->body);
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
        request_set_body(&o->request, o->body);
        return 0;
}

void operation_request_clear(struct operation_request *request)
{
        ferry_secret_free(request->body);
        free(request->idempotency_key);
        *request = (struct operation_request){ 0 };
}

int ferry_create_operation(struct ferry *f, const struct ferry_operation_spec *spec,
                           struct ferry_operation *ret_operation)
{
        FERRY_CLEANUP(operation_request_clear) struct operation_request made;
        int r = operation_request_make(f, &(struct operation_specs){ spec, 1, false }, &made);
        return r == 0 ? operation_call(f, &made.request, ret_operation) : r;
}

int ferry_create_operations(struct ferry *f, const struct ferry_operation_spec *specs, size_t n,
                            struct ferry_operation_results *ret_results)
{
        FERRY_CLEANUP(operation_request_clear) struct operation_request made;
        FERRY_CLEANUP(reply_clear) struct reply reply = { 0 };
        int r = operation_request_make(f, &(struct operation_specs){ specs, n, true }, &made);
        if (r == 0)
                r = call_send(f, &made.request, &reply);
        return r == 0 ? results_decode(f, &reply, "results", n, ret_results) : r;
}

/* ---- one that is there ---- */

int ferry_get_operation(struct ferry *f, const char *id, uint64_t wait_ms, uint64_t revision,
                        struct ferry_operation *ret_operation)
{
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        int r = call_path(f, "/v1/operations/", id, "", &path);
        if (r < 0)
                return r;
        path_query_number(&path, "wait_ms", wait_ms);
        path_query_number(&path, "revision", revision);
        if (path.error)
                return path.error;
        struct request request = { .exchange = { .method = "GET", .path = path.text.data, .wait_ms = wait_ms } };
        return operation_call(f, &request, ret_operation);
}

int ferry_get_operation_metadata(struct ferry *f, const char *id, char **ret_json)
{
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        int r = call_path(f, "/v1/operations/", id, "/metadata", &path);
        return r < 0 ? r : call_get(f, path.text.data, NULL, NULL, ret_json);
}

int ferry_cancel_operation(struct ferry *f, const char *id, struct ferry_operation *ret_operation)
{
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        int r = call_path(f, "/v1/operations/", id, "/cancel", &path);
        if (r < 0)
                return r;
        struct request request = { .exchange = { .method = "POST", .path = path.text.data }, .repeatable = true };
        return operation_call(f, &request, ret_operation);
}

int ferry_renew_operation(struct ferry *f, const char *id, uint64_t ttl_ms, struct ferry_operation *ret_operation)
{
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        char body[48];
        int r = call_path(f, "/v1/operations/", id, "/renew", &path);
        if (r < 0)
                return r;
        struct request request = { .exchange = { .method = "POST", .path = path.text.data }, .repeatable = true };
        if (ttl_ms) {
                snprintf(body, sizeof(body), "{\"ttl_ms\":%" PRIu64 "}", ttl_ms);
                request_set_body(&request, body);
        }
        return operation_call(f, &request, ret_operation);
}

int ferry_delete_operation(struct ferry *f, const char *id)
{
        return call_delete(f, "/v1/operations/", id);
}

/* ---- a list ---- */

int ferry_list_operations(struct ferry *f, const struct ferry_operation_query *query,
                          struct ferry_operation_list *ret_list)
{
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        static const struct ferry_operation_query all;
        struct call_page page = { .list = &operation_list };
        const struct ferry_operation_query *q = query ? query : &all;
        int r = ARGUMENT_CHECK(f, q);
        if (r < 0)
                return r;
        if (q->done && q->running)
                return problem_argument(f, "done and running exclude each other");
        path_add(&path, "/v1/operations");
        path_query(&path, "kind", q->kind);
        path_query(&path, "status", q->status);
        path_query(&path, "region", q->region);
        path_query(&path, "label", q->label);
        path_query(&path, "done", q->done ? "true" : q->running ? "false" : NULL);
        path_query(&path, "order", q->newest ? "newest" : NULL);
        path_query_number(&path, "limit", q->limit);
        path_query(&path, "after", q->after);
        r = call_get_page(f, &path, &page, NULL);
        if (r == 0)
                *ret_list = (struct ferry_operation_list){ .items = page.items, .n = page.n, .next = page.next };
        return r;
}
