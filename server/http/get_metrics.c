/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/metrics.h"
#include "handlers.h"
#include "http_internal.h"
#include "request.h"

void get_metrics(struct http_request *request)
{
        size_t size;
        char *text = metrics_render(request->server->config.metrics, &size);

        if (text)
                request_answer_text(request, "text/plain; version=0.0.4; charset=utf-8", text, size);
        else
                request_problem(request, -ENOMEM, NULL);
}
