/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire.h"

/* Where a message ends, and what is no message at all: nothing may be read as a request that its sender did not mean.
 */

#define HOST "Host: localhost\r\n"
#define POST "POST /v1/regions HTTP/1.1\r\n" HOST "Content-Type: application/json\r\n"
#define GOOD "{\"size\":1}"

static void assert_counts(struct worker *w, const char *bytes, size_t answers, size_t good)
{
        const char *said = wire_talk(w, bytes, strlen(bytes));

        if (text_count(said, "HTTP/1.1 ") != answers || text_count(said, "HTTP/1.1 20") != good)
                print_error("%.300s\n→ %s\n", bytes, said);
        assert_int_equal(text_count(said, "HTTP/1.1 "), answers);
        assert_int_equal(text_count(said, "HTTP/1.1 20"), good);
}

/* What could be read in two ways is refused, and what follows on the connection is not read at all. */
ON_WORKER(an_ambiguous_length_is_refused_and_the_connection_closed)
{
        static const char *const bodies[] = { GOOD, "a\r\n" GOOD "\r\n0\r\n\r\n" };

        FOR_EACH_TEXT (
                head, "Content-Length: 10\r\nContent-Length: 10\r\n", "Content-Length: 0\r\nContent-Length: 10\r\n",
                "Content-Length: 10, 10\r\n", "Content-Length:\r\n", "Content-Length: 18446744073709551626\r\n",
                /* 10 in 64 bits */ "Content-Length: 10\r\nTransfer-Encoding: chunked\r\n",
                "Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: chunked, gzip\r\n",
                "Transfer-Encoding: identity\r\n", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n") {
                for (size_t j = 0; j < 2; j++) {
                        const char *request = text_format(POST "%s\r\n%sGET /livez HTTP/1.1\r\n" HOST "\r\n", head,
                                                          bodies[j]),
                                   *said = wire_talk(w, request, strlen(request));

                        /* From 1.0.10 on the library says 501 to a coding that it does not know. */
                        if (strncmp(said, "HTTP/1.1 501", 12) != 0) {
                                if (strncmp(said, "HTTP/1.1 4", 10) != 0)
                                        print_error("%s→ %s\n", request, said);
                                assert_memory_equal(said, "HTTP/1.1 4", 10);
                        }
                        assert_int_equal(text_count(said, "HTTP/1.1 "), 1);
                }
        }
        worker_await_metric(w, "ferry_regions", 0);
        worker_assert_serving(w);
}

/* The gate judges first heads alone; what libmicrohttpd says to later ones depends on its version. */
ON_WORKER(a_later_head_with_a_bad_length_ends_the_connection)
{
        FOR_EACH_TEXT (length, "-1", "10, 10", "18446744073709551626") {
                const char *requests =
                                   text_format("GET /livez HTTP/1.1\r\n" HOST "\r\n" POST
                                               "Content-Length: %s\r\n\r\n" GOOD "GET /livez HTTP/1.1\r\n" HOST "\r\n",
                                               length),
                           *said = wire_talk(w, requests, strlen(requests));

                assert_int_equal(text_count(said, "HTTP/1.1 2"), 1);
                assert_in_range(text_count(said, "HTTP/1.1 4"), 1, 2);
        }
        worker_await_metric(w, "ferry_regions", 0);
}

