/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "client_internal.h"
#include "decode.h"

/* clang-format off */
#define LIMIT(name) DECODE_FIELD(#name, DECODE_UINT, false, struct ferry_limits, name)
/* clang-format on */

static const struct decode_field limits_fields[] = {
        LIMIT(body_max),
        LIMIT(batch_max),
        LIMIT(ids_max),
        LIMIT(descriptors_max),
        LIMIT(wait_ms_max),
        LIMIT(waiters_max),
        LIMIT(connections_max),
        LIMIT(page_max),
        LIMIT(regions_max),
        LIMIT(memory_limit),
        LIMIT(idempotency_max),
        LIMIT(links_max),
        LIMIT(head_max),
        LIMIT(head_ms),
        LIMIT(body_ms),
        LIMIT(read_ms),
        LIMIT(rate_min),
        LIMIT(content_ranges_max),
        LIMIT(digest_max),
        LIMIT(fetches_max),
        LIMIT(event_readers_max),
        LIMIT(events_kept),
        LIMIT(address_connections_max),
        LIMIT(operations_max),
        LIMIT(terminal_max),
        LIMIT(gone_max),
        LIMIT(uses_max),
        LIMIT(ttl_ms_default),
        LIMIT(ttl_ms_max),
        LIMIT(timeout_ms_max),
        LIMIT(stall_ms),
        LIMIT(retention_ms),
        LIMIT(answer_max),
        LIMIT(claims_max),
        LIMIT(lookups_max),
        LIMIT(pieces_max),
        LIMIT(bodies_max),
        LIMIT(mappings_max),
};
_Static_assert(FERRY_ARRAY_SIZE(limits_fields) == offsetof(struct ferry_limits, json) / sizeof(uint64_t),
               "every field is decoded");

static int limits_decode(struct json_object *json, void *limits, const char **ret_field)
{
        return decode_object(json, limits_fields, FERRY_ARRAY_SIZE(limits_fields), limits, ret_field);
}

int ferry_get_limits(struct ferry *f, struct ferry_limits *ret_limits)
{
        struct request request = { .exchange = { .method = "GET", .path = "/v1/limits" } };
        struct ferry_limits limits = { 0 };
        int r = call_decode(f, &request, limits_decode, &limits, &limits.json);
        if (r == 0)
                *ret_limits = limits;
        return r;
}

void ferry_limits_clear(struct ferry_limits *limits)
{
        free(limits->json);
        *limits = (struct ferry_limits){ 0 };
}
