/* SPDX-License-Identifier: Apache-2.0 */
#include "client_internal.h"

int ferry_get_limits(struct ferry *f, char **ret_json)
{
        return call_get_text(f, "/v1/limits", ret_json);
}
