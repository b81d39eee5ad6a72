/* SPDX-License-Identifier: Apache-2.0 */
#include "http_fixture.h"
#include "unit.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* Our problem, or from 1.0.10 on the library's own page. */
WITH_HTTP(a_malformed_escape_is_refused)
{
        static const char *const paths[] = { "/%zz", "/%", "/v1/regions%00x" };

        for (size_t i = 0; i < 3; i++) {
                struct raw_answer reply = http_call(h, "GET", paths[i], "", NULL);

                if (reply.status != 404)
                        assert_int_equal(reply.status, 400);
        }
}

#define FULL "Authorization: Bearer full-token\r\n"
#define PEER "Authorization: Bearer peer-token\r\n"

/* The answer comes while the body does not, and is not lost when a part of the body comes after it. */
WITH_HTTP(a_request_refused_by_its_head_is_answered_and_let_go)
{
        static const struct {
                const char *line;
                int status;
                const char *code;
        } rows[] = {
                { "POST /v1/regions HTTP/1.1\r\nHost: localhost\r\n", 401, "unauthenticated" },
                { "PUT /v1/regions/rgn_0000000000000001/content HTTP/1.1\r\nHost: localhost\r\n" PEER, 403,
                  "forbidden" },
                { "POST /nowhere HTTP/1.1\r\nHost: localhost\r\n", 404, "not-found" },
                { "PUT /v1/regions/rgn_0000000000000001/content HTTP/1.1\r\nHost: localhost\r\n" FULL, 404,
                  "not-found" },
                { "PUT /v1/regions HTTP/1.1\r\nHost: localhost\r\n", 405, "method-not-allowed" },
                { "POST /v1/regions HTTP/1.1\r\nHost: localhost\r\n" FULL, 415, "unsupported-media-type" },
                { "POST /v1/regions HTTP/1.1\r\nHost: evil.example\r\n" FULL, 421, "host-refused" },
        };
        static const char some[1 << 20];

        http_stop(h);
        h->config.secrets = (struct http_secrets){ .token = "full-token", .peer_token = "peer-token" };
        http_start(h);
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(rows); i++)
                FOR_EACH_TEXT (body, "Content-Length: 60000000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n") {
                        const char *head = text_format("%s%s", rows[i].line, body);
                        struct raw_answer reply;
                        int fd = raw_dial(h->port);

                        test_row(head);
                        raw_send(fd, head, strlen(head));
                        WAIT_UNTIL(recv(fd, &(char){ 0 }, 1, MSG_PEEK | MSG_DONTWAIT) == 1);
                        raw_send(fd, some, sizeof(some));
                        (void)shutdown(fd, SHUT_WR);
                        reply = raw_receive_last(fd);
                        assert_string_equal(raw_header(&reply, "Connection"), "close");
                        assert_string_equal(reply.rest, "");
                        expect_problem(reply, rows[i].status, rows[i].code);
                }
}

WITH_HTTP(addresses_in_use_or_malformed_are_refused)
{
        struct http_server *other;
        struct http_config config = h->config;
        char taken[64];
        const char *listen[1] = { taken };

        snprintf(taken, sizeof(taken), "127.0.0.1:%u", h->port);
        config.listen = listen;
        config.metrics = NULL;
        assert_int_equal(http_server_new(&config, &other), -EADDRINUSE);
        listen[0] = "127.0.0.1";
        assert_int_equal(http_server_new(&config, &other), -EINVAL);
        listen[0] = "unix:";
        assert_int_equal(http_server_new(&config, &other), -EINVAL);
}

/* So many bytes of a body of size that does not end yet. */
static int hold_body(struct http_fixture *h, size_t size, size_t sent)
{
        char head[256], *body = unit_alloc(sent);
        int fd = raw_dial(h->port);

        memset(body, ' ', sent);
        raw_send(fd, head,
                 (size_t)snprintf(head, sizeof(head),
                                  "POST /v1/regions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                                  "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                                  size));
        raw_send(fd, body, sent);
        free(body);
        return fd;
}

