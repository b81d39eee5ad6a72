/* SPDX-License-Identifier: Apache-2.0 */
#include "client_internal.h"

int ferry_get_operation_content(struct ferry *f, const char *id, const char *key, uint64_t offset, void *buffer,
                                size_t size, size_t *ret_size)
{
        FERRY_CLEANUP(content_clear) struct content content = { 0 };
        int r = content_make(f, "/v1/operations/", id, key, &content);
        return r == 0 ? content_get_buffer(f, &content, offset, buffer, size, ret_size) : r;
}
