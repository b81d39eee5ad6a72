/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <unistd.h>

#include "wire.h"

enum { SIZE = 3 << 20 };

WITH_PAIR(it_is_prometheus_text)
{
        worker_start(&p->a, "w", NULL);
        struct raw_answer answer = raw_exchange(&p->a, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_int_equal(answer.status, 200);
        answer_assert_header(&answer, "Content-Type", "text/plain; version=0.0.4; charset=utf-8");
        answer_assert_header(&answer, "Cache-Control", "no-store");
        assert_int_equal(answer.body[answer.body_size - 1], '\n');
}

/* A dashboard or an alert finds what it asks for before anything has happened. */
WITH_PAIR(every_family_is_there_from_the_start)
{
        static const char *const samples[] = {
                "\nferry_build_info{version=\"",
                "\nprocess_resident_memory_bytes ",
                "\nferry_memory_limit_bytes 1048576\n",
                "\nferry_operation_errors_total{code=\"peer-lost\"} 0\n",
                "\nferry_http_problems_total{code=\"limit-reached\"} 0\n",
                "\nferry_operation_duration_seconds_bucket{kind=\"read\",le=\"1e-05\"} 0\n",
                "\nferry_transferred_bytes_total{direction=\"sent\",transport=\"shm\"} 0\n",
                "\nferry_peer_fetches_total{result=\"ok\"} 0\n",
                "\nferry_links{transport=\"local\"} 0\n",
                "\nferry_local_messages_total{direction=\"sent\"} 0\n",
                "\nferry_data_plane_wakes_total ",
                "\nferry_limit_near{limit=\"regions_max\"} 0\n",
        };
        char *text;

        worker_start(&p->a, "w", STRINGS("--memory-limit", "1M"));
        assert_int_equal(ferry_get_metrics(p->a.client, &text), 0);
        for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++)
                if (!strstr(text, samples[i]))
                        fail_msg("no %s", samples[i] + 1);
        assert_null(strstr(text, "\nprocess_resident_memory_bytes 0\n"));
        free(text);
}

