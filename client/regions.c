/* SPDX-License-Identifier: Apache-2.0 */
#include "client_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <ferry/encoding.h>
#include <ferry/json_write.h>

/*
 * The calls on regions, and those on content, of regions and of operations: bytes that stream between the worker and a
 * buffer, a descriptor, or the caller's sink or source. A download never gives its sink more than was asked for, and
 * fails where the worker sends another part. Neither is tried again once bytes went to a sink or came from a source.
 *
 * Thread: the one that uses the handle; sinks and sources are called on it.
 */

/* ---- answers ---- */

/* What is decoded at once, and the value that needs more than a table. */
struct region_answer {
        struct ferry_region r;
        struct json_object *error; /* borrowed; NULL = none */
};

static const struct ferry_json_field region_fields[] = {
        FERRY_JSON_FIELD("id", TEXT, true, struct region_answer, r.id),
        FERRY_JSON_FIELD("size", UINT, true, struct region_answer, r.size),
        FERRY_JSON_FIELD("device", TEXT, true, struct region_answer, r.device),
        FERRY_JSON_FIELD("name", TEXT, false, struct region_answer, r.name),
        FERRY_JSON_FIELD("bytes_prepared", UINT, false, struct region_answer, r.bytes_prepared),
        FERRY_JSON_FIELD("path", TEXT, false, struct region_answer, r.path),
        FERRY_JSON_FIELD("state", TEXT, false, struct region_answer, r.state),
        FERRY_JSON_FIELD("sealed", BOOL, false, struct region_answer, r.sealed),
        FERRY_JSON_FIELD("error", OBJECT, false, struct region_answer, error),
        FERRY_JSON_FIELD("in_use", UINT, false, struct region_answer, r.in_use),
        FERRY_JSON_FIELD("created_at", TEXT, false, struct region_answer, r.created_at),
        FERRY_JSON_FIELD("idle_ms", UINT, false, struct region_answer, r.idle_ms),
        FERRY_JSON_FIELD("expires_at", TEXT, false, struct region_answer, r.expires_at),
};

int region_decode(struct json_object *json, void *region, struct ferry_json_errors *errors)
{
        struct region_answer answer = { 0 };
        struct ferry_region *r = &answer.r;
        int error = DECODE(json, region_fields, &answer, errors);
        if (error == 0)
                error = call_decode_error(answer.error, &r->error, r->error_code, r->error_detail, errors);
        if (error == 0)
                *(struct ferry_region *)region = *r;
        return error;
}

const struct call_list region_list = { "regions", sizeof(struct ferry_region), region_decode, NULL };

void ferry_region_list_clear(struct ferry_region_list *list)
{
        free(list->items);
        free(list->next);
        *list = (struct ferry_region_list){ 0 };
}

/* ---- calls ---- */

/* 4 s per GiB: the worker's pages may come that slowly where the host has to find them first. */
enum { BYTES_PER_MS = 1 << 18 };

/* Returns NULL when memory is short. */
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
        struct request request = { .exchange = { .method = "POST",
                                                 .path = "/v1/regions",
                                                 .idempotency_key = spec->idempotency_key ? spec->idempotency_key : key,
                                                 .wait_ms = spec->size / BYTES_PER_MS } };
        request_set_body(&request, body);
        return call_decode(f, &request, region_decode, ret_region, NULL);
}

int ferry_get_region(struct ferry *f, const char *id, struct ferry_region *ret_region)
{
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        int r = call_path(f, "/v1/regions/", id, "", &path);
        return r < 0 ? r : call_get(f, path.text.data, region_decode, ret_region, NULL);
}

int ferry_list_regions(struct ferry *f, unsigned limit, const char *after, struct ferry_region_list *ret_list)
{
        struct call_page page = { .list = &region_list };
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        path_add(&path, "/v1/regions");
        path_query_number(&path, "limit", limit);
        path_query(&path, "after", after);
        int r = call_get_page(f, &path, &page, NULL);
        if (r == 0)
                *ret_list = (struct ferry_region_list){ .items = page.items, .n = page.n, .next = page.next };
        return r;
}

