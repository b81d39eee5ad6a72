/* SPDX-License-Identifier: Apache-2.0 */
#include "client_internal.h"

int ferry_get_metrics(struct ferry *f, char **ret_text)
{
        static const char *const types[] = { "text/plain", NULL };
        return call_text(f, "/metrics", types, ret_text);
}
