/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include <ferry/error.h>
#include <ferry/json_write.h>

#include "base/util.h"
#include "handlers.h"
#include "http_internal.h"
#include "page.h"
#include "peer_json.h"
#include "request.h"
#include "transfer/engine.h"

static void list_connected(struct http_request *request)
{
        const struct http_connector *connector = &request->server->config.connector;
        size_t limit = page_limit(request);
        uint64_t cursor = page_cursor(request);
        FERRY_CLEANUP(cleanup_free) struct engine_peer_view *page = calloc(limit, sizeof(*page));
        struct ferry_json_writer writer = { 0 };
        ssize_t n = page ? connector->peers_page(connector->context, &cursor, page, limit) : -ENOMEM;

        if (n < 0) {
                request_problem(request, n == -ESHUTDOWN ? FERRY_E_DRAINING : (int)n, NULL);
                return;
        }
        page_begin(&writer, "peers");
        for (ssize_t i = 0; i < n; i++)
                peer_json_write(&writer, &page[i]);
        page_end(&writer, request, cursor);
        request_answer_json(request, 200, &writer);
}

void list_peers(struct http_request *request)
{
        if (query_has(&request->query, HTTP_PARAMETER_REGISTRY))
                list_registered(request);
        else if (query_has(&request->query, HTTP_PARAMETER_WAIT_MS) ||
                 query_has(&request->query, HTTP_PARAMETER_REVISION))
                request_problem(request, FERRY_E_INVALID_PARAMETER, "wait_ms and revision require registry=1");
        else
                list_connected(request);
}
