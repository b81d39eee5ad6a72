/* SPDX-License-Identifier: Apache-2.0 */
#include "client_internal.h"

int ferry_get_throughput(struct ferry *f, char **ret_json)
{
        return call_get_text(f, "/v1/throughput", ret_json);
}
