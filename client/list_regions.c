/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "client_internal.h"
#include "decode.h"

int ferry_list_regions(struct ferry *f, unsigned limit, const char *after, struct ferry_region_list *ret_list)
{
        struct ferry_region_list list = { 0 };
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        path_add(&path, "/v1/regions");
        path_query_number(&path, "limit", limit);
        path_query(&path, "after", after);
        if (path.error)
                return path.error == -EINVAL ? problem_argument(f, "after is too long") : path.error;
        struct request request = { .exchange = { .method = "GET", .path = path.text.data } };
        int r = call_decode(f, &request, region_page_decode, &list, NULL);
        if (r == 0)
                *ret_list = list;
        return r;
}
