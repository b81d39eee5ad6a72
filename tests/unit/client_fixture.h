/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_FIXTURE_H
#define CLIENT_FIXTURE_H

#include <ferry/ferry.h>

#include "test_client_server.h"
#include "unit.h"

/* A handle of libferry at a scripted server. Both go with the test. */

#define JSON(status, body)                                                                                             \
        "HTTP/1.1 " status " Yes\r\nContent-Type: application/json; charset=utf-8\r\nConnection: close\r\n\r\n" body

struct fixture {
        struct server server;
        struct ferry *ferry;
        char answer[4096]; /* of start_with_body */
        struct server_step step;
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

#define START_WITH(x, ferry_options, ...)                                                                              \
        static const struct server_step steps[] = { __VA_ARGS__ };                                                     \
        struct fixture *x = start(steps, UNIT_COUNT(steps), ferry_options)

/* The same with one answer, of that JSON. */
static inline struct fixture *start_with_body(const char *body, const struct ferry_options *options)
{
        struct fixture *x = unit_alloc(sizeof(*x));

        assert_in_range(snprintf(x->answer, sizeof(x->answer),
                                 "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n%s",
                                 body),
                        0, sizeof(x->answer) - 1);
        x->step = (struct server_step){ .answer = x->answer };
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

static inline void has_header(struct fixture *x, size_t i, const char *line)
{
        if (!strstr(request_of(x, i), text_format("\r\n%s\r\n", line)))
                fail_msg("no \"%s\": %s", line, request_of(x, i));
}

#endif
