/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <unistd.h>

#include "wire.h"

/* Paths, types and sizes of bodies, request ids. Each operation by itself is in tests/openapi/check_parameters.py. */

#define HOST "Host: localhost\r\n"

/* ---- paths ---- */

ON_WORKER(an_unknown_path_is_not_found)
{
        FOR_EACH_TEXT (method, "GET", "POST", "BREW")
                FOR_EACH_TEXT (path, "/v1", "/v2/worker", "/v1/worker/", "//v1/worker", "/v1//worker", "/V1/worker",
                               "/v1/regions/", "/v1/regions//content", "/v1/regions/x/y",
                               "/v1/regions/rgn_0000000000000001/content/", "/livez.json", "/..%2f..%2fetc/passwd",
                               "/v1/../livez", "/%ff", "*")
                        wire_refused(w, 404, "not-found", "%s %s HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n", method,
                                     path);
}

/* ---- content types ---- */

ON_WORKER(a_type_of_a_body_may_have_parameters_and_any_case)
{
        FOR_EACH_TEXT (header, "Content-Type: application/json; charset=utf-8", "Content-Type:Application/JSON;x=y")
                wire_expect(w, 201, "POST /v1/regions HTTP/1.1\r\n" HOST "%s\r\nContent-Length: 10\r\n\r\n{\"size\":1}",
                            header);
}

/* ---- Request-Id ---- */

/* Which ones are good, test_http_headers.c says. */
ON_WORKER(a_request_id_comes_back_or_is_made)
{
        struct raw_answer answer;
        const char *made[2];

        for (int i = 0; i < 2; i++) {
                answer = wire_ask(w, "GET /livez HTTP/1.1\r\n" HOST "Request-Id: %065d\r\n\r\n", 1);
                assert_int_equal(answer.status, 200);
                made[i] = raw_header(&answer, "Request-Id");
                assert_int_equal(strlen(made[i]), 20);
                assert_memory_equal(made[i], "req_", 4);
        }
        assert_string_not_equal(made[0], made[1]);
        answer = wire_ask(w, "GET /livez HTTP/1.1\r\n" HOST "Request-Id: %064d\r\n\r\n", 1);
        answer_assert_header(&answer, "Request-Id", text_format("%064d", 1));

        /* Also on what is refused. */
        answer = wire_ask(w, "GET /nowhere HTTP/1.1\r\n" HOST "Request-Id: abc\r\n\r\n");
        answer_assert_header(&answer, "Request-Id", "abc");
        answer_assert_problem(&answer, 404, "not-found");
        answer = wire_ask(w, "GET /livez HTTP/1.1\r\nHost: evil.example\r\nRequest-Id: abc\r\n\r\n");
        answer_assert_header(&answer, "Request-Id", "abc");
        answer_assert_problem(&answer, 421, "host-refused");
}

/* ---- bodies ---- */

enum { BODY_MAX = 8 << 20 };

ON_WORKER(too_large_a_body_is_refused)
{
        uint64_t resident;

        worker_assert_serving(w);
        resident = worker_status_kb(w, "VmHWM");
        for (int chunked = 0; chunked < 2; chunked++) {
                uint64_t left = 4 * BODY_MAX;
                struct ferry_answer answer;
                struct ferry_exchange exchange = { .method = "POST",
                                                   .path = "/v1/regions",
                                                   .content_type = "application/json",
                                                   .source = pour_blanks,
                                                   .source_context = &left,
                                                   .source_size = chunked ? FERRY_SIZE_UNKNOWN : left };

                assert_int_equal(ferry_exchange_perform(w->client, &exchange, &answer), FERRY_E_TOO_LARGE);
                assert_int_equal(answer.http_status, 413);
                ferry_answer_clear(&answer);
        }
        worker_await_metric(w, "ferry_regions", 0);
        worker_assert_serving(w);
        /* The worker keeps nothing of a refused body. A sanitizer keeps memory that was freed. */
        if (!SANITIZED)
                assert_true(worker_status_kb(w, "VmHWM") < resident + 3 * BODY_MAX / 1024);
}

ON_WORKER(the_limit_of_a_body_is_exact)
{
        static const char good[] = "{\"size\":1}";
        struct ferry_answer answer;
        char *text = calloc(1, BODY_MAX + 2);

        memset(text, ' ', BODY_MAX + 1);
        memcpy(text, good, strlen(good));
        assert_problem(w, "POST", "/v1/regions", text, 413, "too-large", NULL);
        assert_int_equal(ferry_request(w->client, "POST", "/v1/regions", "application/json", text, BODY_MAX, &answer),
                         0);
        assert_int_equal(answer.http_status, 201);
        ferry_answer_clear(&answer);
        free(text);
}

ON_WORKER(one_answer_names_every_fault)
{
        static const char *const pointers[] = { "/size", "/device", "/nam" };
        struct json_object *problem =
                call_json(w, 400, "POST", "/v1/regions", "{\"size\":-1,\"device\":5,\"nam\":\"x\"}");
        struct json_object *errors = json_member(problem, "errors");

        assert_int_equal(json_object_array_length(errors), 3);
        for (size_t i = 0; i < 3; i++)
                assert_string_equal(json_text(json_object_array_get_idx(errors, i), "pointer"), pointers[i]);
}