int ferry_delete_region(struct ferry *f, const char *id)
{
        return call_delete(f, "/v1/regions/", id);
}

/* ---- their content ---- */

/* The bytes of a region or an operation. Borrowed; key NULL = the handle's token. */
struct content {
        const char *collection, *id, *key;
};

/* Its path, whole but for the query, and the header that its key needs, if it has one: a secret. 0; -errno. */
static int content_locate(struct ferry *f, const struct content *content, struct path *path, char **ret_authorization)
{
        int r = content->key ? handle_authorization(content->key, ret_authorization) : 0;
        if (r == -EKEYREJECTED)
                return problem_argument(f, *content->key ? "the key has a character that a header cannot carry"
                                                         : "the key is empty");
        return r < 0 ? r : call_path(f, content->collection, content->id, "/content", path);
}

/* ---- GET ---- */

/* One download; lives on the stack of the call. */
struct download {
        ferry_sink sink;
        void *context;
        uint64_t limit; /* most bytes that may come */
        uint64_t size;  /* that came */
};

/* A ferry_sink before the caller's, which gets no byte beyond the limit. */
static int download_take(void *context, const void *data, size_t size)
{
        struct download *d = context;
        if (size > d->limit - d->size)
                return -EPROTO;
        d->size += size;
        return d->sink(d->context, data, size);
}

/* Whether the worker sent the part that was asked for. */
static bool download_starts_at(const struct reply *reply, uint64_t offset)
{
        const char *end;
        uint64_t start;
        if (reply->status != 206)
                return true;
        if (strncmp(reply->content_range, "bytes ", 6) != 0)
                return false;
        end = ferry_uint_read(reply->content_range + 6, &start);
        return end && *end == '-' && start == offset;
}

/* Writes the Range header, or "" for the whole content. Returns false when the last byte's number has more than 64
 * bits. */
static bool download_range(uint64_t offset, uint64_t size, char *text, size_t text_size)
{
        uint64_t last;
        *text = '\0';
        if (size) {
                if (__builtin_add_overflow(offset, size - 1, &last))
                        return false;
                snprintf(text, text_size, "Range: bytes=%" PRIu64 "-%" PRIu64, offset, last);
        } else if (offset) {
                snprintf(text, text_size, "Range: bytes=%" PRIu64 "-", offset);
        }
        return true;
}

/*
 * GETs size bytes from offset on, 0 = all that follow, into the sink. *ret_size: how many came, fewer where the content
 * ends before.
 */
static int content_get(struct ferry *f, const struct content *content, uint64_t offset, uint64_t size, ferry_sink sink,
                       void *context, uint64_t *ret_size)
{
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        FERRY_CLEANUP(cleanup_secret) char *authorization = NULL;
        FERRY_CLEANUP(reply_clear) struct reply reply = { 0 };
        struct download download = { sink, context, size ? size : UINT64_MAX, 0 };
        char range[80];
        int r = content_locate(f, content, &path, &authorization);
        if (r < 0)
                return r;
        if (!sink)
                return problem_argument(f, "there is no sink");
        if (!download_range(offset, size, range, sizeof(range)))
                return problem_argument(f, "offset + size is too large");
        const char *const headers[] = { *range ? range : NULL, NULL };
        struct request request = { .exchange = { .method = "GET",
                                                 .path = path.text.data,
                                                 .headers = headers,
                                                 .sink = download_take,
                                                 .sink_context = &download },
                                   .sink_status = *range ? 206 : 200,
                                   .authorization = authorization };
        r = call_send(f, &request, &reply);
        if (r != 0)
                return r;
        if (reply.status != request.sink_status || !download_starts_at(&reply, offset))
                return problem_protocol(f, "another part was asked for", reply.content_range);
        if (ret_size)
                *ret_size = download.size;
        return 0;
}

static int download_to_buffer(void *context, const void *data, size_t size)
{
        char **next = context;
        *next = mempcpy(*next, data, size); /* download_take keeps to the limit */
        return 0;
}

