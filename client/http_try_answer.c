/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "client_internal.h"
#include "http_try.h"

/* clang-format off */
#define HEADER(name, field) { name, sizeof(name) - 1, offsetof(struct reply, field), sizeof(((struct reply *)0)->field) }
/* clang-format on */

static const struct {
        const char *name;
        size_t name_size, offset, size;
} answer_headers[] = {
        HEADER("content-type", content_type),
        HEADER("etag", etag),
        HEADER("location", location),
        HEADER("request-id", request_id),
        HEADER("content-range", content_range),
        HEADER("retry-after", retry_after),
        HEADER("content-digest", content_digest),
#undef HEADER
};

/* Of an interim answer, nothing counts. */
static void answer_on_status(void *context, int status)
{
        struct http_try *t = context;
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(answer_headers); i++)
                *((char *)t->reply + answer_headers[i].offset) = '\0';
        t->reply->status = status;
}

static void answer_on_header(void *context, const char *name, size_t name_size, const char *value, size_t value_size)
{
        struct http_try *t = context;
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(answer_headers); i++) {
                if (answer_headers[i].name_size != name_size ||
                    strncasecmp(answer_headers[i].name, name, name_size) != 0)
                        continue;
                char *target = (char *)t->reply + answer_headers[i].offset;
                size_t size = value_size < answer_headers[i].size ? value_size : answer_headers[i].size - 1;
                memcpy(target, value, size);
                target[size] = '\0';
        }
}

static bool answer_sink_wants(const struct http_try *t)
{
        const struct request *request = t->request;
        if (!request->exchange.sink)
                return false;
        return request->sink_status ? t->reply->status == request->sink_status : t->reply->status / 100 == 2;
}

static int answer_on_body(void *context, const char *data, size_t size)
{
        struct http_try *t = context;
        struct reply *reply = t->reply;
        if (answer_sink_wants(t)) {
                reply->delivered = true;
                t->abort = t->request->exchange.sink(t->request->exchange.sink_context, data, size);
                if (t->abort > 0)
                        t->abort = -EIO;
        } else {
                size_t max = t->f->answer_max;
                if (reply->status >= 400 && max > CLIENT_PROBLEM_BODY_MAX)
                        max = CLIENT_PROBLEM_BODY_MAX;
                t->abort = ferry_buffer_append(&reply->body, data, size, max);
        }
        return t->abort;
}

const struct answer_ops http_try_answer = { answer_on_status, answer_on_header, answer_on_body };
