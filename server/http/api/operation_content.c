/* SPDX-License-Identifier: Apache-2.0 */
#include "api_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/json_write.h>
#include <ferry/status.h>

#include "base/util.h"
#include "move/content.h"
#include "operations/operations.h"

/*
 * GET, PUT and DELETE of /v1/operations/{id}/content: transfers over HTTP, of peers and of any client. A GET may be
 * parked until its bytes have arrived, and until a digest is made or the first bytes are copied; a PUT checks all that
 * it can before the first byte; a DELETE ends the client's transfer. The transfer itself is move/http's.
 *
 * Thread: that of the request's connection.
 */

/* ---- GET ---- */

static void answer_range(struct http_request *request);

/* For a readable that follows a read: waits until the range has arrived. true: parked or answered. */
static bool wait_until_there(struct http_request *request, uint64_t first, uint64_t size)
{
        struct operation_store *store = request->server->config.operations;
        uint64_t revision = 0, before;
        struct operation_view view;

        for (;;) {
                before = revision;
                if (operation_available(store, request->operation, first, size, &revision))
                        return false;
                if (revision == before) { /* not parked, yet unchanged */
                        operation_get_view(store, request->operation, &view);
                        if (view.deleted) /* while another transfer is still being ended */
                                request_problem(request, FERRY_E_GONE, OPERATION_GONE_DETAIL);
                        else if (!wait_abandoned(request, "the bytes had arrived"))
                                wait_refuse(request);
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

/*
 * The content is copied out of the operation's memory in pieces, so that a cancel does not wait for a slow client. With
 * pieces of 1 MiB one connection reaches 0.9 to 1.0 of the rate of bare libmicrohttpd; with 256 KiB, 0.75 to 0.9.
 */
static void answer_begun(struct http_request *request)
{
        struct operation_view view;
        struct http_range range;

        if (!content_copy_await(request, answer_begun))
                return;
        if (content_copy_error(request)) {
                content_refuse(request, content_copy_error(request));
                return;
        }
        if (!content_add_digests(request))
                return;
        operation_get_view(request->server->config.operations, request->operation, &view);
        if (range_asked(request, view.bytes_total, &range)) /* as before */
                range_answer(request, &range, content_copy_response(request, range.size));
}

/* Answers HEAD: the size of a readable; of a writable, how many bytes a client that resumes need not send again. */
static void answer_head(struct http_request *request, const struct operation_view *view)
{
        bool readable = view->kind == FERRY_READABLE;
        struct http_range range = { 0 };
        uint64_t stored;

        if (!readable) {
                stored = http_content_stored(request->server->config.operations, request->operation);
                request_header(request, "Upload-Offset", "%" PRIu64, stored);
                request_header(request, "Upload-Length", "%" PRIu64, view->bytes_total);
        }
        range.size = readable ? view->bytes_total : 0;
        range_answer(request, &range, content_copy_response(request, range.size));
}

static void answer_range(struct http_request *request)
{
        const struct http_headers *headers = &request->headers;
        struct operation_view view;
        struct http_range range;

        operation_get_view(request->server->config.operations, request->operation, &view);
        if (!range_asked(request, view.bytes_total, &range))
                return;
        bool of_range = headers_prefer(headers->want_content_digest, "xxh3") && range.size <= RANGE_DIGEST_MAX;
        bool whole = headers_prefer(headers->want_repr_digest, "sha-256") && range.total <= RANGE_DIGEST_MAX;
        if (wait_until_there(request, whole ? 0 : range.first, whole ? range.total : range.size) ||
            !content_open(request, range.first, range.size))
                return;
        content_begin(request, of_range, whole, range.size);
        answer_begun(request);
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

/* ---- PUT ---- */

/* The range of the body. false: answered. */
static bool find_place(struct http_request *request, uint64_t total, uint64_t *ret_first, uint64_t *ret_size)
{
        uint64_t first, end;

        if (!range_place(request, total, &first, &end))
                return false;
        const bool open = end == UINT64_MAX;
        *ret_first = first;
        *ret_size = !open ? end - first : request->chunked && first < total ? total - first : request->content_length;
        if (!open && end > total)
                range_refuse(request, "goes beyond the operation's bytes");
        else if (first >= total || request->content_length > total - first)
                request_problem(request, FERRY_E_TOO_LARGE, "The operation takes %" PRIu64 " bytes from this offset on",
                                first < total ? total - first : 0);
        else if (!*ret_size)
                request_problem(request, FERRY_E_INVALID_PARAMETER, "The request has no body");
        return !request->answered;
}

/* Called before the body: checks all that can be checked, so that a refused upload stores nothing. */
static void begin_upload(struct http_request *request)
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
        int error = content_copy_take(request, data, size);

        if (!error || error == -EINPROGRESS)
                return;
        content_refuse(request, error);
        content_copy_close(request, false);
}

/* Whether fewer bytes came than Content-Range names: without Content-Length only the end of the body tells. */
static bool is_short(struct http_request *request)
{
        uint64_t first, end;

        return request->headers.content_range && range_place(request, UINT64_MAX, &first, &end) &&
               request->connection->body_size < end - first;
}

void put_operation_content(struct http_request *request)
{
        if (request->phase == REQUEST_BEGIN) {
                begin_upload(request);
                return;
        }
        if (!content_finish(request, put_operation_content))
                return;
        /* Before the answer: a client that has the answer to the last range finds the operation complete. */
        content_copy_close(request, true);
        if (is_short(request))
                range_refuse(request, "names more bytes than the body has");
        else
                request_answer_empty(request, 204);
}

/* ---- DELETE ---- */

void delete_operation_content(struct http_request *request)
{
        struct ferry_json_writer writer = { 0 };
        struct operation_view view;
        bool complete;

        if (!content_find(request, &view) || !content_end(request, &complete))
                return;
        ferry_json_begin_object(&writer);
        ferry_json_add_string(&writer, "status", ferry_status_name(complete ? FERRY_COMPLETE : FERRY_CANCELLED));
        ferry_json_end_object(&writer);
        request_answer_json(request, 200, &writer);
}
