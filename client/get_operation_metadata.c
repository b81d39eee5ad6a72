/* SPDX-License-Identifier: Apache-2.0 */
#include "client_internal.h"

int ferry_get_operation_metadata(struct ferry *f, const char *id, char **ret_json)
{
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        int r = call_path(f, "/v1/operations/", id, "/metadata", &path);
        return r < 0 ? r : call_get_text(f, path.text.data, ret_json);
}
