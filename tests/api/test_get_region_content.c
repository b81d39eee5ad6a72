/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <unistd.h>

#include "wire.h"

enum { MIB = 1 << 20 };

static const char *make_digits(struct worker *w)
{
        const char *id = region_make(w, 10, 0);

        assert_int_equal(ferry_put_region_content(w->client, id, 0, "0123456789", 10), 0);
        return id;
}

ON_WORKER(the_whole_is_raw_octets)
{
        const char *id = make_digits(w);

        struct raw_answer answer =
                wire_ask(w, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", region_path(id, "/content"));
        assert_int_equal(answer.status, 200);
        answer_assert_header(&answer, "Content-Type", "application/octet-stream");
        answer_assert_header(&answer, "Content-Length", "10");
        answer_assert_header(&answer, "Accept-Ranges", "bytes");
        answer_assert_header(&answer, "Cache-Control", "no-store");
        answer_assert_header(&answer, "Content-Range", NULL);
        assert_string_equal(answer.body, "0123456789");
}

/* The rest of the grammar is in test_http_range.c. */
ON_WORKER(ranges_are_those_of_rfc_9110)
{
        static const struct {
                const char *range;
                int status;
                const char *content_range, *body;
        } rows[] = {
                { "bytes=4-6", 206, "bytes 4-6/10", "456" },
                { "bytes=9-", 206, "bytes 9-9/10", "9" },
                { "bytes=8-100", 206, "bytes 8-9/10", "89" },
                { "bytes=-3", 206, "bytes 7-9/10", "789" },
                { "bytes=10-", 416, "bytes */10", NULL },
                /* Several, which a server may ignore; and what is no range, which it must. */
                { "bytes=0-1,4-5", 200, NULL, "0123456789" },
                { "bytes=5-4", 200, NULL, "0123456789" },
        };

        const char *id = make_digits(w);

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct raw_answer answer = wire_ask(w, "GET %s HTTP/1.1\r\nHost: localhost\r\nRange: %s\r\n\r\n",
                                                    region_path(id, "/content"), rows[i].range);

                if (answer.status != rows[i].status)
                        print_error("Range: %s\n", rows[i].range);
                assert_int_equal(answer.status, rows[i].status);
                answer_assert_header(&answer, "Content-Range", rows[i].content_range);
                if (rows[i].body) {
                        assert_string_equal(answer.body, rows[i].body);
                        answer_assert_header(&answer, "Content-Type", "application/octet-stream");
                } else {
                        answer_assert_problem(&answer, 416, "range-not-satisfiable");
                }
        }
}

/* Content has no entity tag, so that no If-Range can hold. */
ON_WORKER(if_range_gives_the_whole)
{
        const char *id = make_digits(w);

        struct raw_answer answer =
                wire_ask(w, "GET %s HTTP/1.1\r\nHost: localhost\r\nRange: bytes=1-2\r\nIf-Range: \"x\"\r\n\r\n",
                         region_path(id, "/content"));
        assert_int_equal(answer.status, 200);
        assert_string_equal(answer.body, "0123456789");
}

ON_WORKER(head_has_the_headers_alone)
{
        static const struct {
                const char *range;
                int status;
                const char *length, *content_range;
        } rows[] = {
                { "", 200, "10", NULL },
                { "Range: bytes=2-5\r\n", 206, "4", "bytes 2-5/10" },
        };
        const char *id = make_digits(w);

        for (size_t i = 0; i < 2; i++) {
                struct raw_answer answer = wire_ask(w, "HEAD %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n",
                                                    region_path(id, "/content"), rows[i].range);

                assert_int_equal(answer.status, rows[i].status);
                answer_assert_header(&answer, "Content-Length", rows[i].length);
                answer_assert_header(&answer, "Content-Range", rows[i].content_range);
        }
}

