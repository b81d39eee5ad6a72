/* SPDX-License-Identifier: Apache-2.0 */

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <ferry/error.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/util.h"
#include "request.h"

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
        /* From the time of a small GET between programs of one host. */
        static const double seconds[] = { 0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10 };
        static const char *const label[] = { "route" };

        server->durations =
                metrics_family(server->config.metrics, METRIC_HISTOGRAM, "ferry_http_request_duration_seconds",
                               "Time from the first line of an HTTP request to its answer, by route "
                               "(operationId), without the time for which it was parked.",
                               1, label, seconds, FERRY_ARRAY_SIZE(seconds));
        server->route_durations = calloc(server->n_routes, sizeof(*server->route_durations));
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
        _Atomic(struct metric *) *series = &server->route_durations[request->route - server->routes];
        struct metric *metric = atomic_load_explicit(series, memory_order_acquire);
        if (!metric) {
                metric = metric_get(server->durations, &request->route->operation_id);
                atomic_store_explicit(series, metric, memory_order_release);
        }
        metric_observe(metric, (double)(clock_now_us() - request->active_us) / 1e6);
}

void counters_answered(const struct http_request *request, unsigned status)
{
        count_answer(request->server, request->route ? request->route->operation_id : "none", status);
        if (request->route)
                time_answer(request);
}

void counters_problem(struct http_server *server, int error)
{
        const char *code = ferry_error_code(error);

        metric_add(metric_get(server->problems, &code), 1);
}

void counters_refused(struct http_server *server, int error)
{
        counters_problem(server, error);
        count_answer(server, "none", problem_status(error));
}
