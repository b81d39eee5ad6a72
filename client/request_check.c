/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

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
