/* SPDX-License-Identifier: Apache-2.0 */
#include <fnmatch.h>

#include "client_fixture.h"

/* What a call says of answers that are no success, and which requests are sent again. */

TEST(a_problem_is_decoded)
{
        START(x, { PROBLEM("429", "limit-reached", "Retry-After: 3600\r\n") }, { HTML("400") }, { NO_CONTENT });
        const struct ferry_problem *p = ferry_last_problem(x->ferry);
        assert_int_equal(ferry_delete_region(x->ferry, "rgn_1"), FERRY_E_LIMIT_REACHED);
        assert_int_equal(p->http_status, 429);
        assert_int_equal(p->error, FERRY_E_LIMIT_REACHED);
        assert_string_equal(p->code, "limit-reached");
        assert_string_equal(p->title, "A title");
        assert_string_equal(p->detail, "Some detail");
        assert_string_equal(p->pointer, "/descriptors/0/size");
        assert_string_equal(p->request_id, "req-9");
        assert_true(p->retryable);
        assert_int_equal(p->retry_after_ms, 3600000); /* too long for us */
        assert_int_equal(strncmp(p->body, "{\"type\":", 8), 0);
        assert_int_equal(p->body_size, strlen(p->body));
        assert_int_equal(ferry_delete_region(x->ferry, "rgn_1"), -EPROTO);
        assert_string_equal(p->body, "<html>no</html>");
        assert_int_equal(ferry_delete_region(x->ferry, "rgn_1"), 0);
        assert_int_equal(p->http_status, 204);
        assert_int_equal(p->error, 0);
        assert_string_equal(p->code, "");
        assert_null(p->body);
}

/* ---- one call, and all that comes of it ---- */

static int get_region(struct ferry *f)
{
        struct ferry_region region = { .size = 77 };
        int r = ferry_get_region(f, "rgn_1", &region);
        assert_int_equal(region.size, r ? 77 : 4096);
        return r;
}

static int create_region(struct ferry *f)
{
        struct ferry_region region;
        return ferry_create_region(f, &(struct ferry_region_spec){ .size = 4096 }, &region);
}

static int get_operation(struct ferry *f)
{
        struct ferry_operation o = { 0 };
        int r = ferry_get_operation(f, "op_1", 0, 0, &o);
        ferry_operation_clear(&o);
        return r;
}

static int put_content(struct ferry *f)
{
        return ferry_put_region_content(f, "rgn_1", 0, "bytes", 5);
}

static int delete_region(struct ferry *f)
{
        return ferry_delete_region(f, "rgn_1");
}

static int delete_operation(struct ferry *f)
{
        return ferry_delete_operation(f, "op_1");
}

static int head(struct ferry *f)
{
        struct ferry_answer answer;
        int r = ferry_request(f, "HEAD", "/v1/regions/rgn_1/content", NULL, NULL, 0, &answer);
        ferry_answer_clear(&answer);
        return r;
}

#define LIMIT_REACHED PROBLEM("429", "limit-reached", "Retry-After: 0\r\n")
#define REFUSED(body) "HTTP/1.1 400 No\r\nContent-Type: application/problem+json\r\nConnection: close\r\n\r\n" body
#define LOST                                                                                                           \
        {                                                                                                              \
                NULL, SERVER_RESET                                                                                     \
        }

