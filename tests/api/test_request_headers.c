/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire.h"

/*
 * Request headers that change what a request means: Content-Range, Content-Encoding, If-Match, If-None-Match, Expect.
 */

#define HOST "Host: localhost\r\n"
#define POST "POST /v1/regions HTTP/1.1\r\n" HOST "Content-Type: application/json\r\n"
#define GOOD "{\"size\":1}"

/* As `curl -C 4 -T FILE` sends it. */
ON_WORKER(a_resumed_upload_goes_where_content_range_says)
{
        static const struct {
                const char *query, *range, *bytes, *then;
                int status;
                const char *code;
        } rows[] = {
                { "", "bytes 4-9/10", "456789", "....456789", 204, NULL },
                { "", "bytes 0-3/10", "0123", "0123456789", 204, NULL },
                { "", "bytes 9-9/*", "Z", "012345678Z", 204, NULL },
                { "", "bytes 3-4/5", "ab", "012ab5678Z", 204, NULL },
                /* Nothing of these is stored. */
                { "", "bytes 4-9/10", "!!", "012ab5678Z", 400, "invalid-parameter" },
                { "", "bytes 4-5", "!!", "012ab5678Z", 400, "invalid-parameter" },
                { "", "bytes */10", "!!", "012ab5678Z", 400, "invalid-parameter" },
                { "?offset=4", "bytes 4-5/10", "!!", "012ab5678Z", 400, "invalid-parameter" },
                { "", "bytes 9-10/11", "!!", "012ab5678Z", 413, "too-large" },
                { "", "bytes 11-12/13", "!!", "012ab5678Z", 400, "out-of-bounds" },
                { "", "bytes 18446744073709551614-18446744073709551615/*", "!!", "012ab5678Z", 400,
                  "invalid-parameter" },
        };

        const char *id = digits_make(w);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct raw_answer answer = wire_ask(
                        w, "PUT %s%s HTTP/1.1\r\nHost: localhost\r\nContent-Range: %s\r\nContent-Length: %zu\r\n\r\n%s",
                        region_path(id, "/content"), rows[i].query, rows[i].range, strlen(rows[i].bytes),
                        rows[i].bytes);

                if (rows[i].code) {
                        answer_assert_problem(&answer, rows[i].status, rows[i].code);
                } else {
                        assert_int_equal(answer.status, rows[i].status);
                }
                digits_assert(w, id, rows[i].then);
        }
        /* Only the end of a chunked body tells that it has fewer bytes, or more. */
        wire_refused(w, 400, "invalid-parameter",
                     "PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Range: bytes 0-3/10\r\n"
                     "Transfer-Encoding: chunked\r\n\r\n2\r\nxy\r\n0\r\n\r\n",
                     region_path(id, "/content"));
        wire_refused(w, 400, "invalid-parameter",
                     "PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Range: bytes 0-1/10\r\n"
                     "Transfer-Encoding: chunked\r\n\r\n2\r\nxy\r\n1\r\nz\r\n0\r\n\r\n",
                     region_path(id, "/content"));
        digits_assert(w, id, "xy2ab5678Z");
}

