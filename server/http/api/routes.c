/* SPDX-License-Identifier: Apache-2.0 */
#include "http_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/util.h"

#define P(name) (1u << HTTP_PARAMETER_##name)

/* Searched from the start: the busiest routes come first, and a path without {id} before one whose {id} it could be. */
const struct http_route http_routes[] = {
        { "GET", "/v1/operations", "listOperations", HTTP_AUTH_FULL, HTTP_BODY_NONE, list_operations,
          P(LIMIT) | P(AFTER) | P(KIND) | P(STATUS) | P(DONE) | P(REGION) | P(LABEL) | P(ORDER) | P(IDS) | P(WAIT_MS) |
                  P(WAIT_FOR) },
        { "POST", "/v1/operations", "createOperation", HTTP_AUTH_FULL, HTTP_BODY_JSON, create_operation,
          P(INCLUDE) | P(WAIT_MS) },
        { "POST", "/v1/operations/batch", "createOperations", HTTP_AUTH_FULL, HTTP_BODY_JSON, create_operations,
          P(INCLUDE) | P(WAIT_MS) },
        { "POST", "/v1/operations/decline", "declineRemote", HTTP_AUTH_FULL, HTTP_BODY_JSON, decline_remote, 0,
          .while_draining = true },
        { "POST", "/v1/operations/renew", "renewRemote", HTTP_AUTH_FULL, HTTP_BODY_JSON, renew_remote, 0 },
        { "GET", "/v1/operations/{id}", "getOperation", HTTP_AUTH_FULL, HTTP_BODY_NONE, get_operation,
          P(WAIT_MS) | P(REVISION) },
        { "DELETE", "/v1/operations/{id}", "deleteOperation", HTTP_AUTH_FULL, HTTP_BODY_NONE, delete_operation, 0 },
        { "POST", "/v1/operations/{id}/cancel", "cancelOperation", HTTP_AUTH_FULL, HTTP_BODY_NONE, cancel_operation, 0,
          .while_draining = true },
        { "POST", "/v1/operations/{id}/renew", "renewOperation", HTTP_AUTH_FULL_OR_KEY, HTTP_BODY_OPTIONAL_JSON,
          renew_operation, 0 },
        { "POST", "/v1/operations/{id}/decline", "declineOperation", HTTP_AUTH_KEY, HTTP_BODY_NONE, decline_operation,
          0, .while_draining = true },
        { "GET", "/v1/operations/{id}/metadata", "getOperationMetadata", HTTP_AUTH_PEER, HTTP_BODY_NONE,
          get_operation_metadata, 0 },
        { "GET", "/v1/operations/{id}/content", "getOperationContent", HTTP_AUTH_KEY, HTTP_BODY_NONE,
          get_operation_content, 0 },
        { "PUT", "/v1/operations/{id}/content", "putOperationContent", HTTP_AUTH_KEY, HTTP_BODY_STREAM,
          put_operation_content, P(OFFSET), .take = take_operation_content, .while_draining = true },
        { "DELETE", "/v1/operations/{id}/content", "deleteOperationContent", HTTP_AUTH_KEY, HTTP_BODY_NONE,
          delete_operation_content, 0 },
        { "GET", "/", "getRoot", HTTP_AUTH_NONE, HTTP_BODY_NONE, get_root, 0 },
        { "GET", "/v1/worker", "getWorker", HTTP_AUTH_PEER, HTTP_BODY_NONE, get_worker, 0 },
        { "GET", "/v1/devices", "getDevices", HTTP_AUTH_FULL, HTTP_BODY_NONE, get_devices, 0 },
        { "GET", "/v1/limits", "getLimits", HTTP_AUTH_FULL, HTTP_BODY_NONE, get_limits, 0 },
        { "GET", "/v1/throughput", "getThroughput", HTTP_AUTH_FULL, HTTP_BODY_NONE, get_throughput, 0 },
        { "GET", "/v1/regions", "listRegions", HTTP_AUTH_FULL, HTTP_BODY_NONE, list_regions, P(LIMIT) | P(AFTER) },
        { "POST", "/v1/regions", "createRegion", HTTP_AUTH_FULL, HTTP_BODY_JSON, create_region, 0 },
        { "GET", "/v1/regions/{id}", "getRegion", HTTP_AUTH_FULL, HTTP_BODY_NONE, get_region, P(WAIT_MS) },
        { "DELETE", "/v1/regions/{id}", "deleteRegion", HTTP_AUTH_FULL, HTTP_BODY_NONE, delete_region, 0 },
        { "GET", "/v1/regions/{id}/content", "getRegionContent", HTTP_AUTH_FULL, HTTP_BODY_NONE, get_region_content,
          0 },
        { "PUT", "/v1/regions/{id}/content", "putRegionContent", HTTP_AUTH_FULL, HTTP_BODY_STREAM, put_region_content,
          P(OFFSET), .take = take_region_content },
        { "GET", "/v1/peers", "listPeers", HTTP_AUTH_FULL, HTTP_BODY_NONE, list_peers,
          P(LIMIT) | P(AFTER) | P(REGISTRY) | P(WAIT_MS) | P(REVISION) },
        { "GET", "/v1/events", "listEvents", HTTP_AUTH_FULL, HTTP_BODY_NONE, list_events,
          P(AFTER_EVENT) | P(KIND) | P(LABEL) | P(LIMIT) | P(TYPE) | P(WAIT_MS) },
        { "POST", "/v1/peers", "createPeer", HTTP_AUTH_FULL, HTTP_BODY_JSON, create_peer, 0 },
        { "GET", "/livez", "getLivez", HTTP_AUTH_NONE, HTTP_BODY_NONE, get_livez, 0 },
        { "GET", "/readyz", "getReadyz", HTTP_AUTH_NONE, HTTP_BODY_NONE, get_readyz, 0 },
        { "GET", "/metrics", "getMetrics", HTTP_AUTH_METRICS, HTTP_BODY_NONE, get_metrics, 0 },
        { "GET", "/openapi.yaml", "getOpenapi", HTTP_AUTH_NONE, HTTP_BODY_NONE, get_asset, 0,
          .asset = &asset_openapi_yaml },
        { "GET", "/openapi.json", "getOpenapiJson", HTTP_AUTH_NONE, HTTP_BODY_NONE, get_asset, 0,
          .asset = &asset_openapi_json },
        { "GET", "/docs", "getDocs", HTTP_AUTH_NONE, HTTP_BODY_NONE, get_asset, 0, .asset = &asset_docs },
        { "GET", "/docs.js", "getDocsScript", HTTP_AUTH_NONE, HTTP_BODY_NONE, get_asset, 0,
          .asset = &asset_docs_script },
        { "GET", "/page.js", "getPageScript", HTTP_AUTH_NONE, HTTP_BODY_NONE, get_asset, 0,
          .asset = &asset_page_script },
        { "GET", "/page.css", "getPageStyle", HTTP_AUTH_NONE, HTTP_BODY_NONE, get_asset, 0,
          .asset = &asset_page_style },
};
const size_t http_routes_count = FERRY_ARRAY_SIZE(http_routes);

