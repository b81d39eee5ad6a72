/* SPDX-License-Identifier: Apache-2.0 */
#include "client_internal.h"

int ferry_get_region(struct ferry *f, const char *id, struct ferry_region *ret_region)
{
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        int r = call_path(f, "/v1/regions/", id, "", &path);
        if (r < 0)
                return r;
        struct request request = { .exchange = { .method = "GET", .path = path.text.data } };
        return region_call(f, &request, ret_region);
}
