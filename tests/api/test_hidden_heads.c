/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire.h"

/*
 * Heads that libmicrohttpd 0.9 passes over a part of: it ends a line's text at a NUL, and adds a folded line to the
 * name of the header before. It also takes names and values as they come, where others see a blank before a colon or a
 * carriage return otherwise, and ends a line at a carriage return or a line feed alone. The length would be one thing
 * to a proxy and another to the worker, and the body would be read as the next request. Refused wherever they stand:
 * the first ones of a connection, later ones, all within TLS.
 */

#define HOST "Host: localhost\r\n"
#define JSON "Content-Type: application/json\r\n"
#define POST "POST /v1/regions HTTP/1.1\r\n" HOST JSON
#define GET "GET /livez HTTP/1.1\r\n" HOST "\r\n"
#define GOOD "{\"size\":1}"

#define BYTES(text) text, sizeof(text) - 1

static const struct {
        const char *bytes;
        size_t size;
} heads[] = {
        { BYTES(POST "Content-Length: 10\0zz\r\n\r\n") },
        { BYTES(POST "Content-Length: 10\0\0zz\r\n\r\n") },
        { BYTES(POST "Content-Length: 10\0\r\n\r\n") },
        { BYTES(POST "Content-Length: 10\0zz\r\nX: y\r\n\r\n") },
        { BYTES(POST "Content-Length: 10\0zz\nX: y\n\n") },
        { BYTES(POST "Content-Length\0: 10\r\n\r\n") },
        { BYTES(POST "X: y\0\r\nContent-Length: 10\r\n\r\n") },
        { BYTES(POST "X\0Y: y\r\nContent-Length: 10\r\n\r\n") },
        { BYTES(POST "\0X: y\r\nContent-Length: 10\r\n\r\n") },
        { BYTES(POST "\0\r\nContent-Length: 10\r\n\r\n") },
        { BYTES(POST "Content-Length: 10\r\n\0Transfer-Encoding: chunked\r\n\r\n") },
        { BYTES(POST "Content-Length: 10\r\n zz\r\n\r\n") },
        { BYTES(POST "Content-Length:\r\n 10\r\n\r\n") },
        { BYTES(POST "Transfer-Encoding: chunked\r\n\tx\r\nContent-Length: 10\r\n\r\n") },
        { BYTES(POST "Transfer-Encoding : chunked\r\nContent-Length: 10\r\n\r\n") },
        { BYTES(POST "Transfer-Encoding\t: chunked\r\nContent-Length: 10\r\n\r\n") },
        { BYTES(POST "Content-Length : 10\r\n\r\n") },
        { BYTES(POST "X: y\rTransfer-Encoding: chunked\r\nContent-Length: 10\r\n\r\n") },
        { BYTES(POST "X: y\nContent-Length: 10\r\n\r\n") },
        { BYTES(POST "Content-Length: 10\nX: y\r\n\r\n") },
        { BYTES(POST "Content-Length: 10\r\n\n") },
        { BYTES(POST "Content-Length: 10\n\n") },
        { BYTES(POST "Content-Length: 10\n\r\n") },
        { BYTES(POST "X: y\rContent-Length: 10\r\n\r\n") },
        { BYTES("POST /v1/regions HTTP/1.1\n" HOST JSON "Content-Length: 10\r\n\r\n") },
        { BYTES("POST /v1/regions\0 HTTP/1.1\r\n" HOST JSON "Content-Length: 10\r\n\r\n") },
        { BYTES("POST /v1/regions?a=b\0c HTTP/1.1\r\n" HOST JSON "Content-Length: 10\r\n\r\n") },
        { BYTES("POST /v1/regions HTTP/1.1\0\r\n" HOST JSON "Content-Length: 10\r\n\r\n") },
};
enum { N_HEADS = sizeof(heads) / sizeof(heads[0]) };

/* Everything that comes back for bytes on one connection. */
typedef const char *talk(const struct worker *w, const void *bytes, size_t size);

