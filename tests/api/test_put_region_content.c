/* SPDX-License-Identifier: Apache-2.0 */
#include <microhttpd.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire.h"

enum { MIB = 1 << 20 };

ON_WORKER(bytes_go_where_offset_says)
{
        static const struct {
                const char *query, *bytes, *then;
                int status;
                const char *code;
        } rows[] = {
                { "", "0123456789", "0123456789", 204, NULL },
                { "", "abc", "abc3456789", 204, NULL },
                { "?offset=0", "A", "Abc3456789", 204, NULL },
                { "?offset=9", "Z", "Abc345678Z", 204, NULL },
                { "?offset=4", "xyz", "Abc3xyz78Z", 204, NULL },
                { "?offset=8", "!!", "Abc3xyz7!!", 204, NULL },
                /* Nothing of these is stored. */
                { "", "longer than", "Abc3xyz7!!", 413, "too-large" },
                { "?offset=8", "abc", "Abc3xyz7!!", 413, "too-large" },
                { "?offset=10", "a", "Abc3xyz7!!", 413, "too-large" },
                { "?offset=11", "a", "Abc3xyz7!!", 400, "out-of-bounds" },
                { "?offset=9007199254740991", "a", "Abc3xyz7!!", 400, "out-of-bounds" },
        };

        const char *id = digits_make(w);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct raw_answer answer =
                        wire_ask(w, "PUT %s%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n%s",
                                 region_path(id, "/content"), rows[i].query, strlen(rows[i].bytes), rows[i].bytes);
                if (rows[i].code) {
                        answer_assert_problem(&answer, rows[i].status, rows[i].code);
                } else {
                        assert_int_equal(answer.status, rows[i].status);
                }
                digits_assert(w, id, rows[i].then);
        }
}

