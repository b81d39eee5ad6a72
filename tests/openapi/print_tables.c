/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include <ferry/error.h>
#include <ferry/status.h>

#include "http/server.h"

/* Prints the tables that openapi.yaml must agree with, tab-separated, for check_openapi.py. */

static const char *const auth_names[] = {
        [HTTP_AUTH_NONE] = "none",       [HTTP_AUTH_PEER] = "peer",
        [HTTP_AUTH_KEY] = "key",         [HTTP_AUTH_FULL_OR_KEY] = "full-or-key",
        [HTTP_AUTH_METRICS] = "metrics", [HTTP_AUTH_FULL] = "full",
};

static const char *const body_names[] = {
        [HTTP_BODY_NONE] = "none",
        [HTTP_BODY_JSON] = "json",
        [HTTP_BODY_OPTIONAL_JSON] = "optional-json",
        [HTTP_BODY_STREAM] = "stream",
};

int main(void)
{
        for (size_t i = 0; i < http_routes_count; i++) {
                const struct http_route *route = &http_routes[i];

                printf("route\t%s\t%s\t%s\t%s\t%s\n", route->method, route->path, route->operation_id,
                       auth_names[route->auth], body_names[route->body]);
                for (int j = 0; j < HTTP_PARAMETER_COUNT; j++)
                        if (route->parameters & (1u << j))
                                printf("parameter\t%s\t%s\n", route->operation_id, http_parameter_name(j));
        }

#define X(name, number, code, http, retryable, title)                                                                  \
        printf("error\t%s\t%d\t%s\t%s\n", (code), (http), (retryable) ? "true" : "false", (title));
        FERRY_ERRORS(X)
#undef X

        for (int i = 0; i < FERRY_KIND_COUNT; i++)
                printf("Kind\t%s\n", ferry_kind_name(i));
        for (int i = 0; i < FERRY_STATUS_COUNT; i++)
                printf("Status\t%s\n", ferry_status_name(i));
        for (int i = 0; i < FERRY_LAYOUT_COUNT; i++)
                printf("Layout\t%s\n", ferry_layout_name(i));
        return 0;
}
