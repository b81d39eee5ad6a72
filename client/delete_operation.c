/* SPDX-License-Identifier: Apache-2.0 */
#include "client_internal.h"

int ferry_delete_operation(struct ferry *f, const char *id)
{
        return call_delete(f, "/v1/operations/", id);
}
