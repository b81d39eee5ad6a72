/* SPDX-License-Identifier: Apache-2.0 */
#include "serve_internal.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <ferry/encoding.h>
#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/json_write.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/util.h"

/*
 * Answers: exactly one for each request, as JSON, as a problem, or as a response of the endpoint's own, with the
 * headers that every answer has; and the metrics that count them. An answer that comes amid a body is kept (deferred)
 * until the end of the body, since libmicrohttpd takes none before.
 *
 * Thread: that of the request's connection; counters_refused() and counters_init() any.
 */

/* ---- metrics ---- */

/* Connections ended by the worker, by reason. */
static void count_ends(struct http_server *server)
{
        static const char *const labels[] = { "reason" };
        static const char *const reasons[HTTP_END_COUNT] = {
                [HTTP_END_SLOW_HEAD] = "slow_head",     [HTTP_END_SLOW_BODY] = "slow_body",
                [HTTP_END_SLOW_READER] = "slow_reader", [HTTP_END_REFUSED_HEAD] = "refused_head",
                [HTTP_END_EVICTED] = "evicted",         [HTTP_END_ADDRESS_LIMIT] = "address_limit",
        };
        struct metric_family *ended =
                metrics_family(server->config.metrics, METRIC_COUNTER, "ferry_http_connections_ended_total",
                               "HTTP connections that the worker ended: a head, body or reader was too slow, a first "
                               "head was refused, others needed the room, one address had too many.",
                               1, labels, NULL, 0);

        for (size_t i = 0; i < HTTP_END_COUNT; i++)
                server->ended[i] = metric_get(ended, &reasons[i]);
}

/* The series of a route is made when it is first asked for, as are those of the requests: a scrape stays short. */
static void time_answers(struct http_server *server)
{
        /* Buckets from the time of a small GET between programs of one host on. */
        static const double seconds[] = { 0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10 };
        static const char *const label[] = { "route" };

        server->durations =
                metrics_family(server->config.metrics, METRIC_HISTOGRAM, "ferry_http_request_duration_seconds",
                               "Time from the first line of an HTTP request to its answer, by route "
                               "(operationId), without the time for which it was parked.",
                               1, label, seconds, FERRY_ARRAY_SIZE(seconds));
        server->route_durations = calloc(server->config.routes.n, sizeof(*server->route_durations));
}

void counters_init(struct http_server *server)
{
        static const char *const request_labels[] = { "route", "code" };
        struct metrics *metrics = server->config.metrics;

        server->requests = metrics_family(metrics, METRIC_COUNTER, "ferry_http_requests_total",
                                          "HTTP requests answered, by route (operationId) and status code.", 2,
                                          request_labels, NULL, 0);
        count_ends(server);
        server->problems = metrics_by_code(metrics, "ferry_http_problems_total",
                                           "HTTP requests refused, by the code of the problem.", "code");
        time_answers(server);
        server->waiters = metric_single(metrics, METRIC_GAUGE, "ferry_http_waiters",
                                        "HTTP requests that are parked until an operation, an event, a region or a "
                                        "peer is there: each once, whatever it waits for.");
        server->bodies = metric_single(metrics, METRIC_GAUGE, "ferry_http_body_bytes",
                                       "Memory of JSON bodies of requests, but for short ones.");
        server->event_readers =
                metric_single(metrics, METRIC_GAUGE, "ferry_event_readers", "Clients that read a stream of events.");
        server->events_missed = metric_single(metrics, METRIC_COUNTER, "ferry_events_missed_total",
                                              "Events that a reader was too late for, by all readers.");
}

/* route: operationId. */
static void count_answer(struct http_server *server, const char *route, unsigned status)
{
        char code[12];

        (void)snprintf(code, sizeof(code), "%u", status);
        metric_add(metric_get(server->requests, (const char *const[]){ route, code }), 1);
}

static void time_answer(const struct http_request *request)
{
        struct http_server *server = request->server;

        if (!server->route_durations)
                return;
        _Atomic(struct metric *) *series = &server->route_durations[request->route - server->config.routes.rows];
        struct metric *metric = atomic_load_explicit(series, memory_order_acquire);
        if (!metric) {
                metric = metric_get(server->durations, &request->route->operation_id);
                atomic_store_explicit(series, metric, memory_order_release);
        }
        metric_observe(metric, (double)(clock_now_us() - request->active_us) / 1e6);
}

/* Counts an answer, by route and status, and its time, by route. Once for each request. */
static void counters_answered(const struct http_request *request, unsigned status)
{
        count_answer(request->server, request->route ? request->route->operation_id : "none", status);
        if (request->route)
                time_answer(request);
}

/* Counts a problem (FERRY_E_*). */
static void counters_problem(struct http_server *server, int error)
{
        const char *code = ferry_error_code(error);

        metric_add(metric_get(server->problems, &code), 1);
}

void counters_refused(struct http_server *server, int error)
{
        counters_problem(server, error);
        count_answer(server, "none", problem_status(error));
}

/* ---- answers ---- */

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

/* The headers that every answer has, and those that the endpoint has added. */
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

/* Counts a problem and answers with it. It counts as retryable also where the endpoint has added Retry-After. */
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
