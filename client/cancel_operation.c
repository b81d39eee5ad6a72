/* SPDX-License-Identifier: Apache-2.0 */
#include "client_internal.h"

int ferry_cancel_operation(struct ferry *f, const char *id, struct ferry_operation *ret_operation)
{
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        int r = call_path(f, "/v1/operations/", id, "/cancel", &path);
        if (r < 0)
                return r;
        struct request request = { .exchange = { .method = "POST", .path = path.text.data }, .repeatable = true };
        return operation_call(f, &request, ret_operation);
}
