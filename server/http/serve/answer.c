/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <microhttpd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <ferry/encoding.h>
#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/json_write.h>

#include "base/log.h"
#include "base/util.h"
#include "connection.h"
#include "request.h"

/* Reserves room for a header's value of size bytes, NUL included. NULL: no room is left. */
static char *further_header(struct http_request *request, const char *name, size_t size)
{
        char *value = request->headers_text + request->n_headers_text;

        if (request->n_headers == REQUEST_HEADERS_MAX || sizeof(request->headers_text) - request->n_headers_text < size)
                return NULL;
        request->answer_headers[request->n_headers].name = name;
        request->answer_headers[request->n_headers].value = value;
        request->n_headers++;
        request->n_headers_text += (uint32_t)size;
        return value;
}

/* Without printf, which would cost as much as writing the whole body; nearly all answers have an ETag. */
const char *request_etag(struct http_request *request, uint64_t revision)
{
        char digits[FERRY_UINT_TEXT_SIZE];
        size_t n = ferry_uint_format(revision, digits);
        char *value = further_header(request, "ETag", n + sizeof("\"r\""));

        if (!value)
                return "";
        stpcpy(stpcpy(stpcpy(value, "\"r"), digits), "\"");
        return value;
}

void request_header_text(struct http_request *request, const char *name, const char *prefix, const char *text)
{
        char *value = further_header(request, name, strlen(prefix) + strlen(text) + 1);

        if (value)
                stpcpy(stpcpy(value, prefix), text);
}

void request_header(struct http_request *request, const char *name, const char *format, ...)
{
        size_t room = sizeof(request->headers_text) - request->n_headers_text;
        va_list arguments;
        int n;

        va_start(arguments, format);
        n = vsnprintf(request->headers_text + request->n_headers_text, room, format, arguments);
        va_end(arguments);
        if (n >= 0)
                (void)further_header(request, name, (size_t)n + 1);
}

/*
 * Whether the answer must wait for the end of the request. libmicrohttpd takes an answer before the body or after it,
 * and closes the connection after an earlier one: a request without a body therefore waits for its end, which has come.
 */
static bool must_defer(const struct http_request *request)
{
        return request->phase == REQUEST_DATA || (request->phase == REQUEST_BEGIN && !request->must_close);
}

static void add_headers(const struct http_request *request, struct MHD_Response *response)
{
        MHD_add_response_header(response, "Request-Id", request->id);
        MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
        if (request->cross_origin) {
                MHD_add_response_header(response, "Access-Control-Allow-Origin", request->headers.origin);
                MHD_add_response_header(response, "Access-Control-Expose-Headers", "*");
                MHD_add_response_header(response, "Vary", "Origin");
        }
        if (request->must_close)
                MHD_add_response_header(response, "Connection", "close");
        for (size_t i = 0; i < request->n_headers; i++)
                MHD_add_response_header(response, request->answer_headers[i].name, request->answer_headers[i].value);
}

void request_answer(struct http_request *request, unsigned status, struct MHD_Response *response)
{
        bool again = request->answered;

        request->answered = true; /* also where no answer can be made: a handler goes by this */
        if (!response || again) {
                if (response)
                        MHD_destroy_response(response);
                request->broken = true;
                return;
        }
        if (request->phase == REQUEST_BEGIN && request_has_body(request))
                request->must_close = true;
        request->connection->lingers |= request->must_close;
        add_headers(request, response);
        request->status = status;
        counters_answered(request, status);
        if (must_defer(request)) {
                request->deferred = response;
                return;
        }
        if (MHD_queue_response(request->connection->mhd, status, response) != MHD_YES)
                request->broken = true;
        MHD_destroy_response(response);
}

/* Takes over text, which was malloc'ed; NULL = memory was short. */
static struct MHD_Response *text_response(const char *type, char *text, size_t size)
{
        struct MHD_Response *response =
                text ? MHD_create_response_from_buffer(size, text, MHD_RESPMEM_MUST_FREE) : NULL;

        if (!response) {
                free(text);
                return NULL;
        }
        MHD_add_response_header(response, "Content-Type", type);
        MHD_add_response_header(response, "Cache-Control", "no-store");
        return response;
}

/* The document, and a newline for terminals. */
static struct MHD_Response *json_response(struct ferry_json_writer *writer, const char *type)
{
        size_t size = 0;
        char *text = ferry_json_take(writer, &size);

        if (text)
                text[size++] = '\n';
        return text_response(type, text, size);
}

void request_answer_json(struct http_request *request, unsigned status, struct ferry_json_writer *writer)
{
        if (writer->failed) {
                ferry_json_writer_clear(writer);
                request_problem(request, -ENOMEM, NULL);
                return;
        }
        request_answer(request, status, json_response(writer, "application/json"));
}

void request_answer_empty(struct http_request *request, unsigned status)
{
        request_answer(request, status, MHD_create_response_from_buffer(0, (void *)"", MHD_RESPMEM_PERSISTENT));
}

void request_answer_text(struct http_request *request, const char *type, char *text, size_t size)
{
        request_answer(request, 200, text_response(type, text, size));
}

static void answer_problem(struct http_request *request, int error, bool retryable, const char *detail,
                           const struct ferry_json_errors *errors)
{
        struct ferry_json_writer writer = { 0 };

        counters_problem(request->server, error);
        for (size_t i = 0; i < request->n_headers; i++)
                retryable = retryable || !strcasecmp(request->answer_headers[i].name, "Retry-After");
        unsigned retry_after = retryable ? problem_retry_after(error) : 0;
        if (retry_after)
                request_header(request, "Retry-After", "%u", retry_after);
        problem_write(&writer, error, retryable, detail, errors);
        request_answer(request, problem_status(error), json_response(&writer, "application/problem+json"));
}

int request_log_failure(const struct http_request *request, int error)
{
        log_event(LOG_ERROR, "request failed", LOG_S("request_id", request->id),
                  LOG_S("route", request->route ? request->route->operation_id : "none"),
                  LOG_S("reason", strerror(-error)));
        return error == -ENOMEM || error == -EMFILE || error == -ENFILE ? FERRY_E_NO_SPACE : FERRY_E_INTERNAL;
}

void request_problem(struct http_request *request, int error, const char *format, ...)
{
        char detail[256] = "";
        va_list arguments;

        if (error < 0) {
                error = request_log_failure(request, error);
                answer_problem(request, error, ferry_error_retryable(error), NULL, NULL);
                return;
        }
        if (format) {
                va_start(arguments, format);
                vsnprintf(detail, sizeof(detail), format, arguments);
                va_end(arguments);
        }
        /* The detail may quote the request, whose bytes may not be UTF-8. */
        for (char *c = detail; *c; c++)
                if (*c < ' ' || *c > '~')
                        *c = '?';
        answer_problem(request, error, ferry_error_retryable(error), detail, NULL);
}

void request_problem_lasting(struct http_request *request, int error, const char *detail)
{
        answer_problem(request, error, false, detail, NULL);
}

void request_problem_at(struct http_request *request, int error, const char *pointer, const char *detail)
{
        struct ferry_json_errors errors = { 0 };

        ferry_json_complain(&errors, error, pointer, "%s", detail && *detail ? detail : ferry_error_title(error));
        request_problem_body(request, &errors);
}

void request_problem_body(struct http_request *request, const struct ferry_json_errors *errors)
{
        const int error = errors->error ? errors->error : FERRY_E_INVALID_JSON;

        answer_problem(request, error, ferry_error_retryable(error), NULL, errors);
}
