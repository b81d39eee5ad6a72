/* SPDX-License-Identifier: Apache-2.0 */
#include "client_answers.h"

/* What a call says of answers that are no success, and which requests are sent again. */

/* ---- problems ---- */

TEST(a_problem_is_decoded)
{
        START(x, { PROBLEM("400", "invalid-parameter", "") });
        struct ferry_region region;
        assert_int_equal(ferry_get_region(x->ferry, "rgn_1", &region), FERRY_E_INVALID_PARAMETER);
        const struct ferry_problem *p = ferry_last_problem(x->ferry);
        assert_int_equal(p->http_status, 400);
        assert_int_equal(p->error, FERRY_E_INVALID_PARAMETER);
        assert_string_equal(p->code, "invalid-parameter");
        assert_string_equal(p->title, "A title");
        assert_string_equal(p->detail, "Some detail");
        assert_string_equal(p->pointer, "/descriptors/0/size");
        assert_string_equal(p->request_id, "req-9");
        assert_true(p->retryable);
        assert_starts(p->body, "{\"type\":");
        assert_int_equal(p->body_size, strlen(p->body));
        assert_string_equal(ferry_last_message(x->ferry),
                            "400 invalid-parameter: Some detail (at /descriptors/0/size)");
}

/* Workers name the field in the detail. */
TEST(a_field_is_named_once)
{
        START(x, { "HTTP/1.1 400 No\r\nContent-Type: application/problem+json\r\nConnection: close\r\n\r\n{\"code\":"
                   "\"unknown-field\",\"detail\":\"/x: unknown "
                   "field\",\"errors\":[{\"pointer\":\"/x\",\"detail\":\"?\"}]}" });
        struct ferry_region region;
        assert_int_equal(ferry_get_region(x->ferry, "rgn_1", &region), FERRY_E_UNKNOWN_FIELD);
        assert_string_equal(ferry_last_message(x->ferry), "400 unknown-field: /x: unknown field");
}

TEST(the_two_limits_are_told_apart_by_status)
{
        START(x, { PROBLEM("507", "limit-reached", "") });
        struct ferry_region region;
        assert_int_equal(ferry_create_region(x->ferry, &(struct ferry_region_spec){ .size = 1 }, &region),
                         FERRY_E_NO_SPACE);
}

TEST(an_unknown_code_keeps_its_text)
{
        START(x, { PROBLEM("418", "teapot", "") });
        struct ferry_region region;
        assert_int_equal(ferry_get_region(x->ferry, "rgn_1", &region), FERRY_E_OTHER);
        assert_string_equal(ferry_last_problem(x->ferry)->code, "teapot");
}

TEST(a_success_wipes_the_last_problem)
{
        START(x, { PROBLEM("404", "not-found", "") }, { NO_CONTENT });
        assert_int_equal(ferry_delete_region(x->ferry, "rgn_1"), FERRY_E_NOT_FOUND);
        assert_int_equal(ferry_delete_region(x->ferry, "rgn_1"), 0);
        const struct ferry_problem *p = ferry_last_problem(x->ferry);
        assert_int_equal(p->http_status, 204);
        assert_int_equal(p->error, 0);
        assert_string_equal(p->code, "");
        assert_null(p->body);
}

TEST(refusals_that_are_no_problem_documents_are_protocol_errors)
{
        START(x, { "HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<html>no</html>" },
              { "HTTP/1.1 400 No\r\nContent-Type: application/problem+json\r\nContent-Length: 4\r\n\r\n{\"a\"" },
              { "HTTP/1.1 400 No\r\nContent-Type: application/problem+json\r\nContent-Length: 2\r\n\r\n{}" },
              { "HTTP/1.1 400 No\r\nContent-Type: application/problem+json\r\nContent-Length: 10\r\n\r\n{\"code\":1}" },
              { "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n" });
        struct ferry_region region;
        for (int i = 0; i < 5; i++) {
                assert_int_equal(ferry_get_region(x->ferry, "rgn_1", &region), -EPROTO);
                assert_int_equal(ferry_last_problem(x->ferry)->http_status, i < 4 ? 400 : 500);
                if (i == 0)
                        assert_string_equal(ferry_last_problem(x->ferry)->body, "<html>no</html>");
        }
}

TEST(what_a_proxy_says_for_itself_is_told_apart)
{
        static const int results[] = { FERRY_E_TOO_LARGE, -EHOSTUNREACH, -EHOSTUNREACH, -ETIMEDOUT };
        START(x, { "HTTP/1.1 413 Large\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<html>no</html>" },
              { "HTTP/1.1 502 Bad\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<html>no</html>" },
              { "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n" },
              { "HTTP/1.1 504 Late\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<html>no</html>" });
        for (int i = 0; i < 4; i++) {
                assert_int_equal(ferry_get_readyz(x->ferry), results[i]);
                assert_non_null(strstr(ferry_last_message(x->ferry), "a proxy in front of the worker"));
        }
}

TEST(answers_that_are_not_a_workers_are_protocol_errors)
{
        START(x, { "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\n{}" },
              { "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}" }, { OK("Content-Length: 1\r\n\r\n{") },
              { OK("Content-Length: 2\r\n\r\n[]") }, { OK("Content-Length: 0\r\n\r\n") }, { OK_EMPTY },
              { "HTTP/1.1 200 OK\r\nContent-Type: application/jsonl\r\nConnection: close\r\n\r\n" REGION },
              { "220 smtp.example ready\r\n" });
        struct ferry_region region = { .size = 77 };
        for (size_t i = 0; i < UNIT_COUNT(steps); i++) {
                assert_int_equal(ferry_get_region(x->ferry, "rgn_1", &region), -EPROTO);
                assert_int_equal(region.size, 77);
                assert_true(*ferry_last_message(x->ferry));
        }
}

