/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "ucx_internal.h"

void ucx_version(char *text, size_t size)
{
        unsigned major, minor, release;

        ucp_get_version(&major, &minor, &release);
        (void)snprintf(text, size, "%u.%u.%u", major, minor, release);
}

bool ucx_is_before(unsigned minor)
{
        unsigned major, its_minor, release;

        ucp_get_version(&major, &its_minor, &release);
        return major == 1 && its_minor < minor;
}

int ucx_errno(ucs_status_t status)
{
        switch (status) {
        case UCS_ERR_NO_MEMORY:
                return -ENOMEM;
        case UCS_ERR_NO_DEVICE:
        case UCS_ERR_UNSUPPORTED:
                return -ENODEV;
        case UCS_ERR_BUSY:
                return -EADDRINUSE;
        case UCS_ERR_INVALID_ADDR:
        case UCS_ERR_UNREACHABLE:
                return -EADDRNOTAVAIL;
        case UCS_ERR_INVALID_PARAM:
                return -EINVAL;
        default:
                return -EIO;
        }
}

int ucx_failed(const char *step, ucs_status_t status)
{
        log_event(LOG_ERROR, "network transport not opened", LOG_S("step", step),
                  LOG_S("reason", ucs_status_string(status)));
        return ucx_errno(status);
}
