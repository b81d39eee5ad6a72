/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_FIXTURE_H
#define CLIENT_FIXTURE_H

#include <ferry/ferry.h>

#include "test_client_server.h"
#include "unit.h"

/* A handle of libferry at a scripted server. Both go with the test. */

#define JSON(status, body)                                                                                             \
        "HTTP/1.1 " status " Yes\r\nContent-Type: application/json; charset=utf-8\r\nConnection: close\r\n\r\n" body
#define OK(body) "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" body
#define OK_EMPTY OK("Content-Length: 2\r\n\r\n{}")
#define NO_CONTENT "HTTP/1.1 204 No Content\r\nRequest-Id: req-7\r\n\r\n"
#define REGION "{\"id\":\"rgn_1\",\"size\":4096,\"device\":\"cpu\",\"name\":\"kv\"}"
#define CREATED_REGION JSON("201", REGION)
#define OPERATION(status, done, extra)                                                                                 \
        "{\"id\":\"op_1\",\"kind\":\"read\",\"status\":\"" status "\",\"done\":" done                                  \
        ",\"revision\":2,\"bytes_total\":8,\"bytes_done\":4,\"descriptors\":[{\"region\":\"rgn_1\",\"offset\":0,"      \
        "\"size\":8}]" extra "}"
#define RUNS OPERATION("IN_PROGRESS", "false", "")
#define RUNNING JSON("200", RUNS)
#define COMPLETE JSON("200", OPERATION("COMPLETE", "true", ""))
#define PROBLEM(status, code, extra)                                                                                   \
        "HTTP/1.1 " status " No\r\nContent-Type: application/problem+json\r\nRequest-Id: req-9\r\n" extra              \
        "Connection: close\r\n\r\n{\"type\":\"about:blank\",\"title\":\"A title\",\"status\":" status ","              \
        "\"detail\":\"Some detail\",\"code\":\"" code "\",\"retryable\":true,"                                         \
        "\"errors\":[{\"pointer\":\"/descriptors/0/size\",\"detail\":\"must not be 0\"}]}"
#define DRAINING PROBLEM("503", "draining", "")
#define GONE PROBLEM("410", "gone", "")
#define HTML(status) "HTTP/1.1 " status " No\r\nContent-Type: text/html\r\nContent-Length: 15\r\n\r\n<html>no</html>"

struct fixture {
        struct server server;
        struct ferry *ferry;
        struct server_step step; /* of start_with */
};

static inline void fixture_release(void *object)
{
        struct fixture *x = object;

        ferry_free(x->ferry);
        server_clear(&x->server);
        free(x);
}

static inline struct fixture *start(const struct server_step *steps, size_t n, const struct ferry_options *options)
{
        struct fixture *x = unit_alloc(sizeof(*x));

        server_start(&x->server, steps, n);
        assert_int_equal(ferry_new(x->server.url, options, &x->ferry), 0);
        return test_keep(x, fixture_release);
}

#ifndef START_OPTIONS
#define START_OPTIONS .timeout_ms = 20000
#endif
#define START_WITH(x, ferry_options, ...)                                                                              \
        static const struct server_step steps[] = { __VA_ARGS__ };                                                     \
        struct fixture *x = start(steps, UNIT_COUNT(steps), ferry_options)
#define START(x, ...) START_WITH(x, &(struct ferry_options){ START_OPTIONS }, __VA_ARGS__)

/* The same with one step, of which the server has a copy. */
static inline struct fixture *start_with(struct server_step step, const struct ferry_options *options)
{
        struct fixture *x = unit_alloc(sizeof(*x));

        x->step = step;
        server_start(&x->server, &x->step, 1);
        assert_int_equal(ferry_new(x->server.url, options, &x->ferry), 0);
        return test_keep(x, fixture_release);
}

static inline void answer_release(void *answer)
{
        ferry_answer_clear(answer);
        free(answer);
}

/* The text of request i, which has come. Stops the server. */
static inline const char *request_of(struct fixture *x, size_t i)
{
        server_stop(&x->server);
        assert_true(i < x->server.served);
        return x->server.requests[i];
}

/* How many requests have come. Stops the server. */
static inline size_t served(struct fixture *x)
{
        server_stop(&x->server);
        return x->server.served;
}

/* The answer to a request without a body, which has to end with expected; it goes with the test. */
static inline const struct ferry_answer *ask(struct fixture *x, const char *method, const char *path, int expected)
{
        struct ferry_answer *answer = test_keep(unit_alloc(sizeof(*answer)), answer_release);

        assert_int_equal(ferry_request(x->ferry, method, path, NULL, NULL, 0, answer), expected);
        return answer;
}

/* Compares the request line and, when not NULL, the body of request i. */
static inline void sent(struct fixture *x, size_t i, const char *line, const char *body)
{
        const char *request = request_of(x, i);
        if (strncmp(request, line, strlen(line)) != 0 || strncmp(request + strlen(line), " HTTP/1.1\r\n", 11) != 0)
                fail_msg("not \"%s\": %s", line, request);
        if (body)
                assert_string_equal(strstr(request, "\r\n\r\n") + 4, body);
}

/* The value of a header of a request, in a static buffer; "" = none. */
static inline const char *header_of(const char *request, const char *name)
{
        static char value[256];
        const char *start = text_format("\r\n%s: ", name);
        const char *line = strcasestr(request, start);
        snprintf(value, sizeof(value), "%.*s", line ? (int)strcspn(line + strlen(start), "\r") : 0,
                 line ? line + strlen(start) : "");
        return value;
}

static inline void has_header(struct fixture *x, size_t i, const char *line)
{
        if (!strstr(request_of(x, i), text_format("\r\n%s\r\n", line)))
                fail_msg("no \"%s\": %s", line, request_of(x, i));
}

#endif