/* Whether a path matches a route's. *ret_id: the text in place of {id}, not terminated; NULL = the route has none. */
static bool path_matches(const char *form, const char *path, const char **ret_id, size_t *ret_length)
{
        size_t same = 0, length;

        *ret_id = NULL;
        *ret_length = 0;
        while (form[same] && form[same] != '{' && form[same] == path[same])
                same++;
        if (form[same] != '{')
                return !form[same] && !path[same];
        length = strcspn(path + same, "/");
        if (!length || strcmp(form + same + strlen("{id}"), path + same + length) != 0)
                return false;
        *ret_id = path + same;
        *ret_length = length;
        return true;
}

/* The same in a search. *literal: whether an earlier row has this very path, so that no part of it is an id. */
static bool row_matches(const struct http_route *row, const char *path, bool *literal, const char **ret_id,
                        size_t *ret_length)
{
        if (!path_matches(row->path, path, ret_id, ret_length) || (*literal && *ret_id))
                return false;
        *literal |= !*ret_id;
        return true;
}

const struct http_route *route_find(const char *method, const char *path, char id[FERRY_ID_TEXT_SIZE])
{
        const char *start;
        bool literal = false;
        size_t length;

        id[0] = '\0';
        if (!strcmp(method, "HEAD"))
                method = "GET";
        for (size_t i = 0; i < http_routes_count; i++) {
                if (!row_matches(&http_routes[i], path, &literal, &start, &length) ||
                    strcmp(method, http_routes[i].method) != 0)
                        continue;
                if (length < FERRY_ID_TEXT_SIZE) {
                        if (length)
                                memcpy(id, start, length);
                        id[length] = '\0';
                }
                return &http_routes[i];
        }
        return NULL;
}

bool route_allow(const char *path, char *allow, size_t size)
{
        const char *start;
        bool literal = false;
        size_t length, used = 0;

        for (size_t i = 0; i < http_routes_count && used < size; i++) {
                if (!row_matches(&http_routes[i], path, &literal, &start, &length))
                        continue;
                used += (size_t)snprintf(allow + used, size - used, "%s%s%s", used ? ", " : "", http_routes[i].method,
                                         strcmp(http_routes[i].method, "GET") ? "" : ", HEAD");
        }
        return used > 0;
}
