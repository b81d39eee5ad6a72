/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "client_internal.h"
#include "decode.h"
#include "sizes.h"

int ferry_list_operations_sized(struct ferry *f, const struct ferry_operation_query *query,
                                struct ferry_operation_list *ret_list, const struct ferry_sizes *sizes)
{
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        struct ferry_operation_query ours = { 0 };
        struct ferry_operation_list list = { 0 };
        int r = query ? sizes_take(f, &ours, sizeof(ours), query, sizes->operation_query) : 0;
        if (r < 0)
                return r;
        if (ours.done && ours.running)
                return problem_argument(f, "done and running exclude each other");
        path_add(&path, "/v1/operations");
        path_query(&path, "kind", ours.kind);
        path_query(&path, "status", ours.status);
        path_query(&path, "region", ours.region);
        path_query(&path, "label", ours.label);
        path_query(&path, "done", ours.done ? "true" : ours.running ? "false" : NULL);
        path_query(&path, "order", ours.newest ? "newest" : NULL);
        path_query_number(&path, "limit", ours.limit);
        path_query(&path, "after", ours.after);
        if (path.error)
                return path.error == -EINVAL ? problem_argument(f, "the query is too long") : path.error;
        struct request request = { .exchange = { .method = "GET", .path = path.text.data } };
        r = call_decode(f, &request, operation_page_decode, &list, NULL);
        return r == 0 ? operation_list_give(&list, ret_list, sizes) : r;
}
