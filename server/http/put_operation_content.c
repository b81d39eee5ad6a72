/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <ferry/error.h>

#include "base/util.h"
#include "connection.h"
#include "copying.h"
#include "handlers.h"
#include "octets.h"
#include "operation_content.h"
#include "operations/content.h"
#include "operations/operations.h"
#include "request.h"

/* The range of the body. false: answered. */
static bool find_place(struct http_request *request, uint64_t total, uint64_t *ret_first, uint64_t *ret_size)
{
        uint64_t first, end;

        if (!octets_place(request, total, &first, &end))
                return false;
        const bool open = end == UINT64_MAX;
        *ret_first = first;
        *ret_size = !open ? end - first : request->chunked && first < total ? total - first : request->content_length;
        if (!open && end > total)
                octets_refuse_range(request, "goes beyond the operation's bytes");
        else if (first >= total || request->content_length > total - first)
                request_problem(request, FERRY_E_TOO_LARGE, "The operation takes %" PRIu64 " bytes from this offset on",
                                first < total ? total - first : 0);
        else if (!*ret_size)
                request_problem(request, FERRY_E_INVALID_PARAMETER, "The request has no body");
        return !request->answered;
}

/* Called before the body: checks all that can be checked, so that a refused upload stores nothing. */
static void begin(struct http_request *request)
{
        struct operation_view view;
        uint64_t first, size;

        if (!content_find(request, &view))
                return;
        if (view.kind != FERRY_WRITABLE)
                request_problem(request, FERRY_E_KIND_MISMATCH, "The content of a readable operation can only be read");
        else if (find_place(request, view.bytes_total, &first, &size))
                (void)content_open(request, first, size);
}

void take_operation_content(struct http_request *request, const char *data, size_t size)
{
        int error = copying_take(request, data, size);

        if (!error || error == -EINPROGRESS)
                return;
        content_refuse(request, error);
        copying_close(request, false);
}

/* Whether fewer bytes came than Content-Range names: without Content-Length only the end of the body tells. */
static bool is_short(struct http_request *request)
{
        uint64_t first, end;

        return request->headers.content_range && octets_place(request, UINT64_MAX, &first, &end) &&
               request->connection->body_size < end - first;
}

void put_operation_content(struct http_request *request)
{
        if (request->phase == REQUEST_BEGIN) {
                begin(request);
                return;
        }
        if (!content_finish(request, put_operation_content))
                return;
        /* Before the answer: a client that has the answer to the last range finds the operation complete. */
        copying_close(request, true);
        if (is_short(request))
                octets_refuse_range(request, "names more bytes than the body has");
        else
                request_answer_empty(request, 204);
}