static const char *say_by_tls(const struct worker *w, const void *bytes, size_t size)
{
        enum { ANSWERS = 16 << 10 };
        gnutls_certificate_credentials_t credentials;
        char *said = calloc(1, ANSWERS);
        gnutls_session_t session;
        int fd = raw_connect(w), r;
        size_t n = 0;

        assert_int_equal(gnutls_certificate_allocate_credentials(&credentials), 0);
        assert_int_equal(gnutls_init(&session, GNUTLS_CLIENT), 0);
        assert_int_equal(gnutls_set_default_priority(session), 0);
        assert_int_equal(gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, credentials), 0);
        gnutls_transport_set_int(session, fd);
        do
                r = gnutls_handshake(session);
        while (r == GNUTLS_E_AGAIN || r == GNUTLS_E_INTERRUPTED);
        assert_int_equal(r, 0);
        assert_int_equal(gnutls_record_send(session, bytes, size), size);
        assert_int_equal(gnutls_bye(session, GNUTLS_SHUT_WR), 0);
        for (ssize_t more; n < ANSWERS - 1; n += (size_t)more) {
                more = gnutls_record_recv(session, said + n, ANSWERS - 1 - n);
                if (more == GNUTLS_E_AGAIN || more == GNUTLS_E_INTERRUPTED)
                        more = 0;
                else if (more <= 0)
                        break;
        }
        gnutls_deinit(session);
        gnutls_certificate_free_credentials(credentials);
        (void)close(fd);
        return text_keep(said);
}

/* The head behind those of good requests, then its body, then one more request that must not be read. */
static void assert_refused(const struct worker *w, talk *say, size_t head, size_t good)
{
        char bytes[512], *end = bytes;
        const char *said;

        for (size_t i = 0; i < good; i++)
                end = mempcpy(end, GET, strlen(GET));
        end = mempcpy(end, heads[head].bytes, heads[head].size);
        end = mempcpy(end, GOOD GET, strlen(GOOD GET));
        said = say(w, bytes, (size_t)(end - bytes));
        if (text_count(said, "HTTP/1.1 2") != good)
                print_error("head %zu behind %zu good ones\n→ %s\n", head, good, said);
        assert_int_equal(text_count(said, "HTTP/1.1 2"), good);
        /* libmicrohttpd 1.0 says nothing to a NUL in the first line. */
        assert_in_range(text_count(said, "HTTP/1.1 4"), 0, 1);
}

static void assert_all_refused(struct worker *w, talk *say)
{
        for (size_t head = 0; head < N_HEADS; head++)
                for (size_t good = 0; good < 3; good += 2)
                        assert_refused(w, say, head, good);
}

/*
 * Chunks whose lines end in two ways: others take the line feed for a part of the chunk's extension, and everything up
 * to the chunk's end by their count for its bytes, the second request included.
 */
static void assert_hidden_request_unread(struct worker *w, talk *say)
{
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"
#define HIDDEN "GET /v1/limits HTTP/1.1\r\n" HOST "\r\n"
        static const char *const requests[] = {
                CHUNKED "a;\n" GOOD "\r\n0\r\n\r\n" HIDDEN,        CHUNKED "a\n" GOOD "\r\n0\r\n\r\n" HIDDEN,
                CHUNKED "a\r\n" GOOD "\n0\r\n\r\n" HIDDEN,         CHUNKED "a\r\n" GOOD "\r\n0;\n\r\n" HIDDEN,
                CHUNKED "a\r\n" GOOD "\r\n0\r\nX: y\n\r\n" HIDDEN, CHUNKED "a\r\n" GOOD "\r\n0\r\n\n" HIDDEN,
                CHUNKED "a;\r" GOOD "\r\n0\r\n\r\n" HIDDEN,
        };

        for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
                for (size_t good = 0; good < 2; good++) {
                        const char *bytes = text_format("%s%s", good ? GET : "", requests[i]);
                        const char *said = say(w, bytes, strlen(bytes));

                        test_row(bytes);
                        assert_in_range(text_count(said, "HTTP/1.1 "), good, good + 1);
                        assert_null(strstr(said, "wait_ms_max"));
                        if (!good && say == wire_talk) /* the gate has seen the chunks, too */
                                assert_int_equal(text_count(said, "HTTP/1.1 400"), 1);
                }
}

ON_WORKER(no_request_hides_in_a_chunk)
{
        assert_hidden_request_unread(w, wire_talk);
}

ON_WORKER(heads_that_hide_something_are_refused_wherever_they_stand)
{
        assert_all_refused(w, wire_talk);
        worker_await_metric(w, "ferry_regions", 0);
}

WITH_WORKER(they_are_refused_within_tls)
{
        static const char good[] = POST "Content-Length: 10\r\nX:\r\nY: \t z\r\n\r\n" GOOD;

        worker_start_plain(w, "w",
                           STRINGS("--listen", "127.0.0.1:0", "--tls-cert", tls_path("server.pem"), "--tls-key",
                                   tls_path("server-key.pem")));
        assert_all_refused(w, say_by_tls);
        assert_hidden_request_unread(w, say_by_tls);
        assert_non_null(strstr(say_by_tls(w, good, strlen(good)), "HTTP/1.1 201"));
}
