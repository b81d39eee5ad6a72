/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "wire.h"

WITH_WORKER(flags_are_what_is_shown)
{
        static const struct {
                const char *flag, *value, *field;
                uint64_t shown;
        } rows[] = {
                { "--memory-limit", "123M", "memory_limit", UINT64_C(123) << 20 },
                { "--max-regions", "77", "regions_max", 77 },
                { "--max-operations", "55", "operations_max", 55 },
                { "--max-waiters", "33", "waiters_max", 33 },
                { "--max-links", "44", "links_max", 44 },
                { "--max-connections", "100", "connections_max", 100 },
                { "--ttl", "90s", "ttl_ms_default", 90000 },
                { "--stall-limit", "4s", "stall_ms", 4000 },
                { "--retention", "2h", "retention_ms", 7200000 },
        };
        enum { N = sizeof(rows) / sizeof(rows[0]) };
        const char *flags[2 * N + 1] = { NULL };
        struct json_object *limits;

        for (size_t i = 0; i < N; i++) {
                flags[2 * i] = rows[i].flag;
                flags[2 * i + 1] = rows[i].value;
        }
        worker_start(w, "w", flags);
        limits = call_json(w, 200, "GET", "/v1/limits", NULL);
        for (size_t i = 0; i < N; i++)
                assert_int_equal(json_number(limits, rows[i].field), rows[i].shown);
        json_object_put(limits);
        worker_stop(w);
}

/* Every limit is a positive number that JavaScript keeps exact. */
WITH_WORKER(every_limit_is_a_number)
{
        struct json_object *limits;

        worker_start(w, "w", NULL);
        limits = call_json(w, 200, "GET", "/v1/limits", NULL);
        json_object_object_foreach (limits, name, value) {
                (void)value;
                assert_in_range(json_number(limits, name), 1, (UINT64_C(1) << 53) - 1);
        }
        assert_int_equal(json_number(limits, "wait_ms_max"), 55000);
        assert_int_equal(json_number(limits, "stall_ms"), 30000);
        assert_int_equal(json_number(limits, "retention_ms"), 600000);
        assert_int_equal(json_number(limits, "ttl_ms_default"), 600000);
        assert_int_equal(json_number(limits, "head_ms"), 10000);
        assert_int_equal(json_number(limits, "body_ms"), 20000);
        assert_int_equal(json_number(limits, "read_ms"), 60000);
        assert_int_equal(json_number(limits, "rate_min"), 500);
        json_object_put(limits);
        worker_stop(w);
}

WITH_WORKER(a_head_holds_no_more_than_the_limit_says)
{
        static const char start[] = "GET /livez HTTP/1.1\r\nHost: localhost\r\nX: ";
        struct json_object *limits;

        worker_start(w, "w", (const char *const[]){ "--max-connections", "80", NULL });
        limits = call_json(w, 200, "GET", "/v1/limits", NULL);
        assert_int_equal(json_number(limits, "address_connections_max"), 70);
        wire_refused(w, 431, "head-too-large", "%s%0*d\r\n\r\n", start,
                     (int)(json_number(limits, "head_max") - strlen(start)), 0);
        worker_await_metric(w, "ferry_http_problems_total{code=\"head-too-large\"}", 1);
        worker_await_metric(w, "ferry_http_connections_ended_total{reason=\"refused_head\"}", 1);
        json_object_put(limits);
        worker_stop(w);
}

WITH_WORKER(a_page_holds_what_the_limit_says)
{
        struct json_object *limits;
        char path[128];

        worker_start(w, "w", NULL);
        limits = call_json(w, 200, "GET", "/v1/limits", NULL);
        for (int operations = 0; operations < 2; operations++) {
                const char *list = operations ? "operations" : "regions";
                unsigned long long most = json_number(limits, "page_max");

                (void)snprintf(path, sizeof(path), "/v1/%s?limit=%llu", list, most);
                json_object_put(call_json(w, 200, "GET", path, NULL));
                (void)snprintf(path, sizeof(path), "/v1/%s?limit=%llu", list, most + 1);
                json_object_put(call_json(w, 200, "GET", path, NULL));
        }
        json_object_put(limits);
        worker_stop(w);
}

/* The last test: the hard limit does not rise again. */
WITH_WORKER(open_files_are_taken_to_the_hard_limit_and_no_further)
{
        const struct rlimit files = { .rlim_cur = 300, .rlim_max = 2000 };
        const char *const flags[] = { "--max-connections", "5000", NULL };
        struct json_object *limits;
        char *log;

        assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
        worker_start(w, "w", flags);
        limits = call_json(w, 200, "GET", "/v1/limits", NULL);
        assert_in_range(json_number(limits, "connections_max"), 1500, 1999);
        json_object_put(limits);
        log = worker_log(w);
        assert_non_null(strstr(log, "ulimit -n"));
        assert_non_null(strstr(log, "wanted=5000"));
        free(log);
        worker_stop(w);
}
