/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <microhttpd.h>
#include <string.h>

#include <ferry/error.h>

#include "copying.h"
#include "handlers.h"
#include "http_internal.h"
#include "operation_content.h"
#include "operations/content.h"
#include "operations/operations.h"
#include "range.h"
#include "request.h"
#include "wait.h"

static void answer_range(struct http_request *request);

/* For a readable that follows a read: waits until the range has arrived. true: parked or answered. */
static bool wait_until_there(struct http_request *request, uint64_t first, uint64_t size)
{
        struct operation_store *store = request->server->config.operations;
        uint64_t revision = 0, before;

        for (;;) {
                before = revision;
                if (operation_content_available(store, request->operation, first, size, &revision))
                        return false;
                if (revision == before) { /* not parked, yet unchanged: it is done, or its client or the server ends */
                        request_problem(request, FERRY_E_DRAINING, "The operation is ending; its status will say how");
                        return true;
                }
                switch (wait_park(request, revision, request->server->config.limits.wait_ms_max, answer_range)) {
                case WAIT_PARKED:
                        return true;
                case WAIT_FULL:
                        wait_refuse(request);
                        return true;
                case WAIT_NEEDLESS:
                        break;
                }
        }
}

static struct MHD_Response *make_response(struct http_request *request, uint64_t size)
{
        struct MHD_Response *response = copying_response(request, size);

        if (response) {
                MHD_add_response_header(response, "Content-Type", "application/octet-stream");
                MHD_add_response_header(response, "Cache-Control", "no-store");
                MHD_add_response_header(response, "Accept-Ranges", "bytes");
        }
        return response;
}

/* The range, which range_parse has found before. */
static bool find_range(const struct http_request *request, uint64_t total, uint64_t *ret_first, uint64_t *ret_size)
{
        uint64_t first, last;

        *ret_first = 0;
        *ret_size = total;
        if (request->headers.if_range || range_parse(request->headers.range, total, &first, &last) != RANGE_PART)
                return false;
        *ret_first = first;
        *ret_size = last - first + 1;
        return true;
}

/*
 * The content is copied out of the operation's memory in pieces, so that a cancel does not wait for a slow client. With
 * pieces of 1 MiB one connection reaches 0.9 to 1.0 of the rate of bare libmicrohttpd; with 256 KiB, 0.75 to 0.9.
 */
static void answer_begun(struct http_request *request)
{
        struct operation_view view;
        uint64_t first, size;

        if (!copying_await(request, answer_begun))
                return;
        if (copying_error(request)) {
                content_refuse(request, copying_error(request));
                return;
        }
        if (!content_add_digests(request))
                return;
        operation_get_view(request->server->config.operations, request->operation, &view);
        bool part = find_range(request, view.bytes_total, &first, &size);
        if (part)
                request_header(request, "Content-Range", "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, first,
                               first + size - 1, view.bytes_total);
        request_answer(request, part ? 206 : 200, make_response(request, size));
}

static void answer(struct http_request *request, uint64_t total)
{
        bool whole = headers_prefer(request->headers.want_repr_digest, "sha-256") && total <= RANGE_DIGEST_MAX;
        uint64_t first, size;

        (void)find_range(request, total, &first, &size);
        if (wait_until_there(request, whole ? 0 : first, whole ? total : size) || !content_open(request, first, size))
                return;
        content_begin(request, headers_prefer(request->headers.want_content_digest, "xxh3") && size <= RANGE_DIGEST_MAX,
                      whole, size);
        answer_begun(request);
}

/* Answers HEAD: the size of a readable; of a writable, how many bytes a client that resumes need not send again. */
static void answer_head(struct http_request *request, const struct operation_view *view)
{
        bool readable = view->kind == FERRY_READABLE;
        uint64_t stored;

        if (!readable) {
                stored = operation_content_stored(request->server->config.operations, request->operation);
                request_header(request, "Upload-Offset", "%" PRIu64, stored);
                request_header(request, "Upload-Length", "%" PRIu64, view->bytes_total);
        }
        request_answer(request, 200, make_response(request, readable ? view->bytes_total : 0));
}

static void answer_range(struct http_request *request)
{
        struct operation_view view;
        uint64_t first, last;

        operation_get_view(request->server->config.operations, request->operation, &view);
        /* Content has no ETag, so If-Range never matches. */
        if (request->headers.if_range ||
            range_parse(request->headers.range, view.bytes_total, &first, &last) != RANGE_UNSATISFIABLE) {
                answer(request, view.bytes_total);
                return;
        }
        request_header(request, "Content-Range", "bytes */%" PRIu64, view.bytes_total);
        request_problem(request, FERRY_E_RANGE_NOT_SATISFIABLE, "The operation has %" PRIu64 " bytes",
                        view.bytes_total);
}

void get_operation_content(struct http_request *request)
{
        struct operation_view view;

        if (!content_find(request, &view))
                return;
        if (!strcmp(request->method, "HEAD"))
                answer_head(request, &view);
        else if (view.kind != FERRY_READABLE)
                request_problem(request, FERRY_E_KIND_MISMATCH,
                                "The content of a writable operation can only be written");
        else
                answer_range(request);
}
