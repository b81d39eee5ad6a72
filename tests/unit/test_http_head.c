/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/error.h>

#include "base/util.h"
#include "serve_internal.h"
#include "unit.h"

#define START "GET /livez HTTP/1.1\r\nHost: localhost\r\n"
#define BYTES(text) text, sizeof(text) - 1

static enum head_verdict classify(const char *bytes, size_t n, int *ret_error)
{
        /* Of its very size, so that a sanitizer sees what is read behind it. */
        char *copy = malloc(n ? n : 1);
        const char *detail = NULL;
        enum head_verdict verdict;

        memcpy(copy, bytes, n);
        *ret_error = 0;
        verdict = head_classify(copy, n, ret_error, &detail);
        assert_int_equal(verdict == HEAD_REFUSED, detail != NULL);
        free(copy);
        return verdict;
}

TEST(a_head_is_whole_with_its_empty_line)
{
        static const char head[] = "\r\n" START "Content-Length: 10\r\n\r\n";
        int error;

        for (size_t n = 0; n < sizeof(head) - 1; n++)
                assert_int_equal(classify(head, n, &error), HEAD_PARTIAL);
        assert_int_equal(classify(BYTES(head), &error), HEAD_WHOLE);
        assert_int_equal(classify(BYTES(START "\r\nbody\0body"), &error), HEAD_WHOLE);
        assert_int_equal(classify(BYTES("GET  / HTTP/1.0\r\n\r\n"), &error), HEAD_WHOLE);
        assert_int_equal(classify(BYTES("get /a%20b HTTP/1.1\r\nX: y\r\nhOST: z\r\n\r\n"), &error), HEAD_WHOLE);
}

TEST(heads_that_are_not_http_are_refused)
{
        static const char *const heads[] = {
                "hello\r\n\r\n",
                "GET\r\n\r\n",
                "GET \r\n\r\n",
                "GET /\r\n\r\n",
                "GET HTTP/1.1\r\nHost: x\r\n\r\n",
                "GET  HTTP/1.1\r\nHost: x\r\n\r\n",
                " / HTTP/1.1\r\nHost: x\r\n\r\n",
                "GET / HTTP\r\nHost: x\r\n\r\n",
                "GET / HTTP/\r\nHost: x\r\n\r\n",
                "GET / HTTP/2.0\r\nHost: x\r\n\r\n",
                "GET / HTTP/1.10\r\nHost: x\r\n\r\n",
                "GET / http/1.1\r\nHost: x\r\n\r\n",
                "GET / HTTP/1.1 \r\nHost: x\r\n\r\n",
                "GET /  HTTP/1.1\r\nHost: x\r\n\r\n",
                "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n",
                "GET /a HTTP/1.1 HTTP/1.1\r\nHost: x\r\n\r\n",
                "GET / HTTP/1.1\r\n\r\n",
                "GET / HTTP/1.1\r\nX: Host:\r\n\r\n",
                START "no colon\r\n\r\n",
                START "x\r\n\r\n",
                START "x\n\r\n",
                START ": x\r\nX: y\r\n\r\n",
                START "X : y\r\n\r\n",
                START "Content-Length\t: 1\r\n\r\n",
                START "X(y): z\r\n\r\n",
                START "X: y\rZ: z\r\n\r\n",
                START "X: y\n\r\n",
                START "X: y\nZ: z\r\n\r\n",
                START "X: y\r\n\n",
                START "X: y\n\n",
                START "\n",
                START "X: y\r\r\n\r\n",
                "GET / HTTP/1.1\nHost: x\r\n\r\n",
                "GET /\r HTTP/1.1\r\nHost: x\r\n\r\n",
                "\n" START "\r\n",
                "\r" START "\r\n",
                "GET / HTTP/1.x\r\nHost: x\r\n\r\n",
        };
        int error;

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(heads); i++) {
                if (classify(heads[i], strlen(heads[i]), &error) != HEAD_REFUSED)
                        fail_msg("%s is not refused", heads[i]);
                assert_int_equal(error, FERRY_E_INVALID_PARAMETER);
        }
}

