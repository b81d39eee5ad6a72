/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <unistd.h>

#include "wire.h"

/* Everything that can be wrong with a JSON body. The worker names the fault and its place, makes nothing, and goes on.
 */

enum { BODY_MAX = 8 << 20 };

static const char *const resources[] = { "/v1/regions", "/v1/operations" };

WITH_WORKER(what_is_not_json_is_refused)
{
        static const char *const texts[] = {
                "{",
                "}",
                "{\"size\":1",
                "{\"size\":}",
                "{\"size\"}",
                "{\"size\" 1}",
                "{size:1}",
                "{,\"size\":1}",
                "{\"size\":1 \"name\":\"x\"}",
                "\"",
                "nul",
                "undefined",
                "hello",
                "<xml/>",
                "size=1",
                /* behind the value */
                "{\"size\":1}x",
                "{\"size\":1}{\"size\":1}",
                "{\"size\":1},",
                "{\"size\":1}]",
                "{\"size\":1}//",
                /* what JavaScript would take */
                "{\"size\":0x10}",
                "{\"size\":+1}",
                "{\"size\":.5}",
                "{\"size\":--1}",
                "{\"size\":1}\n#",
                /* strings */
                "{\"size\":1,\"name\":\"a\x1b[31mb\"}",
                "{\"size\":1,\"name\":\"\\x\"}",
                "{\"size\":1,\"name\":\"\\u12\"}",
                "{\"size\":1,\"name\":\"\\u0000\"}",
                "{\"size\":1,\"na\\u0000me\":\"x\"}",
                /* not UTF-8: a lone continuation, cut short, overlong, a surrogate, beyond Unicode, Latin-1, UTF-16 */
                "{\"size\":1,\"name\":\"\x80\"}",
                "{\"size\":1,\"name\":\"\xc3\"}",
                "{\"size\":1,\"name\":\"\xe2\x82\"}",
                "{\"size\":1,\"name\":\"\xc0\xaf\"}",
                "{\"size\":1,\"name\":\"\xed\xa0\x80\"}",
                "{\"size\":1,\"name\":\"\xf4\x90\x80\x80\"}",
                "{\"size\":1,\"name\":\"caf\xe9\"}",
                "{\"size\":1,\"\xff\":1}",
                "\xef\xbb\xbf{\"size\":1}",
                "\xff\xfe{",
                /* deeper than 8 */
                "[[[[[[[[[1]]]]]]]]]",
                "{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":1}}}}}}}}}",
        };

        worker_start(w, "w", NULL);
        for (size_t r = 0; r < 2; r++)
                for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
                        body_refused_text(w, resources[r], texts[i], 400, "invalid-json", "");
        worker_assert_untouched(w);
}

/* json-c takes them; what counts is the value that the field gets. */
ON_WORKER(what_is_nearly_json_is_read_as_it_is_meant)
{
        static const char *const taken[] = {
                "{'size':1}",
                "{\"size\":1,}",
                "{\"size\":1,\"name\":'x'}",
                "{\"size\":01}",
                "{\"size\":1/*x*/}",
                "/**/{\"size\":1}",
                "{\"size\":true,\"size\":1}",
                "{\"size\":7,\"si\\u007ae\":1}",
                "{\"size\":1,\"name\":\"\\ud800\"}",
        };
        static const struct {
                const char *text, *pointer;
        } refused[] = {
                { "{\"size\":NaN}", "/size" },
                { "{\"size\":Infinity}", "/size" },
                { "{\"size\":-Infinity}", "/size" },
                { "{\"size\":1.}", "/size" },
                { "{\"size\":1e}", "/size" },
                { "{\"size\":1,\"size\":0}", "/size" },
                { "{\"size\":1,\"name\":\"a\nb\"}", "/name" },
                { "{\"size\":1,\"name\":\"a\tb\"}", "/name" },
                { "[1,]", "" },
                { "True", "" },
        };

        for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
                assert_int_equal(json_number(call_json(w, 201, "POST", "/v1/regions", taken[i]), "size"), 1);
        for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
                body_refused_text(w, "/v1/regions", refused[i].text, 400, "invalid-parameter", refused[i].pointer);
}

WITH_WORKER(a_nul_byte_is_not_json)
{
        static const struct {
                const char *bytes;
                size_t size;
        } rows[] = {
                { "\0", 1 },
                { "{\"size\":1}\0", 11 },
                { "{\"size\":1,\"name\":\"a\0b\"}", 23 },
                { "{\0\"size\":1}", 11 },
                { "{\"size\0\":1}", 11 },
                { "{\0s\0i\0z\0e\0", 10 }, /* UTF-16 */
        };

        worker_start(w, "w", NULL);
        for (size_t r = 0; r < 2; r++)
                for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
                        body_refused(w, resources[r], rows[i].bytes, rows[i].size, 400, "invalid-json", "");
        worker_assert_untouched(w);
}

/* 8 MiB of brackets cost neither stack nor patience. */
WITH_WORKER(bottomless_nesting_is_refused)
{
        static const char *const openings[] = { "[", "{\"a\":" };
        char *text = malloc(BODY_MAX);

        worker_start(w, "w", NULL);
        for (size_t i = 0; i < 2; i++) {
                size_t n = strlen(openings[i]), size = BODY_MAX / n * n;

                for (size_t at = 0; at < size; at += n)
                        memcpy(text + at, openings[i], n);
                for (size_t r = 0; r < 2; r++)
                        body_refused(w, resources[r], text, size, 400, "invalid-json", "");
        }
        free(text);
        worker_assert_untouched(w);
}

