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
        worker_start_plain(w, "w",
                           STRINGS("--listen", "127.0.0.1:0", "--tls-cert", tls_path("server.pem"), "--tls-key",
                                   tls_path("server-key.pem"), "--http-threads", "1"));
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

WITH_SHARED(it_costs_none_on_a_unix_socket)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        struct worker *w = &s->pair.a;
        struct wakeups before;

        (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", s->path);
        worker_start_plain(w, "w",
                           STRINGS("--listen", text_format("unix:%s", address.sun_path), "--http-threads", "1"));
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
        send_long_line(fd);
        worker_wakeups(w, &before);
        assert_rests(w);
        assert_in_range(worker_wakeups_since(w, &before), 0, WATCHED_MS / 5); /* pauses grow */
        (void)close(fd);
}

/* Those who have not shown a token make room for those who come. */
ON_WORKER(clients_that_dawdle_take_nobodys_place, "--max-connections", "20")
{
        enum { N = 40 };
        int fds[N];

        for (size_t i = 0; i < N; i++)
                fds[i] = raw_begin(w, "G");
        for (size_t i = 0; i < 5; i++)
                wire_expect(w, 200, "GET /v1/worker HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
        for (size_t i = 0; i < N; i++)
                (void)close(fds[i]);
}

/* ---- the last place ---- */

enum { PLACES = 4 };

/* With PLACES connections, and a token if there is to be one. */
static void start_full(struct worker *w, bool token)
{
        const char *flags[] = { "--listen", "127.0.0.1:0", "--http-threads", "1", "--max-connections", "4", NULL,
                                NULL,       NULL };

        _Static_assert(PLACES == 4, "as the flags say");
        if (token) {
                flags[6] = "--token-file";
                flags[7] = file_make("0123456789abcdef\n");
        }
        worker_start_plain(w, "w", flags);
}

#define TOKEN "Authorization: Bearer 0123456789abcdef\r\n"

/* Twice as many connections as there are places, on each of which that is sent and nothing more; answers: each is
 * answered with this status. */
static void fill(struct worker *w, const char *text, int status, int fds[2 * PLACES])
{
        struct raw_answer answer;

        for (size_t i = 0; i < 2 * PLACES; i++) {
                fds[i] = raw_begin(w, text);
                if (!status)
                        continue;
                raw_receive(fds[i], false, &answer);
                assert_int_equal(answer.status, status);
        }
}

static void leave(int fds[2 * PLACES])
{
        for (size_t i = 0; i < 2 * PLACES; i++)
                (void)close(fds[i]);
}

static void expect_served(struct worker *w)
{
        wire_expect(w, 200, "GET /v1/regions HTTP/1.1\r\n" HOST TOKEN "Connection: close\r\n\r\n");
}

/* Those who have shown no token make room, whatever they are at, longest idle first. */
WITH_WORKER(clients_without_a_token_make_room)
{
        static const struct {
                const char *text;
                int status;
        } rows[] = {
                { "GET /v1/regions HTTP/1.1\r\n" HOST "\r\n", 401 },
                { "GET /livez HTTP/1.1\r\n" HOST "\r\n", 200 },
                { "GET /livez HTTP/1.1\r\n" HOST "\r\nG", 200 },
                { "POST /v1/regions HTTP/1.1\r\n" HOST "Content-Length: 60000000\r\n\r\n{", 401 },
                { "PUT /v1/regions/rgn_0000000000000001/content HTTP/1.1\r\n" HOST
                  "Transfer-Encoding: chunked\r\n\r\n1\r\n",
                  401 },
        };
        int fds[2 * PLACES];

        start_full(w, true);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                test_row(rows[i].text);
                fill(w, rows[i].text, rows[i].status, fds);
                expect_served(w);
                leave(fds);
        }
        fill(w, rows[0].text, rows[0].status, fds);
        expect_served(w);
        struct raw_answer answer;
        raw_receive(fds[0], false, &answer); /* the one that had done nothing the longest */
        assert_true(answer.closed);
        leave(fds);
}

/* Also those who do not read what they are sent. */
WITH_WORKER(readers_without_a_token_make_room)
{
        enum { REQUESTS = 200 };
        static const char one[] = "GET /openapi.yaml HTTP/1.1\r\n" HOST "\r\n";
        char *many = malloc(REQUESTS * sizeof(one)), *end = many;
        int fds[2 * PLACES];

        for (int i = 0; i < REQUESTS; i++)
                end = stpcpy(end, one);
        start_full(w, true);
        fill(w, many, 0, fds);
        for (int i = 0; i < 3; i++)
                expect_served(w);
        leave(fds);
        free(many);
}

WITH_WORKER(idle_clients_of_a_worker_without_a_token_make_room)
{
        int fds[2 * PLACES];

        start_full(w, false);
        fill(w, "GET /v1/regions HTTP/1.1\r\n" HOST "\r\n", 200, fds);
        expect_served(w);
        leave(fds);
}

/* A place that was kept by a token is lost with it. */
WITH_WORKER(idle_clients_with_a_revoked_token_make_room)
{
        const char *path = file_make("an-older-token-0123456789\n");
        struct raw_answer answer;
        int fds[PLACES];

        worker_start_plain(w, "w",
                           STRINGS("--listen", "127.0.0.1:0", "--token-file", path, "--http-threads", "1",
                                   "--max-connections", "4"));
        for (size_t i = 0; i < PLACES; i++) {
                fds[i] = raw_begin(w, "GET /v1/regions HTTP/1.1\r\n" HOST
                                      "Authorization: Bearer an-older-token-0123456789\r\n\r\n");
                raw_receive(fds[i], false, &answer);
                assert_int_equal(answer.status, 200);
        }
        file_write(path, "0123456789abcdef\n");
        worker_hang_up(w, "tokens and certificates reloaded", 1);
        expect_served(w);
        for (size_t i = 0; i < PLACES; i++)
                (void)close(fds[i]);
}
