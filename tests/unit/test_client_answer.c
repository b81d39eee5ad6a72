/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/buffer.h>

#include "answer.h"
#include "unit.h"

#define OK "HTTP/1.1 200 OK\r\n"
#define CHUNKED OK "Transfer-Encoding: chunked\r\n"
#define EMPTY "Content-Length: 0\r\n\r\n"

enum { LINES_MAX = 256 * 1024 };

/* What came of an answer. The texts are the test's. */
struct outcome {
        int error;         /* of answer_take */
        int end;           /* of answer_end, when there was no error */
        bool whole, keeps; /* before the end of the connection */
        size_t used;
        const char *told; /* status lines and headers: "200\nName: value\n" */
        const char *body;
};

/* ---- taking ---- */

struct record {
        struct ferry_buffer told, body;
        size_t body_max; /* beyond it the body's function fails */
};

static void record_tell(struct record *record, const char *text, size_t size)
{
        assert_int_equal(ferry_buffer_append(&record->told, text, size, SIZE_MAX), 0);
}

static void record_status(void *context, int status)
{
        const char *text = text_format("%d\n", status);
        record_tell(context, text, strlen(text));
}

static void record_header(void *context, const char *name, size_t name_size, const char *value, size_t value_size)
{
        record_tell(context, name, name_size);
        record_tell(context, ": ", 2);
        record_tell(context, value, value_size);
        record_tell(context, "\n", 1);
}

static int record_body(void *context, const char *data, size_t size)
{
        struct record *record = context;
        size_t room = record->body_max - record->body.size, n = size < room ? size : room;
        assert_true(size > 0);
        assert_int_equal(ferry_buffer_append(&record->body, data, n, SIZE_MAX), 0);
        return n < size ? -EIO : 0;
}

static const struct answer_ops record_ops = { record_status, record_header, record_body };

/* Feeds it in pieces of their very size, so that a sanitizer sees what is read behind them. */
static int feed(struct answer *a, const char *data, size_t size, size_t step, size_t *ret_used)
{
        size_t used = 0;
        int r = 0;
        while (r == 0 && used < size && a->state != ANSWER_WHOLE) {
                size_t n, piece_size = size - used < step ? size - used : step;
                char *piece = unit_alloc(piece_size);
                memcpy(piece, data + used, piece_size);
                r = answer_take(a, piece, piece_size, &n);
                free(piece);
                assert_true(n <= piece_size);
                assert_true(n == piece_size || r != 0 || a->state == ANSWER_WHOLE);
                used += n;
        }
        *ret_used = used;
        return r;
}

static struct outcome take_in_steps(const char *data, size_t size, size_t step, bool to_head, size_t body_max)
{
        struct record record = { .body_max = body_max };
        struct answer a = { .ops = &record_ops, .context = &record, .to_head = to_head };
        struct outcome o = { .error = feed(&a, data, size, step, &o.used) };
        o.whole = o.error == 0 && a.state == ANSWER_WHOLE;
        o.keeps = o.whole && a.keeps;
        if (o.error == 0) {
                o.end = answer_end(&a);
                assert_false(a.keeps);
        }
        answer_clear(&a);
        o.told = text_keep(ferry_buffer_take(&record.told));
        o.body = text_keep(ferry_buffer_take(&record.body));
        return o;
}

/* Takes it whole and byte by byte; the outcome is the same. */
static struct outcome take_as(const char *data, size_t size, bool to_head, size_t body_max)
{
        struct outcome o = take_in_steps(data, size, size ? size : 1, to_head, body_max);
        struct outcome bytes = take_in_steps(data, size, 1, to_head, body_max);
        assert_int_equal(bytes.error, o.error);
        assert_int_equal(bytes.end, o.end);
        assert_int_equal(bytes.whole, o.whole);
        assert_int_equal(bytes.keeps, o.keeps);
        if (o.error == 0) /* an error may come before the end of a line */
                assert_int_equal(bytes.used, o.used);
        assert_string_equal(bytes.told, o.told);
        assert_string_equal(bytes.body, o.body);
        return o;
}

