/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked, and what came of it. */
#include <string.h>
#include <strings.h>

#include "client_internal.h"

/* No control character may end the line or begin another one. */
static bool request_text_is_safe(const char *text, unsigned char least)
{
        for (; text && *text; text++) {
                if ((unsigned char)*text < least || *text == 0x7f)
                        return false;
        }
        return true;
}

const char *request_check(const struct ferry_exchange *e)
{
        if (!e->method || !*e->method || strspn(e->method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != strlen(e->method))
                return "the method is not valid";
        if (!e->path || *e->path != '/' || !request_text_is_safe(e->path, '!') || strchr(e->path, '#'))
                return "the path is not valid";
        if (!request_text_is_safe(e->content_type, ' ') || !request_text_is_safe(e->idempotency_key, ' '))
                return "a header is not valid";
        for (const char *const *line = e->headers; line && *line; line++) {
                if (!strchr(*line, ':') || !request_text_is_safe(*line, ' '))
                        return "a header is not valid";
        }
        if (e->body && e->source)
                return "body and source exclude each other";
        if (e->source && e->source_size != FERRY_SIZE_UNKNOWN && e->source_size > INT64_MAX)
                return "the size is not valid";
        return NULL;
}

void request_set_body(struct request *request, const char *body)
{
        request->exchange.content_type = "application/json";
        request->exchange.body = body;
        request->exchange.size = strlen(body);
}

/* ---- replies ---- */

/* clang-format off */
#define HEADER(name, field) { name, sizeof(name) - 1, offsetof(struct reply, field), sizeof(((struct reply *)0)->field) }
/* clang-format on */

static const struct {
        const char *name;
        size_t name_size, offset, size;
} reply_headers[] = {
        HEADER("content-type", content_type),
        HEADER("etag", etag),
        HEADER("location", location),
        HEADER("request-id", request_id),
        HEADER("content-range", content_range),
        HEADER("retry-after", retry_after),
        HEADER("content-digest", content_digest),
#undef HEADER
};

void reply_forget_head(struct reply *reply)
{
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(reply_headers); i++)
                *((char *)reply + reply_headers[i].offset) = '\0';
}

void reply_take_header(struct reply *reply, const char *line, size_t size)
{
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(reply_headers); i++) {
                size_t n = reply_headers[i].name_size;
                if (size <= n || line[n] != ':' || strncasecmp(line, reply_headers[i].name, n) != 0)
                        continue;
                for (n++; n < size && (line[n] == ' ' || line[n] == '\t'); n++)
                        ;
                while (size > n && strchr(" \t\r\n", line[size - 1]))
                        size--;
                size_t room = reply_headers[i].size - 1, length = size - n < room ? size - n : room;
                *((char *)mempcpy((char *)reply + reply_headers[i].offset, line + n, length)) = '\0';
                return;
        }
}

void reply_clear(struct reply *reply)
{
        ferry_buffer_clear(&reply->body, reply->secret);
        *reply = (struct reply){ 0 };
}

void reply_restart(struct reply *reply)
{
        struct reply kept = { .secret = reply->secret, .gateway_ms = reply->gateway_ms, .lost = reply->lost };
        reply_clear(reply);
        *reply = kept;
}
