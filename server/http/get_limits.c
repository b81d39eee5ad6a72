/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "base/util.h"
#include "handlers.h"
#include "http_internal.h"
#include "json_build.h"
#include "operations/operations.h"
#include "request.h"

#define LIMIT(name)                                                                                                    \
        {                                                                                                              \
#name, offsetof(struct http_limits, name)                                                              \
        }

static const struct {
        const char *name;
        size_t offset;
} limits[] = {
        LIMIT(body_max), LIMIT(descriptors_max), LIMIT(wait_ms_max),  LIMIT(waiters_max),     LIMIT(connections_max),
        LIMIT(page_max), LIMIT(regions_max),     LIMIT(memory_limit), LIMIT(idempotency_max),
};
_Static_assert(sizeof(struct http_limits) == FERRY_ARRAY_SIZE(limits) * sizeof(uint64_t), "every limit is shown");

void get_limits(struct http_request *request)
{
        const struct operation_limits *operations = request->server->config.operation_limits;
        const char *base = (const char *)&request->server->config.limits;
        struct json_object *object = json_object_new_object();
        bool ok = true;

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(limits); i++)
                ok = ok &&
                     json_add_uint(object, limits[i].name, *(const uint64_t *)(const void *)(base + limits[i].offset));
        ok = ok && json_add_uint(object, "operations_max", operations->operations_max) &&
             json_add_uint(object, "terminal_max", operations->terminal_max) &&
             json_add_uint(object, "gone_max", operations->gone_max) &&
             json_add_uint(object, "readers_max", operations->readers_max) &&
             json_add_uint(object, "ttl_ms_default", operations->ttl_ms_default) &&
             json_add_uint(object, "ttl_ms_max", operations->ttl_ms_max) &&
             json_add_uint(object, "timeout_ms_max", operations->timeout_ms_max) &&
             json_add_uint(object, "stall_ms", operations->stall_ms) &&
             json_add_uint(object, "retention_ms", operations->retention_ms);
        request_answer_json(request, 200, json_finish(object, ok));
}
