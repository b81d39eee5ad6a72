/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <microhttpd.h>
#include <string.h>

#include <ferry/error.h>

#include "handlers.h"
#include "http_internal.h"
#include "operation_content.h"
#include "operations/content.h"
#include "operations/operations.h"
#include "range.h"
#include "request.h"
#include "wait.h"

/*
 * The content is copied out of the operation's memory in pieces, so that a cancel does not wait for a slow client. With
 * pieces of 1 MiB one connection reaches 0.9 to 1.0 of the rate of bare libmicrohttpd; with 256 KiB, 0.75 to 0.9.
 */
enum { PIECE = 1 << 20 };

static ssize_t read_piece(void *context, uint64_t position, char *to, size_t size)
{
        ssize_t n = operation_content_read(context, to, size);

        (void)position; /* reads are sequential: the response is used once */
        return n > 0 ? n : MHD_CONTENT_READER_END_WITH_ERROR;
}

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
                        request_problem(request, FERRY_E_DRAINING, "The operation ends; its status says how");
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

static void answer(struct http_request *request, uint64_t first, uint64_t last, uint64_t total, bool part)
{
        bool whole = headers_prefer(request->headers.want_repr_digest, "sha-256") && total <= RANGE_DIGEST_MAX;
        const uint64_t size = last - first + 1;
        struct MHD_Response *response;

        if (!content_check(request) || wait_until_there(request, whole ? 0 : first, whole ? total : size))
                return;
        if (!content_open(request, first, size))
                return;
        if (headers_prefer(request->headers.want_content_digest, "xxh3") && size <= RANGE_DIGEST_MAX &&
            !content_add_digest(request))
                return;
        if (whole && !content_add_repr_digest(request))
                return;
        response =
                MHD_create_response_from_callback(size, size < PIECE ? size : PIECE, read_piece, request->state, NULL);
        if (response) {
                MHD_add_response_header(response, "Content-Type", "application/octet-stream");
                MHD_add_response_header(response, "Cache-Control", "no-store");
                MHD_add_response_header(response, "Accept-Ranges", "bytes");
        }
        if (part)
                request_header(request, "Content-Range", "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, first, last, total);
        request_answer(request, part ? 206 : 200, response);
}

/* Answers HEAD: the size of a readable; of a writable, how many bytes a client that resumes need not send again. */
static void answer_head(struct http_request *request, const struct operation_view *view)
{
        bool readable = view->kind == FERRY_READABLE;
        struct MHD_Response *response =
                MHD_create_response_from_callback(readable ? view->bytes_total : 0, 1, read_piece, NULL, NULL);
        uint64_t stored;

        if (!content_check(request)) {
                if (response)
                        MHD_destroy_response(response);
                return;
        }
        if (response) {
                MHD_add_response_header(response, "Content-Type", "application/octet-stream");
                MHD_add_response_header(response, "Cache-Control", "no-store");
                MHD_add_response_header(response, "Accept-Ranges", "bytes");
        }
        if (!readable) {
                stored = operation_content_stored(request->server->config.operations, request->operation);
                request_header(request, "Upload-Offset", "%" PRIu64, stored);
                request_header(request, "Upload-Length", "%" PRIu64, view->bytes_total);
        }
        request_answer(request, 200, response);
}

static void answer_range(struct http_request *request)
{
        struct operation_view view;
        uint64_t first = 0, last = 0;

        operation_get_view(request->server->config.operations, request->operation, &view);
        /* Content has no ETag, so If-Range never matches. */
        switch (request->headers.if_range ? RANGE_WHOLE
                                          : range_parse(request->headers.range, view.bytes_total, &first, &last)) {
        case RANGE_WHOLE:
                answer(request, 0, view.bytes_total - 1, view.bytes_total, false);
                break;
        case RANGE_PART:
                answer(request, first, last, view.bytes_total, true);
                break;
        case RANGE_UNSATISFIABLE:
                request_header(request, "Content-Range", "bytes */%" PRIu64, view.bytes_total);
                request_problem(request, FERRY_E_RANGE_NOT_SATISFIABLE, "The operation has %" PRIu64 " bytes",
                                view.bytes_total);
                break;
        }
}

void get_operation_content(struct http_request *request)
{
        struct operation_view view;

        if (!content_find(request, &view))
                return;
        if (!strcmp(request->method, "HEAD"))
                answer_head(request, &view);
        else if (view.kind != FERRY_READABLE)
                request_problem(request, FERRY_E_KIND_MISMATCH, "The content of a writable operation is PUT, not read");
        else
                answer_range(request);
}
