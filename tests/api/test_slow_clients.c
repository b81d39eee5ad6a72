/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "wire.h"

/* Clients that say little, slowly or nothing: they cost no processor time, and others find their place. */

#define HOST "Host: localhost\r\n"

enum { WATCHED_MS = 1500, SPENT_MS = WATCHED_MS / 5 /* a thread that spins takes five times that */ };

/* A TLS handshake record with a ClientHello's beginning, of which size bytes follow. */
static const char hello[] = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

static void start_tls(struct worker *w)
{
        assert_non_null(getenv("FERRY_TEST_TLS"));
        const char *certificate = text_format("%s/server.pem", getenv("FERRY_TEST_TLS"));
        const char *key = text_format("%s/server-key.pem", getenv("FERRY_TEST_TLS"));
        worker_start_plain(
                w, "w",
                STRINGS("--listen", "127.0.0.1:0", "--tls-cert", certificate, "--tls-key", key, "--http-threads", "1"));
}

static int send_text(const struct worker *w, const char *text)
{
        int fd = raw_connect(w);

        raw_send(fd, text, strlen(text));
        return fd;
}

/* Time goes by, and the worker does nothing in it. */
static void assert_rests(const struct worker *w)
{
        uint64_t before = worker_processor_ms(w);

        pass_time(WATCHED_MS);
        assert_in_range(worker_processor_ms(w) - before, 0, SPENT_MS);
}

WITH_WORKER(half_a_tls_record_costs_no_processor_time)
{
        static const struct {
                const char *bytes;
                size_t size;
        } parts[] = {
                { hello, 1 },
                { hello, 5 },
                { hello, sizeof(hello) - 1 },
                /* A whole record with half a ClientHello: libmicrohttpd has it, and waits for more. */
                { "\x16\x03\x01\x00\x04\x01\x00\x01\xfc", 9 },
                /* The same and half of a second record. */
                { "\x16\x03\x01\x00\x04\x01\x00\x01\xfc\x16\x03\x01\x01", 13 },
        };
        enum { N = sizeof(parts) / sizeof(parts[0]) };
        int fds[N];

        start_tls(w);
        for (size_t i = 0; i < N; i++) {
                fds[i] = raw_connect(w);
                raw_send(fds[i], parts[i].bytes, parts[i].size);
        }
        assert_rests(w);
        for (size_t i = 0; i < N; i++)
                (void)close(fds[i]);
}

/* A chunk-size line that libmicrohttpd cannot read to its end. */
static void send_long_line(int fd)
{
        static const char head[] = "POST /v1/regions HTTP/1.1\r\n" HOST "Content-Type: application/json\r\n"
                                   "Transfer-Encoding: chunked\r\n\r\n";
        enum { SIZE = 64 << 10 };
        char *line = malloc(SIZE);

        memset(line, '0', SIZE);
        raw_send(fd, head, strlen(head));
        raw_send(fd, line, SIZE);
        free(line);
}

ON_WORKER(a_long_chunk_size_line_costs_no_processor_time, "--http-threads", "1")
{
        int fds[2];

        for (size_t i = 0; i < 2; i++) {
                fds[i] = raw_connect(w);
                send_long_line(fds[i]);
        }
        (void)close(fds[0]); /* one has left, one stays */
        assert_rests(w);
        assert_int_equal(ferry_get_livez(w->client), 0);
        (void)close(fds[1]);
}

WITH_WORKER(it_costs_none_on_a_unix_socket)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        char directory[] = "/tmp/ferry-test-XXXXXX";
        const char *url;

        assert_non_null(mkdtemp(directory));
        (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", directory);
        url = text_format("unix:%s", address.sun_path);
        worker_start_plain(w, "w", STRINGS("--listen", url, "--http-threads", "1"));
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
        send_long_line(fd);
        uint64_t wakeups = worker_wakeups(w);
        assert_rests(w);
        assert_in_range(worker_wakeups(w) - wakeups, 0, WATCHED_MS / 5); /* pauses grow */
        (void)close(fd);
        worker_stop(w);
        assert_int_equal(rmdir(directory), 0);
}

/* Those who have not shown a token make room for those who come. */
ON_WORKER(clients_that_dawdle_take_nobodys_place, "--max-connections", "20")
{
        enum { N = 40 };
        int fds[N];

        for (size_t i = 0; i < N; i++)
                fds[i] = send_text(w, "G");
        for (size_t i = 0; i < 5; i++)
                wire_expect(w, 200, "GET /v1/worker HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
        for (size_t i = 0; i < N; i++)
                (void)close(fds[i]);
}

/* So do those whose requests are refused, between two of them. */
WITH_WORKER(idle_connections_without_a_token_make_room)
{
        enum { N = 4 };
        char token[] = "/tmp/ferry-test-XXXXXX", limit[8];
        struct raw_answer answer;
        int fds[N], fd = mkstemp(token);

        assert_int_equal(dprintf(fd, "0123456789abcdef\n"), 17);
        (void)close(fd);
        (void)snprintf(limit, sizeof(limit), "%d", N);
        worker_start_plain(w, "w",
                           STRINGS("--listen", "127.0.0.1:0", "--token-file", token, "--http-threads", "1",
                                   "--max-connections", limit));
        for (size_t i = 0; i < N; i++) {
                fds[i] = send_text(w, "GET /v1/regions HTTP/1.1\r\n" HOST "\r\n");
                raw_receive(fds[i], false, &answer);
                assert_int_equal(answer.status, 401);
        }
        wire_expect(w, 200, "GET /livez HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
        raw_receive(fds[0], false, &answer); /* the one that had done nothing the longest */
        assert_true(answer.closed);
        for (size_t i = 0; i < N; i++)
                (void)close(fds[i]);
        (void)unlink(token);
}
