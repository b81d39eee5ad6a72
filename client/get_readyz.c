/* SPDX-License-Identifier: Apache-2.0 */
#include "client_internal.h"

int ferry_get_readyz(struct ferry *f)
{
        return call_plain(
                f, &(struct request){ .exchange = { .method = "GET", .path = "/readyz", .no_status_retry = true } });
}