ON_WORKER(old_http_has_no_chunks)
{
        wire_expect(w, 400,
                    "POST /v1/regions HTTP/1.0\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "a\r\n" GOOD "\r\n0\r\n\r\n");
        wire_expect(w, 201,
                    "POST /v1/regions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n" GOOD);
        worker_await_metric(w, "ferry_regions", 1);
}

ON_WORKER(broken_chunks_make_nothing)
{
        static const char *const bodies[] = {
                "x\r\n" GOOD "\r\n0\r\n\r\n",
                "-1\r\n" GOOD "\r\n0\r\n\r\n",
                "\r\n" GOOD "\r\n0\r\n\r\n",
                "ffffffffffffffffffff\r\n" GOOD "\r\n0\r\n\r\n",
                "fffffffffffffffb\r\n" GOOD "\r\n0\r\n\r\n",
                "c\r\n" GOOD "\r\n0\r\n\r\n",
                "5\r\n" GOOD "\r\n0\r\n\r\n",
                "a\r\n" GOOD "0\r\n\r\n",
                "a\r\n" GOOD "\r\n",
                "a\r\n{\"size\"",
                "a",
                "",
        };

        for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
                const char *request = text_format(POST "Transfer-Encoding: chunked\r\n\r\n%s", bodies[i]),
                           *said = wire_talk(w, request, strlen(request));

                if (text_count(said, "HTTP/1.1 2"))
                        fail_msg("%s\n→ %s", request, said);
        }
        worker_await_metric(w, "ferry_regions", 0);
        worker_assert_serving(w);
}

ON_WORKER(what_is_not_http_gets_no_success)
{
        static const struct {
                const char *bytes;
                size_t size;
        } rows[] = {
#define BYTES(text) text, sizeof(text) - 1
                { BYTES("hello\r\n\r\n") },
                { BYTES("GET /livez HTTP/2.0\r\n" HOST "\r\n") },
                { BYTES("GET livez HTTP/1.1\r\n" HOST "\r\n") },
                { BYTES("GET /livez HTTP/1.1\r\nHost: loc") },
                { BYTES("GET /livez HTTP/1.1\r\nHost: local\0host\r\n\r\n") },
                { BYTES("\xff\xfe\xfd\xfc\r\n\r\n") },
#undef BYTES
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                const char *said = wire_talk(w, rows[i].bytes, rows[i].size);

                if (strstr(said, "HTTP/1.1 2") || strstr(said, "HTTP/1.0 2"))
                        print_error("%zu: %s\n→ %s\n", i, rows[i].bytes, said);
                assert_null(strstr(said, "HTTP/1.1 2"));
                assert_null(strstr(said, "HTTP/1.0 2"));
                /* What ends before its empty line gets no answer. */
                unsigned answers = memmem(rows[i].bytes, rows[i].size, "\r\n\r\n", 4) ? 1 : 0;
                test_row(rows[i].bytes);
                assert_int_equal(text_count(said, "HTTP/1.1 "), answers);
                assert_int_equal(text_count(said, "Content-Type: application/problem+json\r\n"), answers);
                assert_int_equal(text_count(said, "Request-Id: "), answers);
        }
        worker_assert_serving(w);
}

/* No line ends in these, so that nothing can be answered; the worker waits for more, and serves the others. */
ON_WORKER(bytes_without_a_line_disturb_nobody)
{
        static const char zeros[4096], blanks[] = "\r\n\r\n\r\n\r\n",
                                       tls[] = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
        const struct {
                const char *bytes;
                size_t size;
        } rows[] = {
                { zeros, sizeof(zeros) },
                { blanks, sizeof(blanks) - 1 },
                { tls, sizeof(tls) - 1 },
                { GOOD, 10 },
        };
        enum { N = sizeof(rows) / sizeof(rows[0]) };
        int fds[N];

        for (size_t i = 0; i < N; i++) {
                fds[i] = raw_connect(w);
                raw_send(fds[i], rows[i].bytes, rows[i].size);
        }
        worker_assert_serving(w);
        for (size_t i = 0; i < N; i++)
                wire_abort(fds[i]);
        worker_assert_serving(w);
}

/* It may send for a while, so that it gets to read its answer. */
ON_WORKER(a_refused_client_that_sends_on_and_on_is_cut_off)
{
        enum { PIECE = 1 << 20, PIECES = 256 };
        static const char piece[PIECE];
        int fd = raw_connect(w), sent = 0;

        raw_send(fd, POST "Content-Length: no\r\n\r\n", strlen(POST "Content-Length: no\r\n\r\n"));
        while (sent < PIECES && send(fd, piece, PIECE, MSG_NOSIGNAL) > 0)
                sent++;
        assert_in_range(sent, 1, PIECES - 1);
        (void)close(fd);
}