static struct outcome take(const char *text)
{
        return take_as(text, strlen(text), false, SIZE_MAX);
}

static struct outcome take_to_head(const char *text)
{
        return take_as(text, strlen(text), true, SIZE_MAX);
}

static void assert_whole(struct outcome o, const char *body)
{
        assert_int_equal(o.error, 0);
        assert_true(o.whole);
        assert_int_equal(o.end, 0);
        assert_string_equal(o.body, body);
}

/* Text of size bytes in all, with as many x in its middle as that takes. */
static const char *padded(const char *before, const char *after, size_t size)
{
        return text_format("%s%0*d%s", before, (int)(size - strlen(before) - strlen(after)), 0, after);
}

/* ---- status lines ---- */

TEST(status_lines_of_http_1_are_taken)
{
        static const struct {
                const char *line, *told;
        } lines[] = {
                { "HTTP/1.1 200 OK", "200\n" },
                { "HTTP/1.0 404 Not Found", "404\n" },
                { "HTTP/1.1 503 Service: Unavailable", "503\n" },
                { "HTTP/1.1 200", "200\n" },
                { "HTTP/1.1 200 ", "200\n" },
                { "HTTP/1.1 200  two spaces", "200\n" },
                { "HTTP/1.9 999 ?", "999\n" },
        };
        for (size_t i = 0; i < UNIT_COUNT(lines); i++) {
                test_row(lines[i].line);
                struct outcome o = take(text_format("%s\r\n\r\n", lines[i].line));
                assert_int_equal(o.error, 0);
                assert_string_equal(o.told, lines[i].told);
        }
}

TEST(other_status_lines_are_refused)
{
        FOR_EACH_TEXT (line, "", "garbage", "Content-Length: 5", "HTTP/2 200", "HTTP/2.0 200 OK", "HTTP/0.9 200 OK",
                       "HTTP/1.1", "HTTP/1.1 ", "HTTP/1.1 20", "HTTP/1.1 20 ", "HTTP/1.1 2000", "HTTP/1.1 200OK",
                       "HTTP/1.1  200", "HTTP/1.1 2 0 OK", "HTTP/1.1 2x0 OK", "HTTP/1.1 -20 OK", "HTTP/1.1 0x1 OK",
                       "HTTP/1.1 099 OK", "HTTP/1.1\t200 OK", "HTTP/1.x 200 OK", "HTTP/1.  200 OK", "HTTP/1.10 200 OK",
                       "http/1.1 200 OK", " HTTP/1.1 200 OK", "ICY 200 OK") {
                struct outcome o = take(text_format("%s\r\n" EMPTY, line));
                assert_int_equal(o.error, -EPROTO);
                assert_string_equal(o.told, "");
        }
}

/* As a TLS alert, or a server that says nothing more. */
TEST(what_begins_otherwise_is_refused_before_its_line_ends)
{
        FOR_EACH_TEXT (start, "\x15\x03\x03", "SSH-2.0", "HTTP/2", "h")
                assert_int_equal(take(start).error, -EPROTO);
        assert_int_equal(take("HTTP/1").error, 0);
}

TEST(interim_answers_come_first)
{
        struct outcome o =
                take("HTTP/1.1 100 Continue\r\n\r\n"
                     "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nContent-Length: 9\r\nConnection: close\r\n\r\n" OK
                     "Content-Length: 2\r\n\r\nhi");
        assert_whole(o, "hi");
        assert_true(o.keeps);
        assert_string_equal(o.told,
                            "100\n103\nLink: </a>\nContent-Length: 9\nConnection: close\n200\nContent-Length: 2\n");

        assert_whole(take_to_head("HTTP/1.1 100 Continue\r\n\r\n" OK "Content-Length: 2\r\n\r\n"), "");
        o = take("HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: chunked\r\n\r\n" OK "\r\n0\r\n\r\n");
        assert_string_equal(o.body, "0\r\n\r\n");
        o = take("HTTP/1.1 100 Continue\r\n\r\n");
        assert_int_equal(o.error, 0);
        assert_int_equal(o.end, -ECONNRESET);
}

