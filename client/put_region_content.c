/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <unistd.h>

#include "client_internal.h"

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