ON_WORKER(no_bytes_are_stored_anywhere_up_to_the_end)
{
        const char *id = digits_make(w);

        wire_expect(w, 204, "PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
                    region_path(id, "/content"));
        wire_expect(w, 204, "PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
                    region_path(id, "/content?offset=10"));
        wire_expect(w, 204, "PUT %s HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                    region_path(id, "/content?offset=10"));
        wire_refused(w, 400, "invalid-parameter", "PUT %s HTTP/1.1\r\nHost: localhost\r\n\r\n",
                     region_path(id, "/content"));
        wire_refused(w, 400, "out-of-bounds", "PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
                     region_path(id, "/content?offset=11"));
        digits_assert(w, id, "..........");
}

ON_WORKER(chunks_are_bytes)
{
        char start[6];
        size_t n;
        const char *id = digits_make(w);

        wire_expect(w, 204,
                    "PUT %s HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "1\r\na\r\n3\r\nbcd\r\n0005\r\nefghi\r\n0\r\nTrailer: x\r\n\r\n",
                    region_path(id, "/content?offset=1"));
        digits_assert(w, id, ".abcdefghi");

        /* Longer than the region: at most what fits is stored, and the region is as good as before. */
        wire_refused(w, 413, "too-large",
                     "PUT %s HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                     "4\r\nABCD\r\n8\r\nEFGHIJKL\r\n0\r\n\r\n",
                     region_path(id, "/content?offset=2"));
        assert_int_equal(ferry_get_region_content(w->client, id, 0, start, 6, &n), 0);
        assert_memory_equal(start, ".aABCD", 6);
}

/* libmicrohttpd from 0.9.77 to some release before 1.0.10 takes such a line for one byte shorter: 400, all of them. */
static bool library_may_refuse_extensions(void)
{
        unsigned major = 0, minor = 0, patch = 0, version;

        assert_int_equal(sscanf(MHD_get_version(), "%u.%u.%u", &major, &minor, &patch), 3);
        version = major * 1000000 + minor * 1000 + patch;
        return version >= 9077 && version < 1000010;
}

ON_WORKER(chunk_extensions_are_ignored)
{
        const char *id = digits_make(w);
        struct raw_answer answer = wire_ask(w,
                                            "PUT %s HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                                            "1\r\na\r\n3;ext=\"x\"\r\nbcd\r\n0\r\n\r\n",
                                            region_path(id, "/content?offset=1"));

        if (answer.status != 400 || !library_may_refuse_extensions()) {
                assert_int_equal(answer.status, 204);
                digits_assert(w, id, ".abcd.....");
        }
}

/* An endless upload of unknown length ends at the end of the region; the one next to it keeps its bytes. */
ON_WORKER(a_chunked_upload_that_is_too_long_stores_nothing_beyond)
{
        uint64_t left = 3 * MIB;
        struct ferry_answer answer;
        struct ferry_exchange exchange = { .method = "PUT",
                                           .content_type = "application/octet-stream",
                                           .source = pour_blanks,
                                           .source_context = &left,
                                           .source_size = FERRY_SIZE_UNKNOWN };
        const char *before = region_make(w, MIB, 1);
        const char *id = region_make(w, MIB, 2);
        const char *after = region_make(w, MIB, 3);

        exchange.path = region_path(id, "/content");
        assert_int_equal(ferry_exchange_perform(w->client, &exchange, &answer), FERRY_E_TOO_LARGE);
        assert_int_equal(answer.http_status, 413);
        ferry_answer_clear(&answer);
        region_assert_pattern(w, before, 1, 0, MIB);
        region_assert_pattern(w, after, 3, 0, MIB);
        worker_assert_serving(w);
}

/* What can be told from Content-Length is refused before the first byte is stored, however many pieces it comes in. */
ON_WORKER(an_announced_upload_that_is_too_long_stores_nothing)
{
        uint64_t left = MIB + 1;
        const char *id = region_make(w, MIB, 2);

        assert_int_equal(ferry_put_region_content_from(w->client, id, 0, pour_blanks, &left, MIB + 1),
                         FERRY_E_TOO_LARGE);
        left = MIB;
        assert_int_equal(ferry_put_region_content_from(w->client, id, 1, pour_blanks, &left, MIB), FERRY_E_TOO_LARGE);
        region_assert_pattern(w, id, 2, 0, MIB);
}

/* Where a source's pieces go, seen from the bytes before them. */
struct places {
        uint64_t offset;
        uintptr_t first;
        size_t n, n_same;
};

static ssize_t pour_and_look(void *context, void *buffer, size_t size)
{
        struct places *places = context;
        uintptr_t place = ((uintptr_t)buffer - (uintptr_t)places->offset) % 4096;

        if (places->n++)
                places->n_same += place == places->first;
        else
                places->first = place;
        memset(buffer, 'p', size);
        places->offset += size;
        return (ssize_t)size;
}

/* Some processors copy slowly between two places that are almost the same in their pages: a few pieces may do so. */
ON_WORKER(pieces_of_a_source_do_not_keep_their_place_in_a_page)
{
        const char *id = region_make(w, 16 * MIB, 1);
        struct places places = { 0 };

        assert_int_equal(ferry_put_region_content_from(w->client, id, 0, pour_and_look, &places, 16 * MIB), 0);
        assert_int_equal(places.offset, 16 * MIB);
        assert_true(places.n > 8);
        assert_in_range(places.n_same, 0, places.n / 4);
}

ON_WORKER(octets_may_have_parameters_or_come_as_curl_says)
{
        const char *id = digits_make(w);

        FOR_EACH_TEXT (type, "Application/Octet-Stream; x=y", "application/x-www-form-urlencoded")
                wire_expect(w, 204,
                            "PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: 1\r\n\r\n#",
                            region_path(id, "/content"), type);
        digits_assert(w, id, "#.........");
}

/* ---- the client leaves ---- */

/* Until ten bytes of a region are that. */
static void await_digits(struct worker *w, const char *id, const char *wanted)
{
        char digits[11] = "";
        size_t n;

        WAIT_UNTIL_OR(ferry_get_region_content(w->client, id, 0, digits, 10, &n) == 0 && strcmp(digits, wanted) == 0,
                      "the region holds %s, not %s", digits, wanted);
}

/* What came before the client left is there; the region is free at once. */
ON_WORKER(a_client_that_leaves_half_way_frees_the_region)
{
        const char *id;
        const char *request;

        for (int how = 0; how < 4; how++) {
                int fd = raw_connect(w);

                id = digits_make(w);
                request = text_format("PUT %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n%s", region_path(id, "/content"),
                                      how % 2 ? "Transfer-Encoding: chunked" : "Content-Length: 10",
                                      how % 2 ? "4\r\nhalf\r\n6\r\nhal" : "half");
                raw_send(fd, request, strlen(request));
                await_digits(w, id, how % 2 ? "halfhal..." : "half......");
                if (how < 2) {
                        wire_abort(fd);
                } else {
                        const char *rest;

                        /* It says that nothing more comes, and waits for an answer: it gets none that says success. */
                        assert_int_equal(shutdown(fd, SHUT_WR), 0);
                        rest = wire_read_rest(fd, NULL);
                        assert_null(strstr(rest, "HTTP/1.1 2"));
                        (void)close(fd);
                }
                assert_int_equal(ferry_put_region_content(w->client, id, 0, "0123456789", 10), 0);
                digits_assert(w, id, "0123456789");
                region_drop(w, id);
        }
}

/* ---- size and company ---- */

WITH_WORKER(an_upload_is_not_copied)
{
        enum { SIZE = 64 * MIB, MOST_KB = 8 * 1024 };
        uint64_t anonymous, resident;

        if (SANITIZED)
                skip();
        worker_start(w, "w", NULL);
        const char *id = region_make(w, SIZE, 0);
        worker_assert_serving(w);
        anonymous = worker_status_kb(w, "RssAnon");
        resident = worker_status_kb(w, "VmHWM");
        for (int i = 0; i < 2; i++) {
                uint64_t left = SIZE;

                assert_int_equal(ferry_put_region_content_from(w->client, id, 0, pour_blanks, &left, SIZE), 0);
                assert_true(worker_status_kb(w, "RssAnon") < anonymous + MOST_KB);
        }
        assert_true(worker_status_kb(w, "VmHWM") < resident + MOST_KB); /* also not for a moment */
}

/* While a transfer stands in its middle, the worker takes uploads; afterwards the transfer goes on. */
ON_PAIR(uploads_and_transfers_share_a_worker)
{
        enum { SIZE = 64 * MIB, OTHER = 8 * MIB + 1 };
        struct running running;

        running_start(p, FERRY_READABLE, SIZE, 11, &p->b, &running);
        const char *other = region_make(&p->a, OTHER, 12);
        region_assert_pattern(&p->a, other, 12, 0, OTHER);
        worker_resume(&p->b);
        other = region_make(&p->b, OTHER, 13);
        operation_assert_end(&p->b, running.active, FERRY_COMPLETE, NULL);
        operation_assert_end(&p->a, running.passive, FERRY_COMPLETE, NULL);
        region_assert_pattern(&p->b, running.local, 11, 0, SIZE);
        region_assert_pattern(&p->b, other, 13, 0, OTHER);
}

/* Two clients write the two halves of a region, piece by piece in turn. */
ON_WORKER(two_uploads_into_one_region_do_not_mix)
{
        enum { HALF = 256 << 10, PIECE = 16 << 10 };
        uint8_t piece[PIECE];
        int fds[2];
        const char *id = region_make(w, 2 * HALF, 0);

        for (int i = 0; i < 2; i++) {
                const char *head =
                        text_format("PUT %s?offset=%d HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n",
                                    region_path(id, "/content"), i * HALF, HALF);

                fds[i] = raw_begin(w, head);
        }
        for (int at = 0; at < HALF; at += PIECE) {
                for (int i = 0; i < 2; i++) {
                        pattern_fill(31, (uint64_t)i * HALF + (uint64_t)at, piece, PIECE);
                        raw_send(fds[i], piece, PIECE);
                }
        }
        for (int i = 0; i < 2; i++) {
                struct raw_answer answer = raw_end(fds[i]);
                assert_int_equal(answer.status, 204);
        }
        region_assert_pattern(w, id, 31, 0, 2 * HALF);
}