TEST(another_protocol_is_refused)
{
        struct outcome o = take("HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n" OK EMPTY);
        assert_int_equal(o.error, -EPROTO);
        assert_string_equal(o.told, "101\nUpgrade: h2c\n");
}

/* ---- headers ---- */

TEST(values_are_trimmed)
{
        struct outcome o = take(OK "A:b\r\nC: \t d e \t\r\nF:\r\nG:   \r\nh-I:j: k\r\nContent-Length:\t0 \r\n\r\n");
        assert_whole(o, "");
        assert_string_equal(o.told, "200\nA: b\nC: d e\nF: \nG: \nh-I: j: k\nContent-Length: 0\n");
}

TEST(lines_may_end_without_carriage_return)
{
        struct outcome o = take("HTTP/1.1 200 OK\nA: b\nTransfer-Encoding: chunked\n\n2\nhi\n0\nX: y\n\n");
        assert_whole(o, "hi");
        assert_true(o.keeps);
        assert_string_equal(o.told, "200\nA: b\nTransfer-Encoding: chunked\n");
}

TEST(lines_that_are_no_header_are_skipped)
{
        struct outcome o = take(OK "no colon\r\nA: b\r\n and more\r\n\tContent-Length: 5\r\n C: d\r\n\r\r\n" EMPTY);
        assert_whole(o, "");
        assert_true(o.keeps);
        assert_string_equal(o.told, "200\nA: b\nContent-Length: 0\n");
}

TEST(names_of_framing_have_any_case)
{
        assert_whole(take(OK "CONTENT-length: 2\r\n\r\nhi"), "hi");
        assert_whole(take(OK "transfer-ENCODING: Chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"), "hi");
        assert_false(take(OK "cONNECTION: close\r\n" EMPTY).keeps);
        assert_int_equal(take(OK "Content-Lengths: x\r\nContent-Lengt: x\r\nXContent-Length: x\r\n" EMPTY).error, 0);
}

/* ---- framing ---- */

TEST(a_body_has_its_length)
{
        static const struct {
                const char *headers, *body;
        } rows[] = {
                { "Content-Length: 5\r\n", "hello" },
                { "Content-Length: 0005\r\n", "hello" },
                { "Content-Length: 0\r\n", "" },
                { "Content-Length: 5\r\nContent-Length: 5\r\n", "hello" },
                { "Content-Length: 05\r\nA: b\r\ncontent-length: 5\r\n", "hello" },
        };
        for (size_t i = 0; i < UNIT_COUNT(rows); i++) {
                test_row(rows[i].headers);
                struct outcome o = take(text_format(OK "%s\r\n%s", rows[i].headers, rows[i].body));
                assert_whole(o, rows[i].body);
                assert_true(o.keeps);
        }
        struct outcome o = take(OK "Content-Length: 9223372036854775807\r\n\r\nhello");
        assert_int_equal(o.error, 0);
        assert_int_equal(o.end, -ECONNRESET);
        assert_string_equal(o.body, "hello");
}

TEST(lengths_that_are_none_are_refused)
{
        FOR_EACH_TEXT (headers, "Content-Length: 5\r\nContent-Length: 6\r\n",
                       "Content-Length: 0\r\nContent-Length: 5\r\n", "Content-Length: -5\r\n", "Content-Length: +5\r\n",
                       "Content-Length: 5, 5\r\n", "Content-Length: 5 5\r\n", "Content-Length: 0x5\r\n",
                       "Content-Length: 5a\r\n", "Content-Length: 5.0\r\n", "Content-Length: \r\n",
                       "Content-Length:\r\n", "Content-Length: 9223372036854775808\r\n",
                       "Content-Length: 18446744073709551616\r\n", "Content-Length: 18446744073709551621\r\n") {
                assert_int_equal(take(text_format(OK "%s\r\nhello", headers)).error, -EPROTO);
                assert_int_equal(take_to_head(text_format(OK "%s\r\n", headers)).error, -EPROTO);
        }
}