static void make_some_of_everything(struct pair *p)
{
        OPERATION operation;

        pair_assert_serving(p);
        const char *region = region_make(&p->a, 10, 1);
        offer_make(&p->a, FERRY_WRITABLE, region, &operation);
        assert_int_equal(ferry_cancel_operation(p->a.client, operation.id, NULL), 0);
        wire_expect(&p->a, 404, "GET /v1/none HTTP/1.1\r\nHost: localhost\r\n\r\n");
        wire_expect(&p->a, 405, "BREW /v1/worker HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

WITH_PAIR(promtool_has_nothing_to_say)
{
        char path[] = "/tmp/ferry-test-metrics-XXXXXX", *text, said[4096];
        const char *command;
        int fd = mkstemp(path), status;
        FILE *promtool;
        size_t n;

        assert_true(fd >= 0);
        if (system("command -v promtool >/dev/null") != 0) { /* NOLINT: a fixed command */
                (void)unlink(path);
                skip();
        }
        pair_start(p, false);
        make_some_of_everything(p);
        for (int i = 0; i < 2; i++) {
                assert_int_equal(ferry_get_metrics(i ? p->b.client : p->a.client, &text), 0);
                assert_int_equal(pwrite(fd, text, strlen(text), 0), strlen(text));
                assert_int_equal(ftruncate(fd, (off_t)strlen(text)), 0);
                free(text);
                command = text_format("promtool check metrics <%s 2>&1", path);
                promtool = popen(command, "re"); /* NOLINT: a fixed command */
                assert_non_null(promtool);
                n = fread(said, 1, sizeof(said) - 1, promtool);
                said[n] = '\0';
                status = pclose(promtool);
                assert_string_equal(said, "");
                assert_int_equal(status, 0);
        }
        (void)unlink(path);
        (void)close(fd);
}

ON_WORKER(requests_are_counted_by_route_and_code)
{
        static const struct {
                const char *request, *sample;
        } rows[] = {
                { "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", "{route=\"getLivez\",code=\"200\"}" },
                { "GET /v1/regions/rgn_0000000000000001 HTTP/1.1\r\nHost: localhost\r\n\r\n",
                  "{route=\"getRegion\",code=\"404\"}" },
                { "HEAD /v1/limits HTTP/1.1\r\nHost: localhost\r\n\r\n", "{route=\"getLimits\",code=\"200\"}" },
                { "GET /v1/worker?x HTTP/1.1\r\nHost: localhost\r\n\r\n", "{route=\"getWorker\",code=\"400\"}" },
                { "PATCH /v1/worker HTTP/1.1\r\nHost: localhost\r\n\r\n", "{route=\"none\",code=\"405\"}" },
                { "GET /livez HTTP/1.1\r\nHost: evil.example\r\n\r\n", "{route=\"none\",code=\"421\"}" },
                { "POST /v1/regions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                  "Content-Length: 10\r\n\r\n{\"size\":1}",
                  "{route=\"createRegion\",code=\"201\"}" },
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                const char *sample = text_format("ferry_http_requests_total%s", rows[i].sample);

                worker_await_metric(w, sample, 0);
                for (int n = 1; n <= 3; n++) {
                        (void)raw_exchange(w, rows[i].request);
                        worker_await_metric(w, sample, (uint64_t)n);
                }
        }
}

/* What clients make up must not become labels, or they could fill the worker's memory. */
ON_WORKER(paths_and_methods_of_clients_are_no_labels)
{
        char *text;

        for (int i = 0; i < 50; i++) {
                wire_expect(w, 404, "GET /marker%d HTTP/1.1\r\nHost: localhost\r\n\r\n", i);
                wire_expect(w, 405, "MARKER%d /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", i);
                wire_expect(w, 404, "GET /v1/regions/marker%d HTTP/1.1\r\nHost: localhost\r\n\r\n", i);
        }
        assert_int_equal(ferry_get_metrics(w->client, &text), 0);
        assert_null(strcasestr(text, "marker"));
        free(text);
        worker_await_metric(w, "ferry_http_requests_total{route=\"none\",code=\"404\"}", 50);
        worker_await_metric(w, "ferry_http_problems_total{code=\"not-found\"}", 100);
        worker_await_metric(w, "ferry_http_requests_total{route=\"none\",code=\"405\"}", 50);
}

ON_EACH_PAIR(moved_bytes_and_operations_are_counted)
{
        static const char *const transports[] = { "shm", "tcp" };

        const char *sample;
        OPERATION passive, active;
        const char *source = region_make(&p->a, SIZE, 1);
        const char *target = region_make(&p->b, SIZE, 0);

        offer_make(&p->a, FERRY_READABLE, source, &passive);
        worker_await_metric(&p->a, "ferry_operations{kind=\"readable\",status=\"INITIALIZED\"}", 1);
        begin_make(&p->b, FERRY_READ, target, passive.metadata, &active);
        operation_assert_end(&p->b, active.id, FERRY_COMPLETE, NULL);
        operation_assert_end(&p->a, passive.id, FERRY_COMPLETE, NULL);

        sample = text_format("ferry_transferred_bytes_total{direction=\"sent\",transport=\"%s\"}",
                             transports[p->network]);
        worker_await_metric(&p->a, sample, SIZE);
        sample = text_format("ferry_transferred_bytes_total{direction=\"received\",transport=\"%s\"}",
                             transports[p->network]);
        worker_await_metric(&p->b, sample, SIZE);
        worker_await_metric(&p->a, "ferry_operations{kind=\"readable\",status=\"INITIALIZED\"}", 0);
        worker_await_metric(&p->a, "ferry_operations{kind=\"readable\",status=\"COMPLETE\"}", 1);
        worker_await_metric(&p->a, "ferry_operations_ended_total{kind=\"readable\",status=\"COMPLETE\"}", 1);
        worker_await_metric(&p->b, "ferry_operations_ended_total{kind=\"read\",status=\"COMPLETE\"}", 1);
        worker_await_metric(&p->b, "ferry_operation_duration_seconds_count{kind=\"read\"}", 1);
        worker_await_metric(&p->b, "ferry_operation_duration_seconds_bucket{kind=\"read\",le=\"+Inf\"}", 1);

        /* Forgotten, it is gone from the gauge, but not from the counter. */
        assert_int_equal(ferry_delete_operation(p->a.client, passive.id), 0);
        worker_await_metric(&p->a, "ferry_operations{kind=\"readable\",status=\"COMPLETE\"}", 0);
        worker_await_metric(&p->a, "ferry_operations_ended_total{kind=\"readable\",status=\"COMPLETE\"}", 1);
}

/* One request that waits for two operations: one waiter, two waits. */
ON_WORKER(a_request_that_waits_for_two_operations_is_one_waiter)
{
        OPERATION first, second;
        const char *target, *region = region_make(w, 1, 0);
        int fd;

        offer_make(w, FERRY_READABLE, region, &first);
        offer_make(w, FERRY_READABLE, region, &second);
        target = text_format("/v1/operations?ids=%s,%s&wait_for=all&wait_ms=60000", first.id, second.id);
        fd = raw_ask(w, "GET", target);
        worker_await_metric(w, "ferry_operation_waits", 2);
        worker_await_metric(w, "ferry_http_waiters", 1);
        wire_abort(fd);
        worker_await_metric(w, "ferry_operation_waits", 0);
        worker_await_metric(w, "ferry_http_waiters", 0);
}

#define DURATION(route, what) "ferry_http_request_duration_seconds_" what "{route=\"" route "\"}"
#define DURATION_BELOW(route, bound) "ferry_http_request_duration_seconds_bucket{route=\"" route "\",le=\"" bound "\"}"

ON_WORKER(the_times_of_requests_are_counted_by_route)
{
        wire_expect(w, 200, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
        wire_expect(w, 404, "GET /v1/regions/rgn_0000000000000001 HTTP/1.1\r\nHost: localhost\r\n\r\n");
        wire_expect(w, 404, "GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n");
        worker_await_metric(w, DURATION("getLivez", "count"), 1);
        worker_await_metric(w, DURATION("getRegion", "count"), 1);
        worker_await_metric(w, DURATION_BELOW("getLivez", "+Inf"), 1);
}

/* It waits for longer than the bucket has room, which would show the wishes of clients and not the worker. */
ON_WORKER(the_time_of_a_request_has_no_waiting)
{
        OPERATION operation;
        const char *region = region_make(w, 1, 0);

        offer_make(w, FERRY_READABLE, region, &operation);
        wire_expect(w, 200, "GET /v1/operations/%s?wait_ms=1500 HTTP/1.1\r\nHost: localhost\r\n\r\n", operation.id);
        worker_await_metric(w, DURATION("getOperation", "count"), 1);
        worker_await_metric(w, DURATION_BELOW("getOperation", "1"), 1);
}

ON_WORKER(errors_of_operations_are_counted_by_code)
{
        OPERATION operation;
        const char *region = region_make(w, 10, 1);

        offer_make(w, FERRY_WRITABLE, region, &operation);
        assert_int_equal(ferry_cancel_operation(w->client, operation.id, NULL), 0);
        worker_await_metric(w, "ferry_operation_errors_total{code=\"cancelled\"}", 1);
}
