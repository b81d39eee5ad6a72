/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "wire.h"

/* The detail of a problem names what it is about: the field, the parameter, the resource, the limit. */

/* One request; its problem's detail has the text in it. */
static void detail_says(struct worker *w, int status, const char *method, const char *path, const char *body,
                        const char *text)
{
        const char *detail = json_text(call_json(w, status, method, path, body), "detail");

        if (!strstr(detail, text))
                fail_msg("%s %s: \"%s\" does not say \"%s\"", method, path, detail, text);
}

ON_WORKER(a_detail_names_its_subject)
{
        static const struct {
                const char *method, *path, *body;
                int status;
                const char *text;
        } rows[] = {
                { "POST", "/v1/regions", "{\"size\":1,\"colour\":2}", 400, "/colour: unknown field \"colour\"" },
                { "POST", "/v1/regions", "{}", 400, "/size: missing field \"size\"" },
                { "POST", "/v1/regions", "{\"size\":\"1\"}", 400, "/size: expected an integer" },
                { "POST", "/v1/operations", "{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"rgn_1\",\"x\":1}]}",
                  400, "/descriptors/0/x: unknown field \"x\"" },
                { "GET", "/v1/worker?colour=red", NULL, 400, "unknown query parameter \"colour\"" },
                { "GET", "/v1/regions?limit=x", NULL, 400, "query parameter \"limit\" must be" },
                { "GET", "/v1/regions/rgn_0000000000000001", NULL, 404, "\"rgn_0000000000000001\"" },
                { "GET", "/v1/operations/op_1", NULL, 404, "\"op_1\"" },
                { "GET", "/v1/nothing%c3%a4", NULL, 404, "\"/v1/nothing??\"" },
                { "POST", "/v1/worker", NULL, 405, "Allowed: GET, HEAD" },
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                detail_says(w, rows[i].status, rows[i].method, rows[i].path, rows[i].body, rows[i].text);
}

WITH_WORKER(a_limit_is_named_with_its_value)
{
        const char *flags[] = {
                "--max-operations", "1", "--max-regions", "1", "--max-waiters", "1", "--memory-limit", "1M", NULL
        };
        OPERATION operation;
        const char *path, *body;

        worker_start(w, "w", flags);
        detail_says(w, 507, "POST", "/v1/regions", "{\"size\":1048577}",
                    "1048577 bytes are needed, and --memory-limit is 1048576");
        const char *region = region_make(w, 1, 0);
        detail_says(w, 429, "POST", "/v1/regions", "{\"size\":1}", "--max-regions is 1");
        offer_make(w, FERRY_READABLE, region, &operation);
        body = operation_body("readable", region, "");
        detail_says(w, 429, "POST", "/v1/operations", body, "--max-operations is 1");

        path = text_format("/v1/operations/%s?wait_ms=%d", operation.id, WAIT_MS);
        int waiting = raw_ask(w, "GET", path);
        worker_await_metric(w, "ferry_http_waiters", 1);
        detail_says(w, 429, "GET", path, NULL, "--max-waiters is 1");
        wire_abort(waiting);
}