TEST(encodings_other_than_chunked_are_refused)
{
        FOR_EACH_TEXT (value, "", "gzip", "identity", "gzip, chunked", "chunked, chunked", "chunked;a=b", "chunke",
                       "chunkedd")
                assert_int_equal(take(text_format(OK "Transfer-Encoding: %s\r\n\r\n0\r\n\r\n", value)).error, -EPROTO);
}

TEST(a_body_comes_in_chunks)
{
        FOR_EACH_TEXT (chunks, "5\r\nhello\r\n0\r\n\r\n", "1\r\nh\r\n4\r\nello\r\n0\r\n\r\n",
                       "0005\r\nhello\r\n0000\r\n\r\n", "5;name=value;other=\"x\"\r\nhello\r\n0;last\r\n\r\n",
                       "5 ; name\r\nhello\r\n0 \r\n\r\n", "5\t\r\nhello\r\n0\r\n\r\n",
                       "5\r\nhello\r\n0\r\nA: b\r\nContent-Length: 7\r\nno colon\r\n\r\n", "5\nhello\n0\n\n") {
                struct outcome o = take(text_format(CHUNKED "\r\n%s", chunks));
                assert_whole(o, "hello");
                assert_true(o.keeps);
                assert_string_equal(o.told, "200\nTransfer-Encoding: chunked\n");
        }
        assert_whole(take(CHUNKED "\r\n0\r\n\r\n"), "");
        assert_whole(take(CHUNKED "\r\nA\r\n0123456789\r\n1f\r\n0123456789012345678901234567890\r\n0\r\n\r\n"),
                     "01234567890123456789012345678901234567890");
        assert_whole(take(CHUNKED "\r\n4\r\n\r\n\r\n\r\n0\r\n\r\n"), "\r\n\r\n");
}

TEST(chunks_that_are_none_are_refused)
{
        FOR_EACH_TEXT (chunks, "\r\n", "x\r\n", ";a\r\n", " 5\r\nhello\r\n", "-5\r\nhello\r\n", "+5\r\nhello\r\n",
                       "0x5\r\nhello\r\n", "5g\r\nhello\r\n", "5:\r\nhello\r\n", "8000000000000000\r\n",
                       "10000000000000005\r\nhello\r\n", "fffffffffffffffff\r\n", "5\r\nhello0\r\n\r\n",
                       "5\r\nhello \r\n0\r\n\r\n", "5\r\nhel\r\n0\r\n\r\n", "5\r\nhello!\r\n0\r\n\r\n",
                       "5\r\nhello\r\n\r\n0\r\n\r\n")
                assert_int_equal(take(text_format(CHUNKED "\r\n%s", chunks)).error, -EPROTO);

        static const char with_nul[] = CHUNKED "\r\n5\0\r\nhello\r\n0\r\n\r\n";
        assert_int_equal(take_as(with_nul, sizeof(with_nul) - 1, false, SIZE_MAX).error, -EPROTO);
        struct outcome o = take(CHUNKED "\r\n7fffffffffffffff\r\nhello");
        assert_int_equal(o.error, 0);
        assert_string_equal(o.body, "hello");
}

TEST(a_length_beside_chunks_costs_the_connection)
{
        FOR_EACH_TEXT (headers, "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
                       "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
                       "Transfer-Encoding: chunked\r\nContent-Length: 3\r\nConnection: keep-alive\r\n") {
                struct outcome o = take(text_format(OK "%s\r\n5\r\nhello\r\n0\r\n\r\n", headers));
                assert_whole(o, "hello");
                assert_false(o.keeps);
        }
}

TEST(a_body_without_length_ends_with_the_connection)
{
        FOR_EACH_TEXT (head, OK "\r\n", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n",
                       "HTTP/1.1 500 Internal Server Error\r\nA: b\r\n\r\n") {
                struct outcome o = take(text_format("%shello\r\n\r\n" OK, head));
                assert_int_equal(o.error, 0);
                assert_false(o.whole);
                assert_int_equal(o.end, 0);
                assert_string_equal(o.body, "hello\r\n\r\n" OK);
                assert_int_equal(take(head).end, 0);
        }
}

