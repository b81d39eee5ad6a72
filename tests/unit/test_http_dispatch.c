/* SPDX-License-Identifier: Apache-2.0 */
#include "http_fixture.h"
#include "unit.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

WITH_HTTP(an_unknown_path_is_not_found)
{
        expect_problem(http_call(h, "GET", "/v2/worker", "", NULL), 404, "not-found");
        expect_problem(http_call(h, "GET", "/v1/worker/", "", NULL), 404, "not-found");
        expect_problem(http_call(h, "POST", "/nowhere", "", "{}"), 404, "not-found");
}

WITH_HTTP(a_wrong_method_is_told_the_right_ones)
{
        struct raw_answer reply = http_call(h, "PATCH", "/v1/regions", "", "{}");

        assert_string_equal(raw_header(&reply, "Allow"), "GET, HEAD, POST");
        expect_problem(reply, 405, "method-not-allowed");
}

WITH_HTTP(head_has_the_head_of_get_and_no_body)
{
        struct raw_answer get = http_call(h, "GET", "/livez", "", NULL);
        struct raw_answer head = http_call(h, "HEAD", "/livez", "", NULL);

        const char *length = text_format("%zu", get.body_size);
        assert_int_equal(head.status, 200);
        assert_int_equal(head.body_size, 0);
        assert_string_equal(raw_header(&head, "Content-Length"), length);
}

WITH_HTTP(a_valid_request_id_comes_back)
{
        struct raw_answer reply = http_call(h, "GET", "/livez", "Request-Id: my.id-1\r\n", NULL);

        assert_string_equal(raw_header(&reply, "Request-Id"), "my.id-1");
        reply = http_call(h, "GET", "/livez", "Request-Id: not valid\r\n", NULL);
        assert_memory_equal(raw_header(&reply, "Request-Id"), "req_", 4);
}

WITH_HTTP(an_unknown_or_repeated_parameter_is_refused)
{
        expect_problem(http_call(h, "GET", "/v1/worker?x=1", "", NULL), 400, "invalid-parameter");
        expect_problem(http_call(h, "GET", "/v1/regions?limit=1&limit=1", "", NULL), 400, "invalid-parameter");
        expect_status(http_call(h, "GET", "/v1/regions?limit=11", "", NULL), 200); /* as many as a page has */
        expect_problem(http_call(h, "GET", "/v1/regions?limit", "", NULL), 400, "invalid-parameter");
}

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

WITH_HTTP(a_foreign_host_is_refused)
{
        expect_problem(http_raw(h, "GET /livez HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"), 421,
                       "host-refused");
        expect_status(http_raw(h, "GET /livez HTTP/1.1\r\nHost: [::1]:1\r\nConnection: close\r\n\r\n"), 200);
        expect_status(http_raw(h, "GET /livez HTTP/1.0\r\n\r\n"), 200);
}

WITH_HTTP(a_foreign_origin_is_refused)
{
        static const char *const allowed[] = { "https://ui.example" };
        struct raw_answer reply;

        expect_problem(http_call(h, "GET", "/livez", "Origin: https://evil.example\r\n", NULL), 403, "origin-refused");
        http_stop(h);
        h->config.allow_origin = allowed;
        h->config.n_allow_origin = 1;
        http_start(h);
        expect_problem(http_call(h, "GET", "/livez", "Origin: null\r\n", NULL), 403, "origin-refused");
        reply = http_call(h, "GET", "/nowhere", "Origin: https://ui.example\r\n", NULL);
        assert_string_equal(raw_header(&reply, "Access-Control-Allow-Origin"), "https://ui.example");
        expect_problem(reply, 404, "not-found");
        reply = expect_status(http_call(h, "OPTIONS", "/v1/regions",
                                        "Origin: https://ui.example\r\nAccess-Control-Request-Method: POST\r\n", NULL),
                              204);
        assert_non_null(strstr(raw_header(&reply, "Access-Control-Allow-Methods"), "POST"));
}