static int content_get_buffer(struct ferry *f, const struct content *content, uint64_t offset, void *buffer,
                              size_t size, size_t *ret_size)
{
        char *next = buffer;
        uint64_t came = 0;
        if (size == 0 || !buffer)
                return problem_argument(f, "the buffer is empty");
        int r = content_get(f, content, offset, size, download_to_buffer, &next, &came);
        if (r == 0 && ret_size)
                *ret_size = (size_t)came;
        return r;
}

/* ---- PUT ---- */

/* PUTs the request's body, or what its source gives, from offset on. */
static int content_put(struct ferry *f, const struct content *content, uint64_t offset, struct request *request)
{
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        FERRY_CLEANUP(cleanup_secret) char *authorization = NULL;
        int r = content_locate(f, content, &path, &authorization);
        path_query_number(&path, "offset", offset);
        if (r == 0)
                r = path.error;
        if (r < 0)
                return r;
        request->exchange.method = "PUT";
        request->exchange.path = path.text.data;
        request->exchange.content_type = "application/octet-stream";
        request->authorization = authorization;
        return call_plain(f, request);
}

/* ---- of regions ---- */

int ferry_get_region_content_to(struct ferry *f, const char *id, uint64_t offset, uint64_t size, ferry_sink sink,
                                void *context, uint64_t *ret_size)
{
        return content_get(f, &(struct content){ "/v1/regions/", id, NULL }, offset, size, sink, context, ret_size);
}

int ferry_get_region_content(struct ferry *f, const char *id, uint64_t offset, void *buffer, size_t size,
                             size_t *ret_size)
{
        return content_get_buffer(f, &(struct content){ "/v1/regions/", id, NULL }, offset, buffer, size, ret_size);
}

static int download_to_fd(void *context, const void *data, size_t size)
{
        const int *fd = context;
        while (size) {
                ssize_t n = write(*fd, data, size);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : -EIO;
                data = (const char *)data + n;
                size -= (size_t)n;
        }
        return 0;
}

int ferry_get_region_content_fd(struct ferry *f, const char *id, uint64_t offset, uint64_t size, int fd,
                                uint64_t *ret_size)
{
        return ferry_get_region_content_to(f, id, offset, size, download_to_fd, &fd, ret_size);
}

int ferry_put_region_content(struct ferry *f, const char *id, uint64_t offset, const void *data, size_t size)
{
        struct request request = { .exchange = { .body = data, .size = size } };
        if (size && !data)
                return problem_argument(f, "there is no data");
        return content_put(f, &(struct content){ "/v1/regions/", id, NULL }, offset, &request);
}

int ferry_put_region_content_from(struct ferry *f, const char *id, uint64_t offset, ferry_source source, void *context,
                                  uint64_t size)
{
        struct request request = { .exchange = { .source = source, .source_context = context, .source_size = size } };
        if (!source)
                return problem_argument(f, "there is no source");
        return content_put(f, &(struct content){ "/v1/regions/", id, NULL }, offset, &request);
}

static ssize_t upload_from_fd(void *context, void *buffer, size_t size)
{
        const int *fd = context;
        for (;;) {
                ssize_t n = read(*fd, buffer, size);
                if (n >= 0)
                        return n;
                if (errno != EINTR)
                        return -errno;
        }
}

int ferry_put_region_content_fd(struct ferry *f, const char *id, uint64_t offset, int fd, uint64_t size)
{
        return ferry_put_region_content_from(f, id, offset, upload_from_fd, &fd, size);
}

/* ---- of operations ---- */

int ferry_get_operation_content(struct ferry *f, const char *id, const char *key, uint64_t offset, void *buffer,
                                size_t size, size_t *ret_size)
{
        return content_get_buffer(f, &(struct content){ "/v1/operations/", id, key }, offset, buffer, size, ret_size);
}

int ferry_put_operation_content(struct ferry *f, const char *id, const char *key, uint64_t offset, const void *data,
                                size_t size)
{
        struct request request = { .exchange = { .body = data, .size = size } };
        if (!data || !size)
                return problem_argument(f, "there is no data");
        return content_put(f, &(struct content){ "/v1/operations/", id, key }, offset, &request);
}