/* Two regions are compared without their bytes; the digest is that of the range, to a HEAD as well. */
ON_WORKER(a_digest_comes_to_who_wants_it)
{
        const char *id = make_digits(w), *other = region_make(w, 11, 0);
        static const char want[] = "Want-Content-Digest: xxh3=10";
        const struct {
                const char *region, *method, *range, *want;
                bool given;
        } rows[] = {
                { id, "GET", "0-9", want, true },
                { id, "HEAD", "0-9", want, true },
                { other, "HEAD", "1-10", want, true },
                { id, "HEAD", "0-9", "Want-Content-Digest: xxh3=0", false },
                { id, "HEAD", "0-9", "Accept: */*", false },
        };
        char *first = NULL;

        assert_int_equal(ferry_put_region_content(w->client, other, 1, "0123456789", 10), 0);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                const char *digest;

                struct raw_answer answer =
                        wire_ask(w, "%s %s HTTP/1.1\r\nHost: localhost\r\nRange: bytes=%s\r\n%s\r\n\r\n",
                                 rows[i].method, region_path(rows[i].region, "/content"), rows[i].range, rows[i].want);
                assert_int_equal(answer.status, 206);
                digest = raw_header(&answer, "Content-Digest");
                assert_int_equal(digest != NULL, rows[i].given);
                if (digest && first)
                        assert_string_equal(digest, first);
                else if (digest)
                        first = strdup(digest);
        }
        assert_memory_equal(first, "xxh3=:", 6);
        free(first);
}

ON_WORKER(any_slice_of_a_large_region_is_right)
{
        enum { SIZE = 5 * MIB + 3 };
        static const struct {
                uint64_t offset, size;
        } slices[] = { { 0, 1 },         { 0, SIZE },       { 1, SIZE - 1 },       { SIZE - 1, 1 },  { 4095, 2 },
                       { MIB - 1, MIB }, { 65535, 131073 }, { SIZE - 4097, 4097 }, { 3 * MIB, 4096 } };
        uint8_t *buffer = malloc(SIZE);
        size_t n;
        const char *id = region_make(w, SIZE, 4);

        for (size_t i = 0; i < sizeof(slices) / sizeof(slices[0]); i++)
                region_assert_pattern(w, id, 4, slices[i].offset, slices[i].size);

        /* A slice that reaches beyond the end ends there; one that begins there is refused. */
        assert_int_equal(ferry_get_region_content(w->client, id, SIZE - 5, buffer, 100, &n), 0);
        assert_int_equal(n, 5);
        assert_int_equal(ferry_get_region_content(w->client, id, SIZE, buffer, 1, &n), FERRY_E_RANGE_NOT_SATISFIABLE);
        free(buffer);
}

static int discard(void *context, const void *data, size_t size)
{
        return 0;
}

/* Streamed straight from the region: the worker's own memory does not grow by a copy. */
WITH_WORKER(a_download_is_not_copied)
{
        enum { SIZE = 64 * MIB, MOST_KB = 8 * 1024 };
        uint64_t anonymous, resident, n;

        if (SANITIZED)
                skip();
        worker_start(w, "w", NULL);
        const char *id = region_make(w, SIZE, 0);
        worker_assert_serving(w);
        anonymous = worker_status_kb(w, "RssAnon");
        resident = worker_status_kb(w, "VmHWM");
        assert_true(resident >= SIZE / 1024);
        for (int i = 0; i < 3; i++) {
                assert_int_equal(ferry_get_region_content_to(w->client, id, 0, 0, discard, NULL, &n), 0);
                assert_int_equal(n, SIZE);
                assert_true(worker_status_kb(w, "RssAnon") < anonymous + MOST_KB);
        }
        assert_true(worker_status_kb(w, "VmHWM") < resident + MOST_KB); /* also not for a moment */
}

/* Eight clients at once, each its own part, one of them a slow one that never reads on. */
ON_WORKER(downloads_do_not_wait_for_each_other, "--http-threads", "2")
{
        enum { SIZE = 16 * MIB, STALLED = 8 };
        int stalled[STALLED];
        const char *id = region_make(w, SIZE, 21);

        for (int i = 0; i < STALLED; i++)
                stalled[i] = wire_stalled_reader(w, region_path(id, "/content"));
        region_assert_pattern(w, id, 21, 0, SIZE);
        for (int i = 0; i < STALLED; i++)
                (void)close(stalled[i]);
}
