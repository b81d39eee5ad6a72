/* SPDX-License-Identifier: Apache-2.0 */
#include "client_internal.h"

int ferry_put_operation_content(struct ferry *f, const char *id, const char *key, uint64_t offset, const void *data,
                                size_t size)
{
        struct request request = { .exchange = { .body = data, .size = size } };
        if (!data || !size)
                return problem_argument(f, "there is no data");
        return content_put(f, &(struct content){ "/v1/operations/", id, key }, offset, &request);
}