TEST(some_answers_have_no_body)
{
        FOR_EACH_TEXT (headers, "", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n") {
                FOR_EACH_TEXT (status, "204 No Content", "304 Not Modified") {
                        const char *head = text_format("HTTP/1.1 %s\r\n%s\r\n", status, headers);
                        struct outcome o = take(text_format("%shello", head));
                        assert_whole(o, "");
                        assert_true(o.keeps);
                        assert_int_equal(o.used, strlen(head));
                }
                const char *head = text_format(OK "%s\r\n", headers);
                struct outcome o = take_to_head(text_format("%shello", head));
                assert_whole(o, "");
                assert_true(o.keeps);
                assert_int_equal(o.used, strlen(head));
        }
}

/* ---- connections ---- */

TEST(a_connection_is_kept_by_version_and_header)
{
        static const struct {
                const char *version, *connection;
                bool keeps;
        } rows[] = {
                { "1.1", NULL, true },
                { "1.2", NULL, true },
                { "1.0", NULL, false },
                { "1.1", "close", false },
                { "1.1", "Close", false },
                { "1.1", "\t close \t", false },
                { "1.1", "keep-alive", true },
                { "1.1", "upgrade", true },
                { "1.1", "closed", true },
                { "1.1", "not close", true },
                { "1.1", "", true },
                { "1.1", ",,", true },
                { "1.1", "upgrade, close", false },
                { "1.1", "close,upgrade", false },
                { "1.1", ",close,", false },
                { "1.1", "keep-alive, close", false },
                { "1.1", "close, keep-alive", false },
                { "1.1", "close\r\nConnection: keep-alive", false },
                { "1.1", "keep-alive\r\nConnection: close", false },
                { "1.0", "keep-alive", true },
                { "1.0", "Keep-Alive", true },
                { "1.0", "TE , KEEP-ALIVE", true },
                { "1.0", "keep alive", false },
                { "1.0", "upgrade", false },
                { "1.0", "close", false },
                { "1.0", "close, keep-alive", false },
        };
        for (size_t i = 0; i < UNIT_COUNT(rows); i++) {
                const char *connection =
                        rows[i].connection ? text_format("Connection: %s\r\n", rows[i].connection) : "";
                const char *text = text_format("HTTP/%s 200 OK\r\n%s" EMPTY, rows[i].version, connection);
                test_row(text);
                struct outcome o = take(text);
                assert_whole(o, "");
                assert_int_equal(o.keeps, rows[i].keeps);
        }
}

TEST(the_end_of_the_connection_cuts_an_answer_anywhere)
{
        FOR_EACH_TEXT (text, OK EMPTY, OK "A: b\r\nContent-Length: 5\r\n\r\nhello",
                       "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
                       CHUNKED "\r\n5;a\r\nhello\r\n5\r\nworld\r\n0\r\nA: b\r\n\r\n") {
                for (size_t n = 0; n < strlen(text); n++) {
                        struct outcome o = take_as(text, n, false, SIZE_MAX);
                        assert_int_equal(o.error, 0);
                        assert_int_equal(o.used, n);
                        assert_false(o.whole);
                        assert_int_equal(o.end, -ECONNRESET);
                }
                assert_true(take(text).whole);
        }
}

TEST(bytes_behind_an_answer_are_left)
{
        FOR_EACH_TEXT (text, OK EMPTY, OK "Content-Length: 5\r\n\r\nhello", "HTTP/1.1 204 No Content\r\n\r\n",
                       CHUNKED "\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n") {
                struct outcome o = take(text_format("%s" OK EMPTY, text));
                assert_true(o.whole);
                assert_int_equal(o.used, strlen(text));
        }

        struct record record = { .body_max = SIZE_MAX };
        struct answer a = { .ops = &record_ops, .context = &record };
        size_t used;
        assert_int_equal(answer_take(&a, OK EMPTY, strlen(OK EMPTY), &used), 0);
        assert_int_equal(answer_take(&a, OK, strlen(OK), &used), 0);
        assert_int_equal(used, 0);
        answer_clear(&a);
        ferry_buffer_clear(&record.told, false);
}

