/* SPDX-License-Identifier: Apache-2.0 */
#include "http_fixture.h"
#include "unit_json.h"

#include <ferry/encoding.h>
#include <ferry/error.h>
#include <ferry/json.h>
#include <ferry/metadata.h>

/* A body with the fixture's region in place of %s. */
static struct raw_answer post(struct http_fixture *h, const char *query, const char *headers, const char *format)
{
        char path[128], body[8192];

        snprintf(path, sizeof(path), "/v1/operations%s", query);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(body, sizeof(body), format, h->region, h->region, h->region);
#pragma GCC diagnostic pop
        return http_call(h, "POST", path, headers, body);
}

WITH_HTTP(metadata_name_this_worker_and_where_it_was_asked)
{
        struct ferry_json_errors errors = { 0 };
        struct ferry_metadata *metadata;
        struct raw_answer reply;
        const char *text;

        http_stop(h);
        strcpy(h->facts.data_address, "0.0.0.0:9400");
        http_start(h);
        reply = expect_status(
                post(h, "?include=metadata", "", "{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"%s\"}]}"), 201);
        assert_string_equal(raw_header(&reply, "Cache-Control"), "no-store");
        text = reply_field(&reply, "metadata");
        assert_int_equal(ferry_metadata_decode(text, strlen(text), "", &metadata, &errors), 0);
        const char *url = text_format("http://127.0.0.1:%u", h->port);
        assert_string_equal(metadata->worker, "tester");
        assert_string_equal(metadata->http, url);
        assert_string_equal(metadata->data, "127.0.0.1:9400");
        metadata = ferry_metadata_free(metadata);
}

/* As generated clients send it: what every operation has anyhow is no mistake. */
WITH_HTTP(defaults_that_are_sent_are_taken_by_every_kind)
{
        static const char *const kinds[] = { "readable", "writable", "read", "write" };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(kinds); i++) {
                struct raw_answer reply;

                reply = expect_status(
                        post(h, "", "",
                             text_format(
                                     "{\"kind\":\"%s\",\"descriptors\":[{\"region\":\"%%s\",\"offset\":0,\"count\":1}],"
                                     "\"readers\":"
                                     "1,"
                                     "\"uses\":1,\"verify\":false,\"layout\":\"pairwise\",\"label\":\"\\u00e9 7\"%s}",
                                     kinds[i],
                                     i < 2 ? ""
                                           : ",\"remote_url\":\"http://127.0.0.1:1/v1/operations/op_0000000000000001/"
                                             "metadata\"")),
                        201);
                assert_string_equal(reply_field(&reply, "label"), "\303\251 7");
                if (i < 2)
                        assert_string_equal(reply_field(&reply, "uses"), "1");
                else
                        assert_null(reply_field(&reply, "uses"));
        }
}

WITH_HTTP(readers_are_the_uses_of_a_readable)
{
        char format[512];

        FOR_EACH_TEXT (field, "\"readers\":3", "\"uses\":3", "\"uses\":3,\"readers\":3", "\"uses\":3,\"readers\":1") {
                snprintf(format, sizeof(format), "{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"%%s\"}],%s}",
                         field);
                struct raw_answer reply = expect_status(post(h, "", "", format), 201);
                assert_string_equal(reply_field(&reply, "uses"), "3");
                assert_string_equal(reply_field(&reply, "uses_done"), "0");
                assert_string_equal(reply_field(&reply, "readers"), "3");
        }
        expect_problem(post(h, "", "",
                            "{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"%s\"}],\"uses\":3,\"readers\":2}"),
                       400, "invalid-parameter");
}

/* Follows the links of a list to its end; how many elements it had. */
static size_t follow(struct http_fixture *h, const char *path, size_t *ret_pages)
{
        char next[512];
        size_t n = 0;

        snprintf(next, sizeof(next), "%s", path);
        for (*ret_pages = 0; *next; ++*ret_pages) {
                struct raw_answer reply = expect_status(http_call(h, "GET", next, "", NULL), 200);
                const char *link = raw_header(&reply, "Link");

                assert_true(!link == !reply_field(&reply, "next"));
                *next = '\0';
                if (link) {
                        assert_int_equal(sscanf(link, "<%511[^>]>; rel=\"next\"", next), 1);
                        assert_non_null(strstr(link, "; rel=\"next\""));
                }
                for (const char *at = reply.body; (at = strstr(at, "\"id\":\"op_")); at++)
                        n++;
        }
        return n;
}

WITH_HTTP(links_lead_through_a_list_with_its_filters)
{
        char path[256];
        size_t n_pages;

        for (size_t i = 0; i < 9; i++)
                expect_status(post(h, "", "",
                                   i % 3 ? "{\"kind\":\"readable\",\"label\":\"a b&\\u00e9\","
                                           "\"descriptors\":[{\"region\":\"%s\"}]}"
                                         : "{\"kind\":\"writable\",\"descriptors\":[{\"region\":\"%s\"}]}"),
                              201);
        assert_int_equal(follow(h, "/v1/operations?limit=2", &n_pages), 9);
        assert_int_equal(n_pages, 5);
        snprintf(path, sizeof(path),
                 "/v1/"
                 "operations?limit=1&order=desc&done=false&region=%s&kind=readable&status=INITIALIZED&label=a%%20b%%26"
                 "%%c3%%A9",
                 h->region);
        assert_int_equal(follow(h, path, &n_pages), 6);
        assert_int_equal(n_pages, 6);
        assert_int_equal(follow(h, "/v1/operations?done=true&order=newest", &n_pages), 0);
}

WITH_HTTP(a_region_in_use_names_its_operations)
{
        struct operation *some[10];
        char id[FERRY_ID_TEXT_SIZE];
        struct raw_answer reply;

        const char *path = text_format("/v1/regions/%s", h->region);
        for (size_t i = 0; i < 10; i++)
                some[i] = make(h->f, FERRY_READABLE);
        operation_cancel(h->f->store, some[0]);
        reply = http_call(h, "DELETE", path, "", NULL);
        for (size_t i = 0; i < 10; i++) {
                ferry_id_format("op_", operation_id(some[i]), id);
                assert_int_equal(strstr(reply_field(&reply, "detail"), id) != NULL, i > 0 && i < 9);
        }
        assert_non_null(strstr(reply_field(&reply, "detail"), " and others"));
        expect_problem(reply, 409, "region-in-use");
        for (size_t i = 0; i < 10; i++) {
                operation_cancel(h->f->store, some[i]);
                test_release(some[i]);
        }
        expect_status(http_call(h, "DELETE", path, "", NULL), 204);
}
