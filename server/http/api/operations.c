/* SPDX-License-Identifier: Apache-2.0 */
#include "api_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/json_write.h>

#include "base/util.h"
#include "operations/operations.h"

/*
 * One operation: get, metadata, renew, cancel, delete; and lists of them, by ids or page by page. Renewing is for two:
 * the owner, by the full token, and a holder of the metadata, by its key, who learns no more than the new expiry.
 *
 * Thread: that of the request's connection.
 */

/* ---- one ---- */

static void answer_now(struct http_request *request)
{
        request_answer_operation(request, 200);
}

/* Saves parking the request, which would find the same. Every revision is above 0. */
static bool already_past(const struct http_request *request)
{
        uint64_t revision = query_value(&request->query, HTTP_PARAMETER_REVISION);

        return (query_has(&request->query, HTTP_PARAMETER_REVISION) && !revision) ||
               operation_is_past(request->server->config.operations, request->operation, revision);
}

void get_operation(struct http_request *request)
{
        if (!request_find_operation(request))
                return;
        uint64_t wait_ms = request_wait_ms(request);
        if (!wait_ms || already_past(request)) {
                answer_now(request);
                return;
        }
        wait_or_answer(request, query_value(&request->query, HTTP_PARAMETER_REVISION), wait_ms, answer_now);
}

void get_operation_metadata(struct http_request *request)
{
        struct ferry_json_writer writer = { 0 };

        if (!request_find_operation(request))
                return;
        int error = metadata_json_write(&writer, request, request->operation, NULL);
        switch (error) {
        case 0:
                request_answer_json(request, 200, &writer);
                break;
        case FERRY_E_NOT_PASSIVE:
                request_problem(request, error, "Ask the worker that offers the memory");
                break;
        case FERRY_E_GONE:
                request_problem(request, error, "The operation has ended");
                break;
        default:
                request_problem(request, error, NULL);
        }
}

static void refuse_renewal(struct http_request *request, int error)
{
        switch (error) {
        case FERRY_E_NOT_PASSIVE:
                request_problem(request, error, "Only readable and writable operations expire");
                break;
        case FERRY_E_GONE:
                request_problem(request, error, "The operation has ended");
                break;
        case FERRY_E_FORBIDDEN:
                request_problem(request, error,
                                "Only its owner can renew this operation: it was created without renew_max_ms");
                break;
        default:
                request_problem(request, error, "The time to live cannot be set anew");
        }
}

static bool decode_ttl(struct http_request *request, uint64_t *ttl_ms)
{
        const uint64_t max = request->server->config.operation_limits->ttl_ms_max;
        const struct ferry_json_field field = { "ttl_ms", FERRY_JSON_UINT, false, 0, 1, max, NULL };

        return !request->body.size || request_decode(request, &field, 1, ttl_ms);
}

/* The holder of the key learns no more of the operation than that it is kept. */
static void renew_for_holder(struct http_request *request)
{
        struct operation_store *store = request->server->config.operations;
        struct ferry_json_writer writer = { 0 };
        struct operation_view view;
        uint64_t ttl_ms = 0, expires_unix_ms;
        enum ferry_status status;

        if (!content_find(request, &view) || !decode_ttl(request, &ttl_ms))
                return;
        int error = operation_keep(store, request->operation, ttl_ms, &status, &expires_unix_ms);
        if (error) {
                refuse_renewal(request, error);
                return;
        }
        operation_get_view(store, request->operation, &view);
        (void)request_etag(request, view.revision);
        operation_json_offer(&writer, status, expires_unix_ms);
        request_answer_json(request, 200, &writer);
}

static void renew_for_owner(struct http_request *request)
{
        uint64_t ttl_ms = 0;

        guard_trust(request);
        if (!request_check_operation(request) || !decode_ttl(request, &ttl_ms))
                return;
        int error = operation_renew(request->server->config.operations, request->operation, ttl_ms);
        if (error)
                refuse_renewal(request, error);
        else
                request_answer_operation(request, 200);
}

void renew_operation(struct http_request *request)
{
        if (content_shows_key(request))
                renew_for_holder(request);
        else if (request_look_up_operation(request))
                renew_for_owner(request);
}

void cancel_operation(struct http_request *request)
{
        struct operation *operation = request_find_operation(request);

        if (!operation)
                return;
        operation_cancel(request->server->config.operations, operation);
        request_answer_operation(request, 200);
}

void delete_operation(struct http_request *request)
{
        struct operation *operation = request_find_operation(request);

        if (!operation)
                return;
        operation_delete(request->server->config.operations, operation);
        request_answer_empty(request, 204);
}

