/* SPDX-License-Identifier: Apache-2.0 */
#include "http_try.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include <ferry/clock.h>

#include "client_internal.h"

/* clang-format off */
#define HEADER(name, field) { name, offsetof(struct reply, field), sizeof(((struct reply *)0)->field) }
/* clang-format on */

static const struct {
        const char *name;
        size_t offset, size;
} http_try_headers[] = {
        HEADER("content-type", content_type),
        HEADER("etag", etag),
        HEADER("location", location),
        HEADER("request-id", request_id),
        HEADER("content-range", content_range),
        HEADER("retry-after", retry_after),
        HEADER("content-digest", content_digest),
#undef HEADER
};

static void http_try_take_header(struct reply *reply, const char *line, size_t length)
{
        const char *colon = memchr(line, ':', length);
        if (!colon)
                return;
        size_t name = (size_t)(colon - line);
        const char *value = colon + 1, *end = line + length;
        while (value < end && (*value == ' ' || *value == '\t'))
                value++;
        while (end > value && strchr(" \t\r\n", end[-1]))
                end--;
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(http_try_headers); i++) {
                if (strlen(http_try_headers[i].name) != name || strncasecmp(http_try_headers[i].name, line, name) != 0)
                        continue;
                char *target = (char *)reply + http_try_headers[i].offset;
                size_t size = (size_t)(end - value);
                if (size >= http_try_headers[i].size)
                        size = http_try_headers[i].size - 1;
                memcpy(target, value, size);
                target[size] = '\0';
        }
}

/* libcurl says only that it could not connect, and lets programs that the caller starts inherit the connection. */
curl_socket_t http_try_on_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
        int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
        (void)purpose;
        if (fd < 0)
                ((struct ferry *)context)->http_try->socket_error = errno;
        return fd < 0 ? CURL_SOCKET_BAD : fd;
}

size_t http_try_on_header(char *line, size_t one, size_t length, void *context)
{
        struct http_try *t = ((struct ferry *)context)->http_try;
        (void)one;
        if (length >= 5 && strncasecmp(line, "HTTP/", 5) == 0) {
                /* A further status line follows an interim answer, whose headers do not count. */
                for (size_t i = 0; i < FERRY_ARRAY_SIZE(http_try_headers); i++)
                        *((char *)t->reply + http_try_headers[i].offset) = '\0';
        } else if (length <= 8192) {
                http_try_take_header(t->reply, line, length);
        }
        return length;
}

static bool http_try_sink_wants(const struct http_try *t)
{
        const struct request *request = t->request;
        if (!request->exchange.sink)
                return false;
        return request->sink_status ? t->reply->status == request->sink_status : t->reply->status / 100 == 2;
}

size_t http_try_on_body(char *data, size_t one, size_t size, void *context)
{
        struct http_try *t = ((struct ferry *)context)->http_try;
        struct reply *reply = t->reply;
        long status = 0;
        (void)one;
        curl_easy_getinfo(t->f->easy, CURLINFO_RESPONSE_CODE, &status);
        reply->status = (int)status;
        if (http_try_sink_wants(t)) {
                reply->delivered = true;
                t->abort = t->request->exchange.sink(t->request->exchange.sink_context, data, size);
                if (t->abort > 0)
                        t->abort = -EIO;
        } else {
                size_t max = t->f->answer_max;
                if (status >= 400 && max > CLIENT_PROBLEM_BODY_MAX)
                        max = CLIENT_PROBLEM_BODY_MAX;
                t->abort = ferry_buffer_append(&reply->body, data, size, max);
        }
        return t->abort < 0 ? 0 : size;
}

size_t http_try_on_source(char *data, size_t one, size_t size, void *context)
{
        struct http_try *t = ((struct ferry *)context)->http_try;
        const struct ferry_exchange *exchange = &t->request->exchange;
        bool known = t->source_left != FERRY_SIZE_UNKNOWN;
        (void)__builtin_mul_overflow(size, one, &size); /* libcurl's own buffer: cannot overflow */
        if (known && size > t->source_left)
                size = (size_t)t->source_left;
        if (size == 0)
                return 0;
        t->reply->consumed = true;
        ssize_t n = exchange->source(exchange->source_context, data, size);
        if (n > 0 && (size_t)n <= size) {
                if (known)
                        t->source_left -= (uint64_t)n;
                return (size_t)n;
        }
        if (n == 0 && !known)
                return 0;
        t->abort = n < 0 ? (int)n : n == 0 ? -ENODATA : -EINVAL;
        return CURL_READFUNC_ABORT;
}

int http_try_on_progress(void *context, curl_off_t dl_total, curl_off_t dl_now, curl_off_t ul_total, curl_off_t ul_now)
{
        struct http_try *t = ((struct ferry *)context)->http_try;
        (void)dl_total;
        (void)ul_total;
        if (dl_now + ul_now != t->moved) {
                t->moved = dl_now + ul_now;
                t->moved_ms = ferry_clock_ms();
        }
        return 0;
}
