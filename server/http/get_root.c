/* SPDX-License-Identifier: Apache-2.0 */
#include "base/util.h"
#include "handlers.h"
#include "http_internal.h"
#include "json_build.h"
#include "request.h"

static const struct {
        const char *name, *path;
} links[] = {
        { "worker", "/v1/worker" },   { "devices", "/v1/devices" },       { "limits", "/v1/limits" },
        { "regions", "/v1/regions" }, { "operations", "/v1/operations" }, { "livez", "/livez" },
        { "readyz", "/readyz" },      { "metrics", "/metrics" },          { "openapi", "/openapi.yaml" },
};

void get_root(struct http_request *request)
{
        struct json_object *root = json_object_new_object(), *list = json_object_new_object();
        bool ok = true;

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(links); i++)
                ok = ok && json_add_string(list, links[i].name, links[i].path);
        ok = ok && json_add_string(root, "name", request->server->config.worker_name) &&
             json_add_string(root, "version", request->server->config.version);
        ok = json_add(root, "links", list) && ok;
        request_answer_json(request, 200, json_finish(root, ok));
}