TEST(lengths_that_are_none_are_refused)
{
        static const struct {
                const char *head;
                size_t size;
        } rows[] = {
                { BYTES(START "Content-Length: -1\r\n\r\n") },
                { BYTES(START "Content-Length: +10\r\n\r\n") },
                { BYTES(START "Content-Length: 10, 10\r\n\r\n") },
                { BYTES(START "Content-Length:\r\n\r\n") },
                { BYTES(START "Content-Length: 10 \r\n\r\n") },
                { BYTES(START "Content-Length: 10\0zz\r\n\r\n") },
                { BYTES(START "Content-Length: 99999999999999999999999999999\r\n\r\n") },
                { BYTES(START "content-length: 1\r\nContent-Length: 1\r\n\r\n") },
                { BYTES(START "X: \0\r\n\r\n") },
        };
        int error;

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(rows); i++) {
                assert_int_equal(classify(rows[i].head, rows[i].size, &error), HEAD_REFUSED);
                assert_int_equal(error, FERRY_E_INVALID_PARAMETER);
        }
        assert_int_equal(classify(BYTES(START "Content-Length:\t10\r\n\r\n"), &error), HEAD_WHOLE);
}

/* What would leave libmicrohttpd no memory. */
TEST(heads_that_are_too_large_are_refused)
{
        char text[HEAD_MAX + 64];
        int error;

        for (int i = 0; i < 4; i++) {
                static const char *const starts[] = { START "X: ", START "Cookie: ", "GET /?", "GET /" };
                static const char *const ends[] = { "\r\n\r\n", "\r\n\r\n", " HTTP/1.0\r\n\r\n", " HTTP/1.0\r\n\r\n" };
                size_t filled = strlen(starts[i]), size = i == 1 ? 9 << 10 : 16040;

                memcpy(text, starts[i], filled);
                memset(text + filled, i == 2 ? '&' : 'x', size);
                size_t end = filled + size + strlen(ends[i]);
                memcpy(text + filled + size, ends[i], strlen(ends[i]));
                assert_int_equal(classify(text, end, &error), HEAD_REFUSED);
                assert_int_equal(error, FERRY_E_HEAD_TOO_LARGE);
        }
        memset(text, 'x', sizeof(text));
        assert_int_equal(classify(text, HEAD_MAX - 1, &error), HEAD_PARTIAL);
        assert_int_equal(classify(text, HEAD_MAX, &error), HEAD_REFUSED);
        assert_int_equal(error, FERRY_E_HEAD_TOO_LARGE);
}

/* As far as they have come with the head, and as far as the body goes. */
TEST(chunk_lines_end_with_cr_and_lf)
{
#define CHUNKED START "Transfer-Encoding: chunked\r\n\r\n"
        static const char *const good[] = {
                CHUNKED,
                CHUNKED "3\r\na\nb\r\n0\r\n\r\n",
                CHUNKED "3;x=y\r\n\r\n\n\r\n0\r\n\r\n",
                CHUNKED "3\r",
                CHUNKED "3\r\n\n",
                CHUNKED "3\r\nabc\r",
                CHUNKED "0\r\nA: b\r\n\r\nGET /\n",
                CHUNKED "ffffffffffffffff\r\n\n",
                START "X: Transfer-Encoding: chunked\r\n\r\n3\n",
        };
        static const char *const bad[] = {
                CHUNKED "3\nabc\r\n0\r\n\r\n",
                CHUNKED "3\rabc\r\n0\r\n\r\n",
                CHUNKED "3;x\ny\r\n",
                CHUNKED "3;x\ry",
                CHUNKED "3\r\nabc\n0\r\n\r\n",
                CHUNKED "3\r\nabc\r0\r\n\r\n",
                CHUNKED "3\r\nabc\r\n0\n\r\n",
                CHUNKED "3\r\nabc\r\n0\r\n\n",
                CHUNKED "3\r\nabc\r\n0\r\nX: y\n\r\n",
                CHUNKED "1\r\na\r\n2\r\nbc\r\n1\nd",
                START "TRANSFER-ENCODING:chunked\r\n\r\n3\n",
        };
        int error;

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(good); i++) {
                test_row(good[i]);
                assert_int_equal(classify(good[i], strlen(good[i]), &error), HEAD_WHOLE);
        }
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(bad); i++) {
                test_row(bad[i]);
                assert_int_equal(classify(bad[i], strlen(bad[i]), &error), HEAD_REFUSED);
                assert_int_equal(error, FERRY_E_INVALID_PARAMETER);
        }
}

