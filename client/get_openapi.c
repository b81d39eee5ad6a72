/* SPDX-License-Identifier: Apache-2.0 */
#include "client_internal.h"

int ferry_get_openapi(struct ferry *f, char **ret_yaml)
{
        /* RFC 9512 names application/yaml; the others were in use before. */
        static const char *const types[] = { "application/yaml", "application/x-yaml", "text/yaml", NULL };
        return call_text(f, "/openapi.yaml", types, ret_yaml);
}
