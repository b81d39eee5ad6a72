/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client_internal.h"
#include "http_try.h"

enum { CHUNK_LINE = 10, CHUNK_END = 2 }; /* room in bytes for the line with a chunk's size, and for a line end */

static CURLcode source_fail(struct http_try *t, int error)
{
        t->abort = error;
        return CURLE_ABORTED_BY_CALLBACK;
}

CURLcode http_try_source_next(struct http_try *t)
{
        const struct ferry_exchange *e = &t->request->exchange;
        bool known = e->source_size != FERRY_SIZE_UNKNOWN;
        size_t room = HTTP_TRY_PIECE - CHUNK_LINE - CHUNK_END;
        if (known && room > t->source_left)
                room = (size_t)t->source_left;
        if (!room)
                t->source_ended = true;
        if (t->source_ended)
                return CURLE_OK;
        if (!t->piece && !(t->piece = malloc(HTTP_TRY_PIECE)))
                return CURLE_OUT_OF_MEMORY;
        char *data = t->piece + CHUNK_LINE;
        t->reply->consumed = true;
        ssize_t n = e->source(e->source_context, data, room);
        if (n < 0 || (size_t)n > room || (n == 0 && known))
                return source_fail(t, n < 0 ? (int)n : n == 0 ? -ENODATA : -EINVAL);
        t->out = data;
        t->out_left = (size_t)n;
        if (known) {
                t->source_left -= (uint64_t)n;
                return CURLE_OK;
        }
        char line[CHUNK_LINE + 1];
        int length = snprintf(line, sizeof(line), "%zx\r\n", (size_t)n);
        t->out = memcpy(data - length, line, (size_t)length);
        memcpy(data + n, "\r\n", CHUNK_END); /* after the last chunk, which is empty, it ends the trailers */
        t->out_left += (size_t)length + CHUNK_END;
        t->source_ended = n == 0;
        return CURLE_OK;
}
