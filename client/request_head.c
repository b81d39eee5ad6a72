/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "client_internal.h"

enum {
        REQUEST_HEAD_MAX = 1024 * 1024, /* bytes */
        REQUEST_LONG = 1024 * 1024,     /* bytes of a source, from which on libcurl would ask, too */
};

static bool header_is(const char *line, const char *name)
{
        size_t size = strlen(name);
        return strncasecmp(line, name, size) == 0 && line[size] == ':';
}

static bool request_has_header(const struct ferry_exchange *e, const char *name)
{
        for (const char *const *line = e->headers; line && *line; line++) {
                if (header_is(*line, name))
                        return true;
        }
        return false;
}

bool request_asks_consent(const struct ferry_exchange *e)
{
        return e->source && e->source_size > REQUEST_LONG && !request_has_header(e, "Expect");
}

/* Adds texts up to a NULL. The first error sticks in *r. */
static void head_add(struct ferry_buffer *head, int *r, const char *const *texts)
{
        for (; *r == 0 && *texts; texts++)
                *r = ferry_buffer_append(head, *texts, strlen(*texts), REQUEST_HEAD_MAX);
}

#define HEAD_ADD(...) head_add(ret_head, &r, (const char *const[]){ __VA_ARGS__, NULL })

int request_head(const struct ferry *f, const struct request *request, struct ferry_buffer *ret_head)
{
        const struct ferry_exchange *e = &request->exchange;
        const char *authorization = request->authorization ? request->authorization : f->authorization;
        char length[24] = "";
        int r = 0;
        HEAD_ADD(e->method, " ", f->prefix, e->path, " HTTP/1.1\r\n");
        if (!request_has_header(e, "Host"))
                HEAD_ADD("Host: ", f->host, "\r\n");
        HEAD_ADD("User-Agent: libferry/" FERRY_VERSION "\r\n");
        if (!request_has_header(e, "Accept"))
                HEAD_ADD("Accept: */*\r\n");
        if (authorization)
                HEAD_ADD(authorization, "\r\n");
        if (e->content_type)
                HEAD_ADD("Content-Type: ", e->content_type, "\r\n");
        if (e->idempotency_key)
                HEAD_ADD("Idempotency-Key: ", e->idempotency_key, "\r\n");
        for (const char *const *line = e->headers; line && *line; line++) {
                /* Where the body ends is told below, once. */
                if (!header_is(*line, "Content-Length") && !header_is(*line, "Transfer-Encoding"))
                        HEAD_ADD(*line, "\r\n");
        }
        if (request_asks_consent(e))
                HEAD_ADD("Expect: 100-continue\r\n");
        if (e->source && e->source_size == FERRY_SIZE_UNKNOWN) {
                HEAD_ADD("Transfer-Encoding: chunked\r\n");
        } else if (e->source || e->body || strcmp(e->method, "POST") == 0 || strcmp(e->method, "PUT") == 0) {
                snprintf(length, sizeof(length), "%" PRIu64, e->source ? e->source_size : e->body ? e->size : 0);
                HEAD_ADD("Content-Length: ", length, "\r\n");
        }
        HEAD_ADD("\r\n");
        return r == -EMSGSIZE ? -EINVAL : r;
}
