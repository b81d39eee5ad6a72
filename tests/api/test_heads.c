/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <unistd.h>

#include "wire.h"

/* Heads of any size: each is served or refused, and none is left without an answer. */

#define HOST "Host: localhost\r\n"

ON_WORKER(oversized_heads_are_refused)
{
        enum { LARGE = 1 << 20 };
        static const struct {
                const char *start, *end;
        } heads[] = { { "GET /livez HTTP/1.1\r\n" HOST "X: ", "\r\n\r\n" },
                      { "GET /", " HTTP/1.1\r\n" HOST "\r\n" },
                      { "GET /livez?", " HTTP/1.1\r\n" HOST "\r\n" },
                      { "GET /livez HTTP/1.1\r\n" HOST, ": x\r\n\r\n" } };
        char *large = malloc(LARGE + 1);
        const char *request, *said;

        memset(large, 'x', LARGE);
        large[LARGE] = '\0';
        for (int i = 0; i < 4; i++) {
                request = text_format("%s%s%s", heads[i].start, large, heads[i].end);
                said = wire_talk(w, request, strlen(request));
                /* The answer may be lost when the rest of the request meets a closed connection. */
                if (*said)
                        assert_memory_equal(said, "HTTP/1.1 4", 10);
        }
        /* Many small ones. */
        memcpy(large, "GET /livez HTTP/1.1\r\n" HOST, 38);
        for (size_t at = 38; at + 6 <= LARGE; at += 6)
                memcpy(large + at, "a: b\r\n", 6);
        said = wire_talk(w, large, LARGE);
        assert_null(strstr(said, "HTTP/1.1 2"));
        free(large);
        worker_assert_serving(w);
}

/* Every head is answered: with what was asked for, or with why not. */
ON_WORKER(no_head_is_left_without_an_answer)
{
        enum { LARGE = 20 << 10 };
        static const struct {
                const char *start, *piece;
                size_t first, last, step;
        } rows[] = {
                { "GET /livez HTTP/1.1\r\n" HOST "X: ", "x", 11000, 17000, 97 },
                { "GET /livez HTTP/1.1\r\n" HOST "Cookie: ", "x", 2000, 17000, 311 },
                { "GET /livez HTTP/1.1\r\n" HOST "Cookie: ", "a=b; ", 500, 9000, 250 },
                { "GET /livez HTTP/1.1\r\n" HOST, "a: b\r\n", 150, 3000, 150 },
                { "GET /livez HTTP/1.1\r\n" HOST, "abcdefghijklmnopqrst: abcdefghijklmnopqrst\r\n", 2000, 16000, 880 },
                { "GET /v1/worker?", "a=b&", 100, 2400, 100 },
                { "GET /v1/worker?", "a&", 20, 1000, 20 },
                { "GET /", "x", 11000, 17000, 97 },
        };
        char *text = malloc(LARGE);

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                for (size_t size = rows[i].first; size < rows[i].last; size += rows[i].step) {
                        size_t piece = strlen(rows[i].piece);
                        char *end = stpcpy(text, rows[i].start);
                        const char *said;

                        for (size_t done = 0; done < size; done += piece)
                                end = stpcpy(end, rows[i].piece);
                        if (!strchr(rows[i].start, '\n'))
                                end = stpcpy(end, " HTTP/1.1\r\n" HOST "\r\n");
                        else
                                end = stpcpy(end, end[-1] == '\n' ? "\r\n" : "\r\n\r\n");
                        said = wire_talk(w, text, (size_t)(end - text));
                        if (text_count(said, "HTTP/1.1 ") != 1)
                                print_error("row %zu, %zu bytes: %s\n", i, size, said);
                        assert_int_equal(text_count(said, "HTTP/1.1 "), 1);
                        assert_int_equal(text_count(said, "Request-Id: "), 1);
                }
        }
        free(text);
        wire_refused(w, 431, "head-too-large", "GET /livez HTTP/1.1\r\n" HOST "Cookie: %09000d\r\n\r\n", 0);
        worker_assert_serving(w);
}

/* Closes connections whose second target takes all but a few bytes of what a connection may have. */
static void send_full_targets(struct worker *w, unsigned n)
{
        static const char start[] = "GET /livez HTTP/1.1\r\n" HOST "\r\nGET /livez?";
        enum { FIRST = 16260, LAST = 16340, STEP = 5 };
        char request[LAST + 200];

        for (unsigned i = 0; i < n; i++) {
                int size = FIRST + (int)(i * STEP) % (LAST - FIRST), fd;
                char *end = request + strlen(start);

                memcpy(request, start, strlen(start));
                memset(end, 'a', (size_t)size);
                (void)stpcpy(end + size, " HTTP/1.1\r\n" HOST "\r\n");
                fd = raw_begin(w, request);
                (void)close(fd);
                wire_expect(w, 200, "GET /livez HTTP/1.1\r\n" HOST "\r\n"); /* it has seen that, too */
        }
}

/* libmicrohttpd finds no room for the query after it has told of the target, and then forgets to tell of the end. */
ON_WORKER(a_target_that_leaves_no_room_leaves_nothing_behind, "--http-threads", "1")
{
        uint64_t before_kb;

        send_full_targets(w, 500);
        before_kb = worker_status_kb(w, "VmRSS");
        send_full_targets(w, 2000);
        if (!SANITIZED) /* which keeps what was freed, and tells of the rest when the worker stops */
                assert_in_range(worker_status_kb(w, "VmRSS"), 0, before_kb + 1500);
}

/* What fits, within the 16 KiB a connection has, is no reason to refuse. */
ON_WORKER(a_large_head_that_fits_is_served)
{
        enum { LARGE = 12 << 10 };
        char *large = malloc(LARGE + 1);

        memset(large, 'x', LARGE);
        large[LARGE] = '\0';
        wire_expect(w, 200, "GET /livez HTTP/1.1\r\n" HOST "X: %s\r\n\r\n", large);
        free(large);
}