WITH_HTTP(tokens_open_what_they_are_for)
{
        struct raw_answer reply;

        http_stop(h);
        h->config.secrets.token = "full";
        h->config.secrets.peer_token = "peer";
        http_start(h);
        reply = http_call(h, "GET", "/v1/worker", "", NULL);
        assert_string_equal(raw_header(&reply, "WWW-Authenticate"), "Bearer");
        expect_problem(reply, 401, "unauthenticated");
        expect_problem(http_call(h, "GET", "/v1/limits", "Authorization: Bearer peer\r\n", NULL), 403, "forbidden");
        expect_status(http_call(h, "GET", "/v1/worker", "Authorization: Bearer peer\r\n", NULL), 200);
        expect_status(http_call(h, "GET", "/v1/worker", "Authorization: Bearer full\r\n", NULL), 200);
        expect_problem(http_call(h, "GET", "/v1/operations/op_0000000000000001/metadata",
                                 "Authorization: Bearer peer\r\n", NULL),
                       404, "not-found");
        expect_status(http_call(h, "GET", "/readyz", "", NULL), 200);
        expect_problem(http_call(h, "POST", "/v1/regions", "", "{\"size\":1}"), 401, "unauthenticated");
}

/* Our problem, or the library's own page: 400, with 1.0.10 also 501; and nothing after it until the end. */
static void expect_framing_refused(struct raw_answer reply)
{
        const char *type = raw_header(&reply, "Content-Type");

        assert_null(strstr(reply.body, "HTTP/1."));
        assert_string_equal(reply.rest, "");
        if (type && !strcmp(type, "application/problem+json")) {
                expect_problem(reply, 400, "invalid-parameter");
                return;
        }
        if (reply.status != 400 && reply.status != 501)
                fail_msg("not refused: %s", reply.head);
        assert_string_equal(raw_header(&reply, "Connection"), "close");
}

