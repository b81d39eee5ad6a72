/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <unistd.h>

#include "client_internal.h"

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
