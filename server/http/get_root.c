/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/json_write.h>

#include "asset.h"
#include "base/util.h"
#include "handlers.h"
#include "http_internal.h"
#include "request.h"

static const struct {
        const char *name, *path;
} links[] = {
        { "worker", "/v1/worker" },   { "devices", "/v1/devices" },
        { "limits", "/v1/limits" },   { "throughput", "/v1/throughput" },
        { "regions", "/v1/regions" }, { "operations", "/v1/operations" },
        { "peers", "/v1/peers" },     { "events", "/v1/events" },
        { "livez", "/livez" },        { "readyz", "/readyz" },
        { "metrics", "/metrics" },    { "openapi", "/openapi.yaml" },
        { "docs", "/docs" },
};

void get_root(struct http_request *request)
{
        struct ferry_json_writer writer = { 0 };
        const char *accept = request->headers.accept;

        if (headers_accept(accept, "text/html") > headers_accept(accept, "application/json")) {
                asset_answer(request, &asset_page);
                return;
        }
        request_header_text(request, "Vary", "Accept", "");
        ferry_json_begin_object(&writer);
        ferry_json_add_string(&writer, "name", request->server->config.worker_name);
        ferry_json_add_string(&writer, "version", request->server->config.version);
        ferry_json_open_object(&writer, "links");
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(links); i++)
                ferry_json_add_string(&writer, links[i].name, links[i].path);
        ferry_json_end_object(&writer);
        ferry_json_end_object(&writer);
        request_answer_json(request, 200, &writer);
}