ON_WORKER(an_encoded_body_is_refused)
{
        const char *id = digits_make(w);

        wire_refused(w, 415, "unsupported-media-type",
                     "PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n!!",
                     region_path(id, "/content"));
        wire_refused(w, 415, "unsupported-media-type",
                     "POST /v1/regions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                     "Content-Encoding: br\r\nContent-Length: 10\r\n\r\n{\"size\":1}");
        digits_assert(w, id, "..........");
        wire_expect(w, 204,
                    "PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: identity\r\nContent-Length: 2\r\n\r\nab",
                    region_path(id, "/content"));
        digits_assert(w, id, "ab........");
}

/* Content has no ETag: only "*" can match. */
ON_WORKER(preconditions_hold_or_nothing_is_stored)
{
        const char *id = digits_make(w);

        wire_refused(w, 412, "precondition-failed",
                     "PUT %s HTTP/1.1\r\nHost: localhost\r\nIf-Match: \"r1\"\r\nContent-Length: 2\r\n\r\n!!",
                     region_path(id, "/content"));
        wire_refused(w, 412, "precondition-failed",
                     "PUT %s HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: *\r\nContent-Length: 2\r\n\r\n!!",
                     region_path(id, "/content"));
        digits_assert(w, id, "..........");
        wire_expect(w, 204, "PUT %s HTTP/1.1\r\nHost: localhost\r\nIf-Match: *\r\nContent-Length: 2\r\n\r\nab",
                    region_path(id, "/content"));
        digits_assert(w, id, "ab........");
        wire_refused(w, 412, "precondition-failed", "DELETE %s HTTP/1.1\r\nHost: localhost\r\nIf-Match: \"x\"\r\n\r\n",
                     region_path(id, ""));
}

ON_WORKER(what_changes_an_operation_heeds_if_match)
{
        static const struct {
                const char *method, *rest, *header;
                int status;
        } rows[] = {
                { "POST", "/cancel", "If-Match: \"r99\"", 412 },     { "POST", "/cancel", "If-Match: W/\"r1\"", 412 },
                { "POST", "/cancel", "If-None-Match: \"r1\"", 412 }, { "POST", "/renew", "If-Match: \"r99\"", 412 },
                { "DELETE", "", "If-Match: \"r99\"", 412 },          { "GET", "", "If-Match: \"r99\"", 412 },
                { "GET", "", "If-Match: \"r99\", \"r1\"", 200 },     { "POST", "/cancel", "If-Match: \"r1\"", 200 },
                { "DELETE", "", "If-Match: \"r1\"", 412 },           { "DELETE", "", "If-Match: *", 204 },
        };
        OPERATION operation;
        const char *region = region_make(w, 10, 0);

        offer_make(w, FERRY_READABLE, region, &operation);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                wire_expect(w, rows[i].status, "%s /v1/operations/%s%s HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n",
                            rows[i].method, operation.id, rows[i].rest, rows[i].header);
}

/* Clients choose what stands in the log; they cannot make a line or a field of it. */
#define TRACE "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

ON_WORKER(names_of_requests_put_nothing_of_their_own_into_the_log, "--log-level", "debug", "--http-threads", "1")
{
        const char *log;

        wire_expect(w, 200,
                    "GET /livez HTTP/1.1\r\nHost: localhost\r\nRequest-Id: good-1\r\nConnection: close\r\n"
                    "traceparent: " TRACE "\r\n\r\n");
        FOR_EACH_TEXT (id, "x owned=1", "x\" level=error msg=\"owned", "x\\\" owned=1", "owned\x1b[31m", "owned\x7f",
                       "owned\xff", "owned,x", "owned%0alevel=error",
                       "owned0123456789012345678901234567890123456789012345678901234567890") {
                struct raw_answer answer = wire_ask(
                        w, "GET /livez HTTP/1.1\r\nHost: localhost\r\nRequest-Id: %s\r\ntraceparent: %s\r\n\r\n", id,
                        id);

                assert_int_equal(answer.status, 200);
                assert_non_null(strstr(answer.head, "Request-Id: req_"));
                assert_null(strstr(answer.head, "owned"));
        }
        wire_expect(w, 200, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"); /* the others are logged now */
        log = worker_log(w);
        assert_non_null(strstr(log, "request_id=good-1 traceparent=" TRACE "\n"));
        assert_null(strstr(log, "owned"));
}

/* ---- Expect: 100-continue ---- */

ON_WORKER(a_good_request_is_told_to_continue)
{
        const char *head;
        int fd;

        fd = raw_connect(w);
        raw_send(fd, POST "Content-Length: 10\r\nExpect: 100-continue\r\n\r\n",
                 strlen(POST "Content-Length: 10\r\nExpect: 100-continue\r\n\r\n"));
        head = raw_read_head(fd);
        assert_string_equal(head, "HTTP/1.1 100 Continue\r\n\r\n");
        raw_send(fd, GOOD, strlen(GOOD));
        struct raw_answer answer = raw_end(fd);
        assert_int_equal(answer.status, 201);
}

/* By the head alone. */
static void assert_refused_at_once(const struct worker *w, const char *head, int status, const char *code)
{
        char first[16] = "";
        int fd = raw_begin(w, head);
        /* raw_receive would pass over a 100, so its absence is looked at first. */
        assert_int_equal(recv(fd, first, 12, MSG_PEEK | MSG_WAITALL), 12);
        assert_string_not_equal(first, "HTTP/1.1 100");
        struct raw_answer answer = raw_end(fd);
        if (answer.status != status)
                print_error("%s", head);
        answer_assert_problem(&answer, status, code);
}

/* The refusal comes before the body, so that a gigabyte is not sent for nothing, asked for or not. */
ON_WORKER(a_refusal_comes_instead_of_continue)
{
        static const struct {
                const char *head;
                int status;
                const char *code;
        } rows[] = {
                { "PUT /v1/regions/rgn_0000000000000001/content HTTP/1.1\r\n" HOST "Content-Length: 1073741824\r\n",
                  404, "not-found" },
                { "PUT REGION HTTP/1.1\r\n" HOST "Content-Length: 1073741824\r\n", 413, "too-large" },
                { "PUT REGION HTTP/1.1\r\n" HOST "Content-Length: 11\r\n", 413, "too-large" },
                { "PUT REGION HTTP/1.1\r\n" HOST "Content-Type: text/plain\r\nContent-Length: 5\r\n", 415,
                  "unsupported-media-type" },
                { "PUT REGION?offset=11 HTTP/1.1\r\n" HOST "Content-Length: 5\r\n", 400, "out-of-bounds" },
                { "PUT REGION?offset=x HTTP/1.1\r\n" HOST "Content-Length: 5\r\n", 400, "invalid-parameter" },
                { "PUT REGION HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 5\r\n", 421, "host-refused" },
                { "PUT REGION HTTP/1.1\r\n" HOST "Origin: null\r\nContent-Length: 5\r\n", 403, "origin-refused" },
                { POST "Content-Length: 1073741824\r\n", 413, "too-large" },
                { "POST /v1/regions HTTP/1.1\r\n" HOST "Content-Length: 10\r\n", 415, "unsupported-media-type" },
                { "PATCH /v1/regions HTTP/1.1\r\n" HOST "Content-Length: 10\r\n", 405, "method-not-allowed" },
                { "PUT /nowhere HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n", 404, "not-found" },
        };
        const char *id = region_make(w, 10, 1);

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                const char *region = strstr(rows[i].head, "REGION");
                const char *head = region ? text_format("%.*s%s%s", (int)(region - rows[i].head), rows[i].head,
                                                        region_path(id, "/content"), region + strlen("REGION"))
                                          : rows[i].head;

                assert_refused_at_once(w, text_format("%sExpect: 100-continue\r\n\r\n", head), rows[i].status,
                                       rows[i].code);
                if (strstr(head, "1073741824"))
                        assert_refused_at_once(w, text_format("%s\r\n", head), rows[i].status, rows[i].code);
        }
        region_assert_pattern(w, id, 1, 0, 10);
}
