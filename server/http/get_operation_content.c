/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include <ferry/error.h>

#include "copying.h"
#include "handlers.h"
#include "http_internal.h"
#include "octets.h"
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
        struct operation_view view;

        for (;;) {
                before = revision;
                if (operation_content_available(store, request->operation, first, size, &revision))
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
        struct octets octets;

        if (!copying_await(request, answer_begun))
                return;
        if (copying_error(request)) {
                content_refuse(request, copying_error(request));
                return;
        }
        if (!content_add_digests(request))
                return;
        operation_get_view(request->server->config.operations, request->operation, &view);
        if (octets_asked(request, view.bytes_total, &octets)) /* as before */
                octets_answer(request, &octets, copying_response(request, octets.size));
}

/* Answers HEAD: the size of a readable; of a writable, how many bytes a client that resumes need not send again. */
static void answer_head(struct http_request *request, const struct operation_view *view)
{
        bool readable = view->kind == FERRY_READABLE;
        struct octets octets = { 0 };
        uint64_t stored;

        if (!readable) {
                stored = operation_content_stored(request->server->config.operations, request->operation);
                request_header(request, "Upload-Offset", "%" PRIu64, stored);
                request_header(request, "Upload-Length", "%" PRIu64, view->bytes_total);
        }
        octets.size = readable ? view->bytes_total : 0;
        octets_answer(request, &octets, copying_response(request, octets.size));
}

static void answer_range(struct http_request *request)
{
        const struct http_headers *headers = &request->headers;
        struct operation_view view;
        struct octets octets;

        operation_get_view(request->server->config.operations, request->operation, &view);
        if (!octets_asked(request, view.bytes_total, &octets))
                return;
        bool part = headers_prefer(headers->want_content_digest, "xxh3") && octets.size <= RANGE_DIGEST_MAX;
        bool whole = headers_prefer(headers->want_repr_digest, "sha-256") && octets.total <= RANGE_DIGEST_MAX;
        if (wait_until_there(request, whole ? 0 : octets.first, whole ? octets.total : octets.size) ||
            !content_open(request, octets.first, octets.size))
                return;
        content_begin(request, part, whole, octets.size);
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