ON_WORKER(what_is_not_an_object_is_refused)
{
        static const char *const texts[] = { "[]", "1", "\"x\"", "true", "null", " 7 ", "1e5", "-0" };

        for (size_t r = 0; r < 2; r++)
                for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
                        body_refused_text(w, resources[r], texts[i], 400, "invalid-parameter", "");
        body_refused_text(w, "/v1/regions", "[{\"size\":1}]", 400, "invalid-parameter", "");
        worker_assert_untouched(w);
}

ON_WORKER(no_body_is_told_so)
{
        static const char *const heads[] = {
                "Content-Type: application/json\r\nContent-Length: 0\r\n\r\n",
                "Content-Type: application/json\r\n\r\n",
                "Content-Length: 0\r\n\r\n",
                "\r\n",
                "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n\r\n",
        };

        for (size_t r = 0; r < 2; r++)
                for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
                        wire_refused(w, 400, "invalid-json", "POST %s HTTP/1.1\r\nHost: localhost\r\n%s", resources[r],
                                     heads[i]);
        worker_assert_untouched(w);
}

/* ---- size ---- */

static ssize_t pour_blanks(void *context, void *buffer, size_t size)
{
        uint64_t *left = context;
        size_t n = size < *left ? size : (size_t)*left;

        memset(buffer, ' ', n);
        *left -= n;
        return (ssize_t)n;
}

ON_WORKER(too_large_a_body_is_refused)
{
        uint64_t resident;

        worker_assert_serving(w);
        resident = worker_status_kb(w, "VmHWM");
        for (size_t r = 0; r < 2; r++) {
                for (int chunked = 0; chunked < 2; chunked++) {
                        uint64_t left = 4 * BODY_MAX;
                        struct ferry_answer answer;
                        struct ferry_exchange exchange = { .method = "POST",
                                                           .path = resources[r],
                                                           .content_type = "application/json",
                                                           .source = pour_blanks,
                                                           .source_context = &left,
                                                           .source_size = chunked ? FERRY_SIZE_UNKNOWN : left };

                        assert_int_equal(ferry_exchange_perform(w->client, &exchange, &answer), FERRY_E_TOO_LARGE);
                        assert_int_equal(answer.http_status, 413);
                        ferry_answer_clear(&answer);
                }
        }
        worker_assert_untouched(w);
        /* What is refused is not kept, but for what a sanitizer keeps of it. */
        if (!SANITIZED)
                assert_true(worker_status_kb(w, "VmHWM") < resident + 3 * BODY_MAX / 1024);
}

ON_WORKER(the_limit_of_a_body_is_exact)
{
        static const char good[] = "{\"size\":1}";
        struct ferry_answer answer;
        char *text = malloc(BODY_MAX + 1);

        memset(text, ' ', BODY_MAX + 1);
        memcpy(text, good, strlen(good));
        body_refused(w, "/v1/regions", text, BODY_MAX + 1, 413, "too-large", NULL);
        assert_int_equal(ferry_request(w->client, "POST", "/v1/regions", "application/json", text, BODY_MAX, &answer),
                         0);
        assert_int_equal(answer.http_status, 201);
        ferry_answer_clear(&answer);
        free(text);
}

/* ---- the answer ---- */

static struct json_object *errors_of(struct worker *w, const char *path, const char *body, struct json_object **problem)
{
        *problem = call_json(w, 400, "POST", path, body);
        return json_member(*problem, "errors");
}

ON_WORKER(one_answer_names_every_fault)
{
        static const char *const pointers[] = { "/size", "/device", "/nam" };
        struct json_object *problem, *errors;

        errors = errors_of(w, "/v1/regions", "{\"size\":-1,\"device\":5,\"nam\":\"x\"}", &problem);
        assert_int_equal(json_object_array_length(errors), 3);
        for (size_t i = 0; i < 3; i++) {
                struct json_object *item = json_object_array_get_idx(errors, i);

                assert_string_equal(json_text(item, "pointer"), pointers[i]);
                assert_true(json_text(item, "detail")[0] != '\0');
        }
}

WITH_WORKER(an_answer_does_not_grow_with_the_faults)
{
        struct json_object *problem, *errors;
        char *body = malloc(100000), *at = stpcpy(body, "{\"size\":1");

        worker_start(w, "w", NULL);
        for (int i = 0; i < 1000; i++)
                at += sprintf(at, ",\"x%d\":1", i);
        (void)stpcpy(at, "}");
        errors = errors_of(w, "/v1/regions", body, &problem);
        assert_in_range(json_object_array_length(errors), 2, 100);
        free(body);
        worker_assert_untouched(w);
}

/* A key of any length and in any script comes back as a pointer that is still good JSON. */
ON_WORKER(an_answer_is_good_json_whatever_the_key)
{
        static const char *const letters[] = { "x", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "~", "/", "\\\"" };

        for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++) {
                for (int shift = 0; shift < 4; shift++) {
                        char key[1000];
                        const char *body;
                        size_t n = 0, size = strlen(letters[i]);

                        while (n < (size_t)shift)
                                key[n++] = 'a';
                        for (int j = 0; j < 200; j++, n += size)
                                memcpy(key + n, letters[i], size);
                        /* The library reads problems as strictly as the worker reads bodies. */
                        body = text_format("{\"size\":1,\"%.*s\":1}", (int)n, key);
                        body_refused_text(w, "/v1/regions", body, 400, "unknown-field", NULL);
                }
        }
}

ON_WORKER(a_syntax_error_is_located)
{
        body_refused_text(w, "/v1/regions", "{\n  \"size\": 1,\n  \"name\": oops\n}", 400, "invalid-json", "");
        assert_non_null(strstr(ferry_last_problem(w->client)->detail, "byte 26: "));
}
