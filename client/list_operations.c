/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "client_internal.h"
#include "decode.h"

int ferry_list_operations(struct ferry *f, const struct ferry_operation_query *query,
                          struct ferry_operation_list *ret_list)
{
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        static const struct ferry_operation_query all;
        struct ferry_operation_list list = { 0 };
        const struct ferry_operation_query *q = query ? query : &all;
        int r = ARGUMENT_CHECK(f, q);
        if (r < 0)
                return r;
        if (q->done && q->running)
                return problem_argument(f, "done and running exclude each other");
        path_add(&path, "/v1/operations");
        path_query(&path, "kind", q->kind);
        path_query(&path, "status", q->status);
        path_query(&path, "region", q->region);
        path_query(&path, "label", q->label);
        path_query(&path, "done", q->done ? "true" : q->running ? "false" : NULL);
        path_query(&path, "order", q->newest ? "newest" : NULL);
        path_query_number(&path, "limit", q->limit);
        path_query(&path, "after", q->after);
        if (path.error)
                return path.error == -EINVAL ? problem_argument(f, "the query is too long") : path.error;
        struct request request = { .exchange = { .method = "GET", .path = path.text.data } };
        r = call_decode(f, &request, operation_page_decode, &list, NULL);
        if (r == 0)
                *ret_list = list;
        return r;
}