TEST(a_tls_record_is_whole_or_foreign)
{
        static const char record[] = "\x16\x03\x01\x00\x04\x01\x00\x01\xfc";

        for (size_t n = 0; n < sizeof(record) - 1; n++)
                assert_int_equal(head_classify_tls(record, n), HEAD_PARTIAL);
        assert_int_equal(head_classify_tls(BYTES(record)), HEAD_WHOLE);
        assert_int_equal(head_classify_tls(BYTES("GET / HTTP/1.1")), HEAD_FOREIGN);
        assert_int_equal(head_classify_tls(BYTES("\x16\x02")), HEAD_FOREIGN);
        assert_int_equal(head_classify_tls(BYTES("\x16\x03\x01\x00\x00")), HEAD_FOREIGN);
        assert_int_equal(head_classify_tls(BYTES("\x16\x03\x01\xff\xff")), HEAD_FOREIGN);
}

/* The line that begins at *line, with its end made NUL as libmicrohttpd 0.9 does it; *line: the next one. */
static char *cut_line(char **line, char *end)
{
        char *start = *line, *newline = memchr(start, '\n', (size_t)(end - start));

        *newline = '\0';
        if (newline > start && newline[-1] == '\r')
                newline[-1] = '\0';
        *line = newline + 1;
        return start;
}

/* Cuts a head up as libmicrohttpd 0.9 does: whether its parts are all of it. */
static bool parts_are_whole(const char *head, size_t size)
{
        char *copy = malloc(size), *end = copy + size, *next = copy, *line;
        struct head_parts parts;
        bool whole;

        memcpy(copy, head, size);
        line = cut_line(&next, end);
        char *target = strchr(line, ' ') + 1, *version = (char *)memrchr(line, ' ', (size_t)(next - line)) + 1;
        version[-1] = '\0';
        head_parts_begin(&parts, target + strlen(target), version);
        for (line = cut_line(&next, end); *line; line = cut_line(&next, end)) {
                char *colon = strchr(line, ':');

                *colon++ = '\0';
                head_parts_add(&parts, line, colon + strspn(colon, " \t"));
        }
        whole = head_parts_end(&parts, end);
        free(copy);
        return whole;
}

TEST(parts_of_a_head_lie_one_behind_the_other)
{
        static const struct {
                const char *head;
                size_t size;
                bool whole;
        } rows[] = {
                { BYTES("GET / HTTP/1.1\r\n\r\n"), true },
                { BYTES(START "X: y\r\nY:z\r\nZ:\r\n\r\n"), true },
                { BYTES("GET / HTTP/1.1\n\n"), false },
                { BYTES("GET / HTTP/1.1\nX: y\r\n\r\n"), false },
                { BYTES(START "X: y\r\nY:z\nZ:\r\n\r\n"), false },
                { BYTES(START "X: y\n\r\n"), false },
                { BYTES(START "X: y\r\n\n"), false },
                { BYTES(START "X: y\0z\r\n\r\n"), false },
                { BYTES(START "X: y\0z\r\nY: z\r\n\r\n"), false },
                { BYTES(START "X: y\0\0z\r\n\r\n"), false },
                { BYTES(START "X: y\0\r\n\r\n"), false },
                { BYTES(START "\0X: y\r\n\r\n"), false },
                { BYTES("GET /\0 HTTP/1.1\r\nX: y\r\n\r\n"), false },
        };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(rows); i++)
                assert_int_equal(parts_are_whole(rows[i].head, rows[i].size), rows[i].whole);
        assert_true(head_parts_needed("0.9.75"));
        assert_false(head_parts_needed("1.0.1"));
}
