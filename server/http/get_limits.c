/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include <ferry/json_write.h>

#include "base/util.h"
#include "connection.h"
#include "event_readers.h"
#include "gate.h"
#include "handlers.h"
#include "head.h"
#include "http_internal.h"
#include "operations/content.h"
#include "operations/operations.h"
#include "page.h"
#include "peers/peers.h"
#include "peers/registry.h"
#include "quota.h"
#include "range.h"
#include "request.h"

/* clang-format off */
#define LIMIT(name) { #name, offsetof(struct http_limits, name) }
/* clang-format on */

static const struct {
        const char *name;
        size_t offset;
} limits[] = {
        LIMIT(body_max),     LIMIT(bodies_max),      LIMIT(batch_max),       LIMIT(ids_max),  LIMIT(descriptors_max),
        LIMIT(wait_ms_max),  LIMIT(waiters_max),     LIMIT(connections_max), LIMIT(page_max), LIMIT(regions_max),
        LIMIT(memory_limit), LIMIT(idempotency_max), LIMIT(links_max),
};
_Static_assert(sizeof(struct http_limits) == FERRY_ARRAY_SIZE(limits) * sizeof(uint64_t), "every limit is shown");

/* Limits that no flag changes. */
static const struct {
        const char *name;
        uint64_t value;
} fixed[] = {
        { "head_max", HEAD_MAX },
        { "head_ms", GATE_HEAD_US / 1000 },
        { "body_ms", CONNECTION_BODY_US / 1000 },
        { "read_ms", CONNECTION_READ_US / 1000 },
        { "rate_min", CONNECTION_RATE },
        { "answer_max", PAGE_ANSWER_MAX },
        { "claims_max", ENGINE_CLAIMS_MAX },
        { "content_ranges_max", CONTENT_RANGES_MAX },
        { "digest_max", RANGE_DIGEST_MAX },
        { "fetches_max", PEERS_FETCHES_MAX },
        { "lookups_max", REGISTRY_LOOKUPS_MAX },
        { "event_readers_max", EVENT_READERS_MAX },
        { "events_kept", EVENTS_KEPT },
};

void get_limits(struct http_request *request)
{
        const struct operation_limits *operations = request->server->config.operation_limits;
        const char *base = (const char *)&request->server->config.limits;
        struct ferry_json_writer writer = { 0 };

        ferry_json_begin_object(&writer);
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(limits); i++)
                ferry_json_add_uint(&writer, limits[i].name,
                                    *(const uint64_t *)(const void *)(base + limits[i].offset));
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(fixed); i++)
                ferry_json_add_uint(&writer, fixed[i].name, fixed[i].value);
        ferry_json_add_uint(&writer, "address_connections_max",
                            quota_share(request->server->config.limits.connections_max));
        ferry_json_add_uint(&writer, "mappings_max", request->server->config.engine->mappings_max);
        ferry_json_add_uint(&writer, "operations_max", operations->operations_max);
        ferry_json_add_uint(&writer, "pieces_max", operations->pieces_max);
        ferry_json_add_uint(&writer, "terminal_max", operations->terminal_max);
        ferry_json_add_uint(&writer, "gone_max", operations->gone_max);
        ferry_json_add_uint(&writer, "uses_max", operations->uses_max);
        ferry_json_add_uint(&writer, "readers_max", operations->uses_max); /* its older name */
        ferry_json_add_uint(&writer, "ttl_ms_default", operations->ttl_ms_default);
        ferry_json_add_uint(&writer, "ttl_ms_max", operations->ttl_ms_max);
        ferry_json_add_uint(&writer, "timeout_ms_max", operations->timeout_ms_max);
        ferry_json_add_uint(&writer, "stall_ms", operations->stall_ms);
        ferry_json_add_uint(&writer, "retention_ms", operations->retention_ms);
        ferry_json_end_object(&writer);
        request_answer_json(request, 200, &writer);
}