/* ---- limits and errors ---- */

TEST(lines_have_a_limit_in_all)
{
        static const struct {
                const char *before, *after;
        } rows[] = {
                { "HTTP/1.1 200 ", "\r\n" EMPTY },
                { OK "A: ", "\r\n" EMPTY },
                { OK "A: b\r\nC: d\r\nE", ": f\r\n" EMPTY },
                { "HTTP/1.1 100 Continue\r\nA: ", "\r\n\r\n" OK EMPTY },
        };
        for (size_t i = 0; i < UNIT_COUNT(rows); i++) {
                test_row(rows[i].before);
                assert_whole(take(padded(rows[i].before, rows[i].after, LINES_MAX)), "");
                assert_int_equal(take(padded(rows[i].before, rows[i].after, LINES_MAX + 1)).error, -EPROTO);
        }
        test_row("no end of line");
        assert_int_equal(take(padded(OK, "", LINES_MAX)).end, -ECONNRESET);
        assert_int_equal(take(padded(OK, "", LINES_MAX + 1)).error, -EPROTO);
        test_row("trailers");
        assert_int_equal(take(padded(CHUNKED "\r\n0\r\nA: ", "\r\n\r\n", LINES_MAX)).error, 0);
        assert_int_equal(take(padded(CHUNKED "\r\n0\r\nA: ", "\r\n\r\n", LINES_MAX + 10)).error, -EPROTO);
}

TEST(interim_answers_have_an_end)
{
        static const char interim[] = "HTTP/1.1 102 Processing\r\n\r\n";
        struct ferry_buffer text = { 0 };
        while (text.size <= LINES_MAX)
                assert_int_equal(ferry_buffer_append(&text, interim, strlen(interim), SIZE_MAX), 0);
        assert_int_equal(take(text_keep(ferry_buffer_take(&text))).error, -EPROTO);
}

TEST(each_line_between_chunks_has_a_limit)
{
        const size_t head = strlen(CHUNKED "\r\n");
        const char *first = padded(CHUNKED "\r\n5;", "\r\n", head + LINES_MAX + 1);
        const char *second = padded("5;", "\r\n", LINES_MAX + 1);
        assert_whole(take(text_format("%shello\r\n%sworld\r\n0\r\n\r\n", first, second)), "helloworld");

        first = padded(CHUNKED "\r\n5;", "\r\n", head + LINES_MAX + 2);
        assert_int_equal(take(text_format("%shello\r\n0\r\n\r\n", first)).error, -EPROTO);
}

TEST(an_error_of_the_body_is_passed_on)
{
        FOR_EACH_TEXT (text, OK "\r\nhello", OK "Content-Length: 5\r\n\r\nhello", CHUNKED "\r\n5\r\nhello\r\n0\r\n\r\n",
                       CHUNKED "\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n") {
                FOR_EACH (size_t, max, 0, 1, 2, 4) {
                        struct outcome o = take_as(text, strlen(text), false, max);
                        assert_int_equal(o.error, -EIO);
                        assert_int_equal(strlen(o.body), max);
                }
                assert_int_equal(take_as(text, strlen(text), false, 5).error, 0);
        }
}

TEST(half_a_line_goes_with_the_answer)
{
        struct record record = { .body_max = SIZE_MAX };
        struct answer a = { .ops = &record_ops, .context = &record };
        size_t used;
        answer_clear(&a);
        assert_int_equal(answer_take(&a, "HTTP/1.1 ", 9, &used), 0);
        assert_non_null(a.begun.data);
        answer_clear(&a);
        assert_null(a.begun.data);
        answer_clear(&a);
        assert_null(record.told.data);
}