ON_WORKER(the_absolute_form_and_hidden_slashes_are_understood)
{
        wire_expect(w, 200, "GET http://localhost/livez HTTP/1.1\r\n" HOST "\r\n");
        wire_expect(w, 200, "GET http://localhost HTTP/1.1\r\nHost: evil.example\r\n\r\n");
        wire_refused(w, 421, "host-refused", "GET http://evil.example/livez HTTP/1.1\r\n" HOST "\r\n");
        wire_refused(w, 421, "host-refused", "GET http:///livez HTTP/1.1\r\n" HOST "\r\n");
        wire_refused(w, 404, "not-found", "GET /v1%%2fworker HTTP/1.1\r\n" HOST "\r\n");
        wire_refused(w, 404, "not-found", "GET /v1%%2Fregions HTTP/1.1\r\n" HOST "\r\n");
}

/* ---- connections ---- */

ON_WORKER(http_1_0_closes)
{
        const char *said;

        said = wire_talk(w, "GET /livez HTTP/1.0\r\n\r\n", 23);
        assert_non_null(strstr(said, " 200 "));
        assert_non_null(strstr(said, "{\"status\":\"live\"}"));
}

ON_WORKER(pipelined_requests_are_answered_in_order)
{
        enum { N = 100 };
        char *requests = malloc(N * 200), *at = requests;
        const char *said;
        const char *answer;
        int fd;

        for (int i = 0; i < N; i++)
                at += sprintf(at, "%s HTTP/1.1\r\n" HOST "Request-Id: n%d\r\n%s\r\n%s",
                              i % 3 == 0   ? "HEAD /livez"
                              : i % 3 == 1 ? "GET /livez"
                                           : "POST /v1/regions",
                              i,
                              i % 3 == 2 ? "Content-Type: application/json\r\nContent-Length: 10\r\n"
                                         : (i == N - 1 ? "Connection: close\r\n" : ""),
                              i % 3 == 2 ? GOOD : "");
        fd = raw_connect(w);
        raw_send(fd, requests, (size_t)(at - requests));
        said = wire_read_rest(fd, NULL);
        (void)close(fd);
        assert_int_equal(text_count(said, "HTTP/1.1 20"), N);
        answer = said;
        for (int i = 0; i < N; i++) {
                answer = strstr(answer, text_format("Request-Id: n%d\r\n", i));
                assert_non_null(answer);
        }
        worker_await_metric(w, "ferry_regions", N / 3);
        free(requests);
}

/* After any refusal of a request without a body, or of its body, the connection goes on. */
ON_WORKER(a_connection_outlives_refusals)
{
        assert_counts(w,
                      "GET /nowhere HTTP/1.1\r\n" HOST "\r\n"
                      "DELETE /v1/worker HTTP/1.1\r\n" HOST "\r\n" POST "Content-Length: 3\r\n\r\nbad"
                      "POST /v1/regions/rgn_0000000000000001/content HTTP/1.1\r\n" HOST "\r\n"
                      "GET /v1/worker?x=1 HTTP/1.1\r\n" HOST "\r\n"
                      "GET /livez HTTP/1.1\r\nHost: evil.example\r\n\r\n"
                      "GET /livez HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n",
                      7, 1);
}

/* A body where none is taken is read and forgotten. */
ON_WORKER(a_body_that_nobody_wants_is_no_second_request)
{
        assert_counts(w,
                      "GET /livez HTTP/1.1\r\n" HOST
                      "Content-Length: 36\r\n\r\nDELETE /v1/worker HTTP/1.1\r\nX: y\r\n\r\n"
                      "GET /livez HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n",
                      2, 2);
}

ON_WORKER(a_request_may_come_byte_by_byte)
{
        static const char request[] = POST "Content-Length: 10\r\n\r\n" GOOD;
        int fd;

        fd = raw_connect(w);
        for (size_t i = 0; i < strlen(request); i++)
                raw_send(fd, request + i, 1);
        struct raw_answer answer = raw_end(fd);
        assert_int_equal(answer.status, 201);
}
