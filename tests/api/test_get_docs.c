/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "wire.h"

/* What the worker serves as it was built: the pages, and the contract. */

static const struct {
        const char *path, *accept, *type;
        bool page;
} documents[] = {
        { "/", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text/html; charset=utf-8", true },
        { "/docs", "*/*", "text/html; charset=utf-8", true },
        { "/docs.js", "*/*", "text/javascript; charset=utf-8", false },
        { "/page.js", "*/*", "text/javascript; charset=utf-8", false },
        { "/page.css", "*/*", "text/css; charset=utf-8", false },
        { "/openapi.yaml", "*/*", "application/yaml", false },
        { "/openapi.json", "*/*", "application/json", false },
};
enum { DOCUMENTS = sizeof(documents) / sizeof(documents[0]) };

static void get(const struct worker *w, size_t i, const char *headers, struct raw_answer *ret_answer)
{
        *ret_answer = wire_ask(w, "GET %s HTTP/1.1\r\nHost: localhost\r\nAccept: %s\r\n%s\r\n", documents[i].path,
                               documents[i].accept, headers);
}

ON_WORKER(documents_have_tags_by_which_clients_keep_them)
{
        struct raw_answer answer;

        for (size_t i = 0; i < DOCUMENTS; i++) {
                get(w, i, "", &answer);
                assert_int_equal(answer.status, 200);
                answer_assert_header(&answer, "Content-Type", documents[i].type);
                answer_assert_header(&answer, "Content-Encoding", NULL);
                answer_assert_header(&answer, "X-Content-Type-Options", "nosniff");
                assert_true(answer.body_size > 1000);
                const char *tag = raw_header(&answer, "ETag"), *length = raw_header(&answer, "Content-Length");
                get(w, i, text_format("If-None-Match: \"x\", W/%s\r\n", tag), &answer);
                assert_int_equal(answer.status, 304);
                answer_assert_header(&answer, "ETag", tag);
                answer_assert_header(&answer, "Content-Length", length);
        }
}

ON_WORKER(documents_are_packed_for_those_who_take_gzip)
{
        struct raw_answer plain, packed;

        for (size_t i = 0; i < DOCUMENTS; i++) {
                get(w, i, "Accept-Encoding: br, gzip;q=0\r\n", &plain);
                answer_assert_header(&plain, "Content-Encoding", NULL);
                get(w, i, "Accept-Encoding: br;q=1.0, gzip;q=0.8\r\n", &packed);
                answer_assert_header(&packed, "Content-Encoding", "gzip");
                assert_true(packed.body_size < plain.body_size / 2);
                assert_memory_equal(packed.body, "\x1f\x8b", 2);
                const char *tag = raw_header(&packed, "ETag"), *other = raw_header(&plain, "ETag");
                assert_string_not_equal(tag, other);
        }
}

/* FERRY_OPENAPI names openapi/openapi.yaml of the source tree. */
ON_WORKER(the_contract_is_the_document_byte_for_byte)
{
        char *yaml;

        assert_int_equal(ferry_get_openapi(w->client, &yaml), 0);
        assert_string_equal(yaml, file_read(getenv("FERRY_OPENAPI")));
        free(yaml);
}

/* Nothing in line, nothing of elsewhere; the page for reading asks for nothing. */
ON_WORKER(pages_have_a_strict_policy)
{
        struct raw_answer answer;

        for (size_t i = 0; i < DOCUMENTS; i++) {
                if (!documents[i].page)
                        continue;
                get(w, i, "", &answer);
                const char *policy = raw_header(&answer, "Content-Security-Policy");
                assert_non_null(policy);
                assert_ptr_equal(strstr(policy, "default-src 'none';"), policy);
                assert_non_null(strstr(policy, "frame-ancestors 'none'"));
                assert_null(strstr(policy, "unsafe"));
                assert_non_null(strstr(policy, "; script-src 'self'"));
                assert_int_equal(strstr(policy, "connect-src") != NULL, i == 0);
                assert_null(strstr(answer.body, "<script>"));
                assert_null(strstr(answer.body, " style="));
                answer_assert_header(&answer, "Referrer-Policy", "no-referrer");
        }
}

ON_WORKER(only_a_browser_gets_the_page)
{
        static const char *const json[] = { "", "Accept: */*\r\n", "Accept: application/json, text/html\r\n",
                                            "Accept: text/html;q=0.5, application/json\r\n" };
        struct raw_answer answer;

        for (size_t i = 0; i < sizeof(json) / sizeof(json[0]); i++) {
                answer = wire_ask(w, "GET / HTTP/1.1\r\nHost: localhost\r\n%s\r\n", json[i]);
                answer_assert_header(&answer, "Content-Type", "application/json");
                answer_assert_header(&answer, "Vary", "Accept");
        }
}

/* The page's own requests carry its origin; those of any other page are refused as before. */
ON_WORKER(the_page_may_ask_its_own_worker_alone)
{
        const char *authority = strrchr(w->url, '/') + 1;
        OPERATION offer;

        offer_make(w, FERRY_READABLE, region_make(w, 10, 0), &offer);
        /* Which origins are whose, test_http_guard.c says. */
        FOR_EACH_TEXT (origin, text_format("https://%s", authority), text_format("http://%s.evil.example", authority),
                       "http://127.0.0.1", "null")
                wire_refused(w, 403, "origin-refused",
                             "POST /v1/operations/%s/cancel HTTP/1.1\r\nHost: %s\r\nOrigin: %s\r\n\r\n", offer.id,
                             authority, origin);
        /* A page of elsewhere whose name leads here is stopped by its Host. */
        wire_refused(
                w, 421, "host-refused",
                "POST /v1/operations/%s/cancel HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://evil.example\r\n\r\n",
                offer.id);
        wire_expect(w, 200, "POST /v1/operations/%s/cancel HTTP/1.1\r\nHost: %s\r\nOrigin: http://%s\r\n\r\n", offer.id,
                    authority, authority);
        operation_assert_end(w, offer.id, FERRY_CANCELLED, NULL);
}
