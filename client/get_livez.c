/* SPDX-License-Identifier: Apache-2.0 */
#include "client_internal.h"

int ferry_get_livez(struct ferry *f)
{
        return call_plain(
                f, &(struct request){ .exchange = { .method = "GET", .path = "/livez", .no_status_retry = true } });
}
