/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client_internal.h"

int ferry_renew_operation(struct ferry *f, const char *id, uint64_t ttl_ms, struct ferry_operation *ret_operation)
{
        FERRY_CLEANUP(path_clear) struct path path = { 0 };
        char body[48];
        int r = call_path(f, "/v1/operations/", id, "/renew", &path);
        if (r < 0)
                return r;
        struct request request = { .exchange = { .method = "POST", .path = path.text.data }, .repeatable = true };
        if (ttl_ms) {
                snprintf(body, sizeof(body), "{\"ttl_ms\":%" PRIu64 "}", ttl_ms);
                request.exchange.content_type = "application/json";
                request.exchange.body = body;
                request.exchange.size = strlen(body);
        }
        return operation_call(f, &request, ret_operation);
}
