/* SPDX-License-Identifier: Apache-2.0 */
#include "client_internal.h"

int operation_fetch(struct ferry *f, const char *id, uint64_t wait_ms, uint64_t revision, const struct request *how,
                    struct ferry_operation *ret_operation)
{
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        int r = call_path(f, "/v1/operations/", id, "", &path);
        if (r < 0)
                return r;
        path_query_number(&path, "wait_ms", wait_ms);
        path_query_number(&path, "revision", revision);
        if (path.error)
                return path.error;
        struct request request = { .exchange = { .method = "GET", .path = path.text.data, .wait_ms = wait_ms },
                                   .deadline_ms = how->deadline_ms,
                                   .awaits = how->awaits };
        return operation_get(f, &request, ret_operation);
}

int ferry_get_operation(struct ferry *f, const char *id, uint64_t wait_ms, uint64_t revision,
                        struct ferry_operation *ret_operation)
{
        return operation_fetch(f, id, wait_ms, revision, &(struct request){ 0 }, ret_operation);
}
