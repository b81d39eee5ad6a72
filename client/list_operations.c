/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "client_internal.h"
#include "decode.h"

int ferry_list_operations(struct ferry *f, const struct ferry_operation_query *query,
                          struct ferry_operation_list *ret_list)
{
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        path_add(&path, "/v1/operations");
        if (query) {
                path_query(&path, "kind", query->kind);
                path_query(&path, "status", query->status);
                path_query_number(&path, "limit", query->limit);
                path_query(&path, "after", query->after);
        }
        if (path.error)
                return path.error == -EINVAL ? problem_argument(f, "the query is too long") : path.error;
        struct request request = { .exchange = { .method = "GET", .path = path.text.data } };
        return call_decode(f, &request, operation_page_decode, ret_list, NULL);
}