#define FIND_PARAMETERS (1u << HTTP_PARAMETER_IDS | 1u << HTTP_PARAMETER_WAIT_MS | 1u << HTTP_PARAMETER_WAIT_FOR)

/* ---- by ids: the set is the request's state ---- */

static void answer_found(struct http_request *request)
{
        struct ferry_json_writer writer = { 0 };

        ferry_json_begin_object(&writer);
        ferry_json_key(&writer, "operations");
        operation_set_write(request->state, request, false, PAGE_ANSWER_MAX, &writer);
        ferry_json_end_object(&writer);
        request_answer_json(request, 200, &writer);
}

static void wait_for_found(struct http_request *request, uint64_t wait_ms)
{
        const bool any = query_value(&request->query, HTTP_PARAMETER_WAIT_FOR) == HTTP_WAIT_FOR_ANY;

        wait_flag_or_answer(request, operation_set_wait(request->state, any), wait_ms, answer_found);
}

static size_t count_ids(const char *ids)
{
        size_t n = 1;

        while ((ids = strchr(ids, ',')) != NULL) {
                ids++;
                n++;
        }
        return n;
}

static void find_ids(struct operation_set *set, char *ids)
{
        char *id;

        for (size_t i = 0; (id = strsep(&ids, ",")); i++)
                operation_set_find(set, i, id);
}

/* Fills the set in the order of the request. An id that names nothing becomes a problem among the results. */
static void find_operations(struct http_request *request)
{
        const char *text = query_text(&request->query, HTTP_PARAMETER_IDS);
        const uint64_t max = request->server->config.limits.ids_max;
        const size_t n = count_ids(text);
        FERRY_CLEANUP(cleanup_free) char *ids = strdup(text);
        uint64_t wait_ms;
        int error;

        if (request->query.present & ~FIND_PARAMETERS) {
                request_problem(request, FERRY_E_INVALID_PARAMETER,
                                "The query parameter ids can be combined only with wait_ms and wait_for");
                return;
        }
        if (n > max) {
                request_problem(request, FERRY_E_INVALID_PARAMETER, "The query parameter ids takes at most %llu ids",
                                (unsigned long long)max);
                return;
        }
        error = ids ? operation_set_begin(request, n) : -ENOMEM;
        if (error) {
                request_problem(request, error, NULL);
                return;
        }
        find_ids(request->state, ids);
        wait_ms = request_wait_ms(request);
        if (wait_ms)
                wait_for_found(request, wait_ms);
        else
                answer_found(request);
}

/* ---- pages ---- */

/* The value of a filter; -1 = any. */
static int filter(const struct http_request *request, enum http_parameter parameter)
{
        return query_has(&request->query, parameter) ? (int)query_value(&request->query, parameter) : -1;
}

static void list_page(struct http_request *request)
{
        struct operation_store *store = request->server->config.operations;
        size_t limit = page_limit(request);
        uint64_t cursor = page_cursor(request);
        FERRY_CLEANUP(cleanup_free) struct operation **page = calloc(limit, sizeof(struct operation *));
        struct ferry_json_writer writer = { 0 };
        struct operation_view view;

        if (!page) {
                request_problem(request, -ENOMEM, NULL);
                return;
        }
        const struct operation_filter wanted = {
                .kind = filter(request, HTTP_PARAMETER_KIND),
                .status = filter(request, HTTP_PARAMETER_STATUS),
                .done = filter(request, HTTP_PARAMETER_DONE),
                .region = query_value(&request->query, HTTP_PARAMETER_REGION),
                .label = query_text(&request->query, HTTP_PARAMETER_LABEL),
                .newest = query_value(&request->query, HTTP_PARAMETER_ORDER) % 2, /* or its older name */
        };
        size_t n = operation_page(store, &wanted, &cursor, page, limit);
        page_begin(&writer, "operations");
        for (size_t i = 0; i < n; i++) {
                if (writer.size < PAGE_ANSWER_MAX) {
                        operation_get_view(store, page[i], &view);
                        operation_json_write(&writer, &view);
                        if (writer.size >= PAGE_ANSWER_MAX && i + 1 < n)
                                cursor = operation_cursor(page[i]);
                }
                operation_unref(page[i]);
        }
        page_end(&writer, request, cursor);
        request_answer_json(request, 200, &writer);
}

void list_operations(struct http_request *request)
{
        if (query_has(&request->query, HTTP_PARAMETER_IDS))
                find_operations(request);
        else if (request->query.present & FIND_PARAMETERS)
                request_problem(request, FERRY_E_INVALID_PARAMETER,
                                "The query parameters wait_ms and wait_for need ids");
        else
                list_page(request);
}