TEST(a_refused_head_is_known_by_its_status)
{
        START(x, { "HTTP/1.1 404 No\r\nContent-Type: application/problem+json\r\nContent-Length: 99\r\n\r\n" });
        const struct ferry_answer *answer = ask(x, "HEAD", "/v1/regions/rgn_1/content", FERRY_E_OTHER);
        assert_int_equal(answer->http_status, 404);
}

/* ---- lost and repeated requests ---- */

TEST(a_create_is_repeated_with_the_same_key)
{
        START(x, { NULL, SERVER_RESET }, { NULL }, { CREATED_REGION }, { CREATED_REGION });
        struct ferry_region region;
        assert_int_equal(ferry_create_region(x->ferry, &(struct ferry_region_spec){ .size = 4096 }, &region), 0);
        assert_string_equal(region.id, "rgn_1");
        assert_int_equal(ferry_create_region(x->ferry, &(struct ferry_region_spec){ .size = 4096 }, &region), 0);
        assert_int_equal(served(x), 4);
        const char *key = text_format("%s", header_of(request_of(x, 0), "Idempotency-Key"));
        assert_int_equal(strlen(key), 32);
        assert_string_equal(header_of(request_of(x, 1), "Idempotency-Key"), key);
        assert_string_equal(header_of(request_of(x, 2), "Idempotency-Key"), key);
        assert_string_not_equal(header_of(request_of(x, 3), "Idempotency-Key"), key);
}

TEST(a_bare_post_is_not_repeated)
{
        START(x, { OK_EMPTY, SERVER_KEEP }, { NULL, SERVER_RESET }, { OK_EMPTY });
        struct ferry_answer answer;
        ask(x, "GET", "/", 0);
        /* Also not by libcurl, which would do so on a kept connection: hence a fresh one. */
        assert_int_equal(ferry_request(x->ferry, "POST", "/v1/regions", "application/json", "{}", 2, &answer),
                         -ECONNRESET);
        assert_int_equal(answer.http_status, 0);
        ferry_answer_clear(&answer);
        server_stop(&x->server);
        assert_int_equal(served(x), 2);
        assert_int_equal(x->server.connections, 2);
}

TEST(retries_end)
{
        START_WITH(x, &(struct ferry_options){ .retries = 2 }, { NULL, SERVER_RESET }, { NULL, SERVER_RESET },
                   { NULL, SERVER_RESET }, { OK_EMPTY });
        ask(x, "GET", "/", -ECONNRESET);
        assert_int_equal(served(x), 3);
}

TEST(retries_can_be_switched_off)
{
        START_WITH(x, &(struct ferry_options){ .retries = -1 },
                   { PROBLEM("429", "limit-reached", "Retry-After: 0\r\n") }, { NO_CONTENT });
        assert_int_equal(ferry_delete_region(x->ferry, "rgn_1"), FERRY_E_LIMIT_REACHED);
}

TEST(a_busy_worker_is_asked_again)
{
        START(x, { PROBLEM("429", "limit-reached", "Retry-After: 0\r\n") }, { PROBLEM("503", "draining", "") },
              { CREATED_REGION });
        struct ferry_region region;
        assert_int_equal(ferry_create_region(x->ferry, &(struct ferry_region_spec){ .size = 4096 }, &region), 0);
        assert_int_equal(served(x), 3);
}

TEST(a_long_retry_after_is_told)
{
        START(x, { PROBLEM("429", "limit-reached", "Retry-After: 3600\r\n") });
        assert_int_equal(ferry_delete_region(x->ferry, "rgn_1"), FERRY_E_LIMIT_REACHED);
        assert_int_equal(ferry_last_problem(x->ferry)->retry_after_ms, 3600000);
}

TEST(readiness_is_asked_once)
{
        START(x, { PROBLEM("503", "draining", "Retry-After: 0\r\n") }, { NO_CONTENT });
        assert_int_equal(ferry_get_readyz(x->ferry), FERRY_E_DRAINING);
}

TEST(a_delete_whose_answer_was_lost_is_done)
{
        START(x, { NULL, SERVER_RESET }, { PROBLEM("404", "not-found", "") }, { NULL, SERVER_RESET },
              { PROBLEM("410", "gone", "") }, { PROBLEM("503", "draining", "Retry-After: 0\r\n") },
              { PROBLEM("410", "gone", "") });
        assert_int_equal(ferry_delete_region(x->ferry, "rgn_1"), 0);
        assert_int_equal(ferry_delete_operation(x->ferry, "op_1"), 0);
        assert_int_equal(ferry_delete_operation(x->ferry, "op_1"), FERRY_E_GONE); /* a refusal is no lost answer */
}

TEST(a_delete_whose_kept_connection_broke_is_done)
{
        START(x, { OK_EMPTY, SERVER_KEEP }, { NULL }, { PROBLEM("410", "gone", "") });
        ask(x, "GET", "/", 0);
        assert_int_equal(ferry_delete_operation(x->ferry, "op_1"), 0);
        assert_int_equal(served(x), 3);
}

TEST(a_truncated_answer_is_a_lost_one)
{
        START(x, { OK("Content-Length: 100\r\n\r\n{\"id\":") }, { CREATED_REGION });
        struct ferry_region region;
        assert_int_equal(ferry_get_region(x->ferry, "rgn_1", &region), 0);
        assert_string_equal(region.id, "rgn_1");
        assert_int_equal(served(x), 2);
}