static const struct row {
        const char *message; /* a pattern */
        int (*call)(struct ferry *f);
        int result;
        size_t served; /* requests */
        struct server_step steps[6];
        int retries;
} rows[] = {
        /* Problem documents: workers name the field in the detail, and the two limits differ by status. */
        { "400 unknown-field: /x: unknown field",
          get_region,
          FERRY_E_UNKNOWN_FIELD,
          1,
          { { REFUSED("{\"code\":\"unknown-field\",\"detail\":\"/x: unknown field\",\"errors\":"
                      "[{\"pointer\":\"/x\",\"detail\":\"x is ?\"}]}") } } },
        { "507 *", create_region, FERRY_E_NO_SPACE, 1, { { PROBLEM("507", "limit-reached", "") } } },
        { "418 teapot: Some detail (at /descriptors/0/size)",
          get_region,
          FERRY_E_OTHER,
          1,
          { { PROBLEM("418", "teapot", "") } } },
        { "HTTP status 404",
          head,
          FERRY_E_OTHER,
          1,
          { { "HTTP/1.1 404 No\r\nContent-Type: application/problem+json\r\nContent-Length: 99\r\n\r\n" } } },
        /* Refusals that are none. */
        { "*HTTP status 400*", get_region, -EPROTO, 1, { { HTML("400") } } },
        { "*HTTP status 400*", get_region, -EPROTO, 1, { { REFUSED("{\"a\"") } } },
        { "*HTTP status 400*", get_region, -EPROTO, 1, { { REFUSED("{}") } } },
        { "*HTTP status 400*", get_region, -EPROTO, 1, { { REFUSED("{\"code\":1}") } } },
        { "*HTTP status 500*", get_region, -EPROTO, 1, { { "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n" } } },
        { "not the answer of a worker (HTTP status 302): it leads to another URL: http://127.0.0.1:1/",
          get_region,
          -EPROTO,
          1,
          { { "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n" } } },
        /* What a proxy says for itself. */
        { "*a proxy in front of the worker*", ferry_get_readyz, FERRY_E_TOO_LARGE, 1, { { HTML("413") } } },
        { "*a proxy in front of the worker*", ferry_get_readyz, -EHOSTUNREACH, 1, { { HTML("502") } } },
        { "*a proxy in front of the worker*",
          ferry_get_readyz,
          -EHOSTUNREACH,
          1,
          { { "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n" } } },
        { "*a proxy in front of the worker*", ferry_get_readyz, -ETIMEDOUT, 1, { { HTML("504") } } },
        { "",
          get_operation,
          0,
          6,
          { { HTML("502") }, { HTML("503") }, { HTML("504") }, { HTML("502") }, { HTML("502") }, { COMPLETE } } },
        /* Successes that are not a worker's. */
        { "?*",
          get_region,
          -EPROTO,
          1,
          { { "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\n{}" } } },
        { "?*", get_region, -EPROTO, 1, { { "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}" } } },
        { "?*", get_region, -EPROTO, 1, { { OK("Content-Length: 1\r\n\r\n{") } } },
        { "?*", get_region, -EPROTO, 1, { { OK("Content-Length: 2\r\n\r\n[]") } } },
        { "?*", get_region, -EPROTO, 1, { { OK("Content-Length: 0\r\n\r\n") } } },
        { "?*", get_region, -EPROTO, 1, { { OK_EMPTY } } },
        { "?*",
          get_region,
          -EPROTO,
          1,
          { { "HTTP/1.1 200 OK\r\nContent-Type: application/jsonl\r\nConnection: close\r\n\r\n" REGION } } },
        /* Lost and repeated requests. */
        { "?*", get_region, -ECONNRESET, 3, { LOST, LOST, LOST }, .retries = 2 },
        { "429 *", delete_region, FERRY_E_LIMIT_REACHED, 1, { { LIMIT_REACHED } }, .retries = -1 },
        { "", create_region, 0, 3, { { LIMIT_REACHED }, { DRAINING }, { CREATED_REGION } } },
        { "503 *", ferry_get_readyz, FERRY_E_DRAINING, 1, { { PROBLEM("503", "draining", "Retry-After: 0\r\n") } } },
        { "", get_region, 0, 2, { { OK("Content-Length: 100\r\n\r\n{\"id\":") }, { CREATED_REGION } } },
        { "", put_content, 0, 2, { LOST, { NO_CONTENT } } },
        /* A delete whose answer was lost is done; a refusal is no lost answer. */
        { "", delete_region, 0, 2, { LOST, { PROBLEM("404", "not-found", "") } } },
        { "", delete_operation, 0, 2, { LOST, { GONE } } },
        { "410 *", delete_operation, FERRY_E_GONE, 2, { { DRAINING }, { GONE } } },
};

TEST(every_answer_is_told_and_what_can_be_is_asked_again)
{
        for (size_t i = 0; i < UNIT_COUNT(rows); i++) {
                const struct row *row = &rows[i];
                test_row(text_format("%zu: %s", i, row->message));
                struct fixture *x = start(row->steps, UNIT_COUNT(row->steps),
                                          &(struct ferry_options){ .timeout_ms = 20000, .retries = row->retries });
                assert_int_equal(row->call(x->ferry), row->result);
                if (fnmatch(row->message, ferry_last_message(x->ferry), 0) != 0)
                        fail_msg("%s", ferry_last_message(x->ferry));
                assert_int_equal(served(x), row->served);
        }
}

TEST(a_create_is_repeated_with_the_same_key)
{
        START(x, { NULL, SERVER_RESET }, { NULL }, { CREATED_REGION }, { CREATED_REGION });
        assert_int_equal(create_region(x->ferry), 0);
        assert_int_equal(create_region(x->ferry), 0);
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
        assert_int_equal(served(x), 2);
        assert_int_equal(x->server.connections, 2);
}

TEST(a_delete_whose_kept_connection_broke_is_done)
{
        START(x, { OK_EMPTY, SERVER_KEEP }, { NULL }, { GONE });
        ask(x, "GET", "/", 0);
        assert_int_equal(delete_operation(x->ferry), 0);
        assert_int_equal(served(x), 3);
}
