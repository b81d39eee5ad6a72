/* SPDX-License-Identifier: Apache-2.0 */
#include "client_internal.h"

int ferry_get_operation_content(struct ferry *f, const char *id, const char *key, uint64_t offset, void *buffer,
                                size_t size, size_t *ret_size)
{
        return content_get_buffer(f, &(struct content){ "/v1/operations/", id, key }, offset, buffer, size, ret_size);
}
