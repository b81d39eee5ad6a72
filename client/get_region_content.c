/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client_internal.h"

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
        char *end = NULL;
        if (reply->status != 206)
                return true;
        if (strncmp(reply->content_range, "bytes ", 6) != 0 || reply->content_range[6] < '0' ||
            reply->content_range[6] > '9')
                return false;
        errno = 0;
        uint64_t start = strtoull(reply->content_range + 6, &end, 10);
        return errno == 0 && *end == '-' && start == offset;
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

int ferry_get_region_content_to(struct ferry *f, const char *id, uint64_t offset, uint64_t size, ferry_sink sink,
                                void *context, uint64_t *ret_size)
{
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        FERRY_CLEANUP(reply_clear) struct reply reply = { 0 };
        struct download download = { sink, context, size ? size : UINT64_MAX, 0 };
        char range[80];
        if (!download_range(offset, size, range, sizeof(range)))
                return problem_argument(f, "offset + size is too large");
        int r = call_path(f, "/v1/regions/", id, "/content", &path);
        if (r < 0)
                return r;
        const char *const headers[] = { *range ? range : NULL, NULL };
        struct request request = { .exchange = { .method = "GET",
                                                 .path = path.text.data,
                                                 .headers = headers,
                                                 .sink = download_take,
                                                 .sink_context = &download },
                                   .sink_status = *range ? 206 : 200 };
        r = perform(f, &request, &reply);
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

int ferry_get_region_content(struct ferry *f, const char *id, uint64_t offset, void *buffer, size_t size,
                             size_t *ret_size)
{
        struct download_buffer b = { buffer };
        uint64_t came = 0;
        if (size == 0 || !buffer)
                return problem_argument(f, "the buffer is empty");
        int r = ferry_get_region_content_to(f, id, offset, size, download_to_buffer, &b, &came);
        if (r == 0 && ret_size)
                *ret_size = (size_t)came;
        return r;
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