WITH_HTTP(doubtful_framing_ends_the_connection)
{
        char text[512];

        FOR_EACH_TEXT (head, "Content-Length: 2\r\nContent-Length: 2\r\n",
                       "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: gzip, chunked\r\n",
                       "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "Host: localhost\r\n") {
                /* What follows must never be taken for a request of its own. */
                snprintf(text, sizeof(text),
                         "POST /v1/regions HTTP/1.1\r\nHost: localhost\r\n%s\r\n{}"
                         "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
                         head);
                expect_framing_refused(http_raw(h, text));
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
        static const char *const bodies[] = { "Content-Length: 60000000\r\n\r\n",
                                              "Transfer-Encoding: chunked\r\n\r\n" };
        static const char some[1 << 20];

        http_stop(h);
        h->config.secrets = (struct http_secrets){ .token = "full-token", .peer_token = "peer-token" };
        http_start(h);
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(rows); i++)
                for (size_t k = 0; k < FERRY_ARRAY_SIZE(bodies); k++) {
                        const char *head = text_format("%s%s", rows[i].line, bodies[k]);
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

WITH_HTTP(a_body_too_large_is_refused_by_length_and_in_chunks)
{
        char *body = malloc(70001), head[256];
        int fd;

        memset(body, ' ', 70000);
        body[70000] = '\0';
        expect_problem(http_call(h, "POST", "/v1/regions", "", body), 413, "too-large");
        fd = raw_dial(h->port);
        snprintf(head, sizeof(head),
                 "POST /v1/regions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                 "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n",
                 70000);
        raw_send(fd, head, strlen(head));
        raw_send(fd, body, 70000);
        raw_send(fd, "\r\n0\r\n\r\n", 7);
        expect_problem(raw_receive_last(fd), 413, "too-large");
        free(body);
}

WITH_HTTP(who_expects_100_is_refused_before_the_body)
{
        expect_problem(http_raw(h, "POST /v1/regions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
                                   "Content-Type: application/json\r\nContent-Length: 9999999\r\n\r\n"),
                       413, "too-large");
}

WITH_HTTP(a_body_that_is_no_json_is_refused)
{
        expect_problem(http_call(h, "POST", "/v1/regions", "", "{\"size\":"), 400, "invalid-json");
        expect_problem(http_call(h, "POST", "/v1/regions", "", NULL), 400, "invalid-json");
        expect_problem(http_raw(h, "POST /v1/regions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                                   "Content-Length: 10\r\nContent-Type: text/plain\r\n\r\n{\"size\":1}"),
                       415, "unsupported-media-type");
        expect_problem(http_raw(h, "POST /v1/regions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                                   "Content-Length: 10\r\n\r\n{\"size\":1}"),
                       415, "unsupported-media-type");
}

WITH_HTTP(a_draining_server_takes_no_new_work)
{
        struct raw_answer reply;

        http_server_drain(h->server);
        reply = http_call(h, "POST", "/v1/regions", "", "{\"size\":1}");
        assert_non_null(raw_header(&reply, "Retry-After"));
        expect_problem(reply, 503, "draining");
        expect_problem(http_call(h, "GET", "/readyz", "", NULL), 503, "draining");
        expect_status(http_call(h, "GET", "/livez", "", NULL), 200);
        expect_status(http_call(h, "GET", "/v1/regions", "", NULL), 200);
}

WITH_HTTP(a_unix_socket_is_private_and_asks_for_no_host)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        char listen[sizeof("unix:") + sizeof(address.sun_path)];
        struct stat status;
        int fd;

        snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/ferry-test-%d.sock", getpid());
        snprintf(listen, sizeof(listen), "unix:%s", address.sun_path);
        http_stop(h);
        h->listen[0] = listen;
        http_start(h);
        assert_string_equal(http_server_url(h->server, 0), listen);
        assert_null(http_server_url(h->server, 1));
        assert_int_equal(stat(address.sun_path, &status), 0);
        assert_int_equal(status.st_mode & 0777, 0600);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        static const char request[] = "GET /livez HTTP/1.1\r\nHost: what.ever\r\nConnection: close\r\n\r\n";
        raw_send(fd, request, strlen(request));
        expect_status(raw_receive_last(fd), 200);
        http_stop(h);
        assert_int_equal(access(address.sun_path, F_OK), -1);
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

WITH_HTTP(requests_are_counted_by_route_and_code)
{
        struct raw_answer reply;

        expect_status(http_call(h, "GET", "/livez", "", NULL), 200);
        expect_problem(http_call(h, "GET", "/nowhere", "", NULL), 404, "not-found");
        reply = expect_status(http_call(h, "GET", "/metrics", "", NULL), 200);
        assert_non_null(strstr(reply.body, "ferry_http_requests_total{route=\"getLivez\",code=\"200\"} 1\n"));
        assert_non_null(strstr(reply.body, "ferry_http_requests_total{route=\"none\",code=\"404\"} 1\n"));
        assert_non_null(strstr(reply.body, "ferry_http_waiters 0\n"));
        assert_memory_equal(raw_header(&reply, "Content-Type"), "text/plain; version=0.0.4", 25);
}

WITH_HTTP(the_documents_about_the_worker_are_there)
{
        static const struct {
                const char *path, *field;
        } documents[] = { { "/", "links" },
                          { "/v1/worker", "epoch" },
                          { "/v1/devices", "gpu_direct_rdma" },
                          { "/v1/limits", "body_max" } };
        struct raw_answer reply;

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(documents); i++) {
                reply = expect_status(http_call(h, "GET", documents[i].path, "", NULL), 200);
                assert_non_null(reply_field(&reply, documents[i].field));
                assert_string_equal(raw_header(&reply, "Cache-Control"), "no-store");
        }
        reply = expect_status(http_call(h, "GET", "/openapi.yaml", "", NULL), 200);
        assert_non_null(strstr(reply.body, "openapi: 3."));
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
