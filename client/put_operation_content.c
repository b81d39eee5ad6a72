/* SPDX-License-Identifier: Apache-2.0 */
#include "client_internal.h"

int ferry_put_operation_content(struct ferry *f, const char *id, const char *key, uint64_t offset, const void *data,
                                size_t size)
{
        FERRY_CLEANUP(content_clear) struct content content = { 0 };
        struct request request = { .exchange = { .body = data, .size = size } };
        if (!data || !size)
                return problem_argument(f, "there is no data");
        int r = content_make(f, "/v1/operations/", id, key, &content);
        return r == 0 ? content_put(f, &content, offset, &request) : r;
}
