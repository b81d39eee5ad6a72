/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <ferry/encoding.h>

#include "client_internal.h"

int content_make(struct ferry *f, const char *collection, const char *id, const char *key, struct content *ret_content)
{
        struct content content = { 0 };
        for (const char *c = key; c && *c; c++) {
                if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 0x7f)
                        return problem_argument(f, "the key has a character that a header cannot carry");
        }
        if (key && !*key)
                return problem_argument(f, "the key is empty");
        int r = call_path(f, collection, id, "/content", &content.path);
        if (r == 0 && key && asprintf(&content.authorization, "Authorization: Bearer %s", key) < 0) {
                content.authorization = NULL;
                r = -ENOMEM;
        }
        if (r < 0)
                content_clear(&content);
        else
                *ret_content = content;
        return r;
}

void content_clear(struct content *content)
{
        path_clear(&content->path);
        ferry_secret_free(content->authorization);
        content->authorization = NULL;
}

/* ---- GET ---- */

/* One download; lives on the stack of the call. */
struct download {
        ferry_sink sink;
        void *context;
        uint64_t limit; /* most bytes that may come */
        uint64_t size;  /* that came */
};

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

/* Range header, or "" for the whole. false when the numbers do not fit. */
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

int content_get(struct ferry *f, const struct content *content, uint64_t offset, uint64_t size, ferry_sink sink,
                void *context, uint64_t *ret_size)
{
        FERRY_CLEANUP(reply_clear) struct reply reply = { 0 };
        struct download download = { sink, context, size ? size : UINT64_MAX, 0 };
        char range[80];
        if (!sink)
                return problem_argument(f, "there is no sink");
        if (!download_range(offset, size, range, sizeof(range)))
                return problem_argument(f, "offset + size is too large");
        const char *const headers[] = { *range ? range : NULL, NULL };
        struct request request = { .exchange = { .method = "GET",
                                                 .path = content->path.text.data,
                                                 .headers = headers,
                                                 .sink = download_take,
                                                 .sink_context = &download },
                                   .sink_status = *range ? 206 : 200,
                                   .authorization = content->authorization };
        int r = call_send(f, &request, &reply);
        if (r != 0)
                return r;
        if (reply.status != request.sink_status || !download_starts_at(&reply, offset))
                return problem_protocol(f, "another part was asked for", reply.content_range);
        if (ret_size)
                *ret_size = download.size;
        return 0;
}

struct download_buffer {
        char *next;
};

static int download_to_buffer(void *context, const void *data, size_t size)
{
        struct download_buffer *b = context;
        memcpy(b->next, data, size); /* download_take keeps to the limit */
        b->next += size;
        return 0;
}

int content_get_buffer(struct ferry *f, const struct content *content, uint64_t offset, void *buffer, size_t size,
                       size_t *ret_size)
{
        struct download_buffer b = { buffer };
        uint64_t came = 0;
        if (size == 0 || !buffer)
                return problem_argument(f, "the buffer is empty");
        int r = content_get(f, content, offset, size, download_to_buffer, &b, &came);
        if (r == 0 && ret_size)
                *ret_size = (size_t)came;
        return r;
}

/* ---- PUT ---- */

int content_put(struct ferry *f, struct content *content, uint64_t offset, struct request *request)
{
        path_query_number(&content->path, "offset", offset);
        if (content->path.error)
                return content->path.error;
        request->exchange.method = "PUT";
        request->exchange.path = content->path.text.data;
        request->exchange.content_type = "application/octet-stream";
        request->authorization = content->authorization;
        return call_plain(f, request);
}