static bool bodies_take(struct http_fixture *h, const char *sample)
{
        FERRY_CLEANUP(cleanup_free) char *text = NULL;
        size_t size;

        text = metrics_render(h->f->metrics, &size);
        return text && strstr(text, sample);
}

static void limit_bodies(struct http_fixture *h, uint64_t max)
{
        http_stop(h);
        h->config.limits.bodies_max = max;
        http_start(h);
}

/* Two bodies of half the limit; a third one has no room, a short one has, and so has the third when one has gone. */
WITH_HTTP(bodies_share_a_limit_of_their_own)
{
        enum { LONG = 60000 };
        char *body = unit_alloc(LONG + 1);
        int fds[2];

        limit_bodies(h, 2 * 65536);
        memset(body, ' ', LONG);
        body[LONG] = '\0';
        for (size_t i = 0; i < UNIT_COUNT(fds); i++)
                fds[i] = hold_body(h, LONG, LONG - 1);
        while (!bodies_take(h, "\nferry_http_body_bytes 131072\n"))
                ;
        expect_problem(http_call(h, "POST", "/v1/regions", "", body), 429, "limit-reached");
        expect_problem(http_call(h, "POST", "/v1/regions", "", "{}"), 400, "invalid-parameter");
        raw_send(fds[0], " ", 1);
        expect_problem(raw_receive_last(fds[0]), 400, "invalid-json");
        expect_problem(http_call(h, "POST", "/v1/regions", "", body), 400, "invalid-json");
        raw_send(fds[1], " ", 1);
        expect_problem(raw_receive_last(fds[1]), 400, "invalid-json");
        while (!bodies_take(h, "\nferry_http_body_bytes 0\n"))
                ;
        free(body);
}

/* What json-c may take for them is a multiple of what has arrived. */
WITH_HTTP(bodies_share_the_limit_while_they_are_parsed)
{
        enum { LONG = 60000, USED = 50000 };
        char *body = unit_alloc(LONG + 1);
        struct raw_answer answer;
        int fds[4];

        limit_bodies(h, 8 * 65536);
        memset(body, ' ', LONG);
        (void)snprintf(body + USED, LONG - USED, "{\"size\":%d}", REGION_SIZE);
        for (size_t i = 0; i < UNIT_COUNT(fds); i++)
                fds[i] = hold_body(h, LONG, LONG - 1);
        while (!bodies_take(h, "\nferry_http_body_bytes 262144\n"))
                ;
        answer = http_call(h, "POST", "/v1/regions", "", body);
        assert_string_equal(raw_header(&answer, "Retry-After"), "1");
        expect_problem(answer, 429, "limit-reached");
        expect_problem(http_call(h, "POST", "/v1/regions", "", "{}"), 400, "invalid-parameter");
        raw_send(fds[0], " ", 1);
        expect_problem(raw_receive_last(fds[0]), 400, "invalid-json");
        expect_status(http_call(h, "POST", "/v1/regions", "", body), 201);
        for (size_t i = 1; i < UNIT_COUNT(fds); i++) {
                raw_send(fds[i], " ", 1);
                expect_problem(raw_receive_last(fds[i]), 400, "invalid-json");
        }
        while (!bodies_take(h, "\nferry_http_body_bytes 0\n"))
                ;
        free(body);
}

/* Waiting would not help it. */
WITH_HTTP(a_body_that_the_limit_has_no_room_for_is_refused_for_good)
{
        enum { OBJECTS = 10000 };
        char *body = unit_alloc(OBJECTS * 3 + 2), *at = body;
        struct raw_answer answer;

        for (size_t i = 0; i < OBJECTS; i++)
                at = stpcpy(at, i ? ",{}" : "[{}");
        (void)stpcpy(at, "]");
        answer = http_call(h, "POST", "/v1/regions", "", body);
        assert_non_null(strstr(answer.body, "more values than any document has"));
        expect_problem(answer, 400, "invalid-json");
        while (!bodies_take(h, "\nferry_http_body_bytes 0\n"))
                ;
        free(body);
}
