/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

/* A browser must not be able to drive a worker: neither by a name that its owner makes point here, nor across origins.
 */

#define HOST "Host: localhost\r\n"

/* Which names are whose, test_http_guard.c says. */
ON_WORKER(a_foreign_host_name_is_refused)
{
        FOR_EACH_TEXT (host, "localhost:9300", "[::1]", "10.1.2.3")
                wire_expect(w, 200, "GET /livez HTTP/1.1\r\nHost: %s\r\n\r\n", host);
        FOR_EACH_TEXT (host, "evil.example:9300", "localhost.evil.example", "127.1", "") {
                wire_refused(w, 421, "host-refused", "GET /livez HTTP/1.1\r\nHost: %s\r\n\r\n", host);
                /* A refused request does nothing. */
                wire_refused(w, 421, "host-refused",
                             "POST /v1/regions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
                             "Content-Length: 10\r\n\r\n{\"size\":1}",
                             host);
        }
        worker_await_metric(w, "ferry_regions", 0);
}

ON_WORKER(the_advertised_name_passes, "--advertise", "ferry.example")
{
        wire_expect(w, 200, "GET /livez HTTP/1.1\r\nHost: ferry.example:9300\r\n\r\n");
        wire_expect(w, 200, "GET /livez HTTP/1.1\r\nHost: FERRY.example\r\n\r\n");
        wire_refused(w, 421, "host-refused", "GET /livez HTTP/1.1\r\nHost: x.ferry.example\r\n\r\n");
}

ON_WORKER(allowed_names_pass, "--allow-host", "ferry_upstream", "--allow-host", "tool.example")
{
        wire_expect(w, 200, "GET /livez HTTP/1.1\r\nHost: ferry_upstream\r\n\r\n");
        wire_expect(w, 200, "GET /livez HTTP/1.1\r\nHost: Tool.example:8080\r\n\r\n");
        wire_expect(w, 200, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
        wire_refused(w, 421, "host-refused", "GET /livez HTTP/1.1\r\nHost: evil.example\r\n\r\n");
}

ON_WORKER(a_request_needs_one_host)
{
        wire_refused(w, 400, "invalid-parameter", "GET /livez HTTP/1.1\r\n\r\n");
        wire_expect(w, 400, "GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n");
        wire_expect(w, 400, "GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n");
}

ON_WORKER(a_foreign_origin_is_refused, "--allow-origin", "https://app.example")
{
        FOR_EACH_TEXT (origin, "https://evil.example", "null", "https://app.example.evil") {
                struct raw_answer answer = wire_ask(w, "GET /v1/worker HTTP/1.1\r\n" HOST "Origin: %s\r\n\r\n", origin);

                answer_assert_header(&answer, "Access-Control-Allow-Origin", NULL);
                answer_assert_problem(&answer, 403, "origin-refused");
                wire_refused(w, 403, "origin-refused",
                             "POST /v1/regions HTTP/1.1\r\n" HOST "Origin: %s\r\nContent-Type: application/json\r\n"
                             "Content-Length: 10\r\n\r\n{\"size\":1}",
                             origin);
                wire_refused(w, 403, "origin-refused",
                             "OPTIONS /v1/regions HTTP/1.1\r\n" HOST "Origin: %s\r\n"
                             "Access-Control-Request-Method: POST\r\n\r\n",
                             origin);
        }
        worker_await_metric(w, "ferry_regions", 0);
}

ON_WORKER(an_allowed_origin_may_read_the_answers, "--allow-origin", "https://app.example")
{
        struct raw_answer answer =
                wire_ask(w, "GET /v1/worker HTTP/1.1\r\n" HOST "Origin: https://app.example\r\n\r\n");

        assert_int_equal(answer.status, 200);
        answer_assert_header(&answer, "Access-Control-Allow-Origin", "https://app.example");
        answer_assert_header(&answer, "Vary", "Origin");
        answer_assert_header(&answer, "Access-Control-Expose-Headers", "*");
        answer = wire_ask(w, "OPTIONS /v1/regions HTTP/1.1\r\n" HOST "Origin: https://app.example\r\n"
                             "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: if-match\r\n\r\n");
        assert_int_equal(answer.status, 204);
        answer_assert_header(&answer, "Access-Control-Allow-Origin", "https://app.example");
        answer_assert_header(&answer, "Access-Control-Allow-Headers", "*, Authorization");
        answer_assert_header(&answer, "Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, DELETE");
        /* A problem can be read as well; the name of the host is checked all the same. */
        answer = wire_ask(w, "GET /nowhere HTTP/1.1\r\n" HOST "Origin: https://app.example\r\n\r\n");
        answer_assert_header(&answer, "Access-Control-Allow-Origin", "https://app.example");
        answer_assert_problem(&answer, 404, "not-found");
        wire_refused(w, 421, "host-refused",
                     "GET /v1/worker HTTP/1.1\r\nHost: evil.example\r\nOrigin: https://app.example\r\n\r\n");
}
