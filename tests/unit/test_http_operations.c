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

static const char readable[] =
        "{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"%s\",\"offset\":512,\"size\":4096}]}";

/* The body of an active operation with a peer's metadata. */
static struct raw_answer post_active(struct http_fixture *h, enum ferry_kind kind,
                                     const struct ferry_metadata *metadata)
{
        struct ferry_json_writer writer = { 0 };
        char *document;

        assert_int_equal(ferry_metadata_encode(metadata, &writer), 0);
        document = ferry_json_take(&writer, NULL);
        const char *format = text_format(
                "{\"kind\":\"%s\",\"descriptors\":[{\"region\":\"%%s\",\"size\":4096}],\"remote_metadata\":%s}",
                ferry_kind_name((int)kind), document);
        free(document);
        return post(h, "", "", format);
}

static struct ferry_metadata *of_peer(enum ferry_kind active)
{
        struct ferry_metadata *metadata = peer_metadata(active);

        strcpy(metadata->worker, "peer");
        strcpy(metadata->http, "http://127.0.0.1:9300");
        return metadata;
}

static size_t count_operations(struct http_fixture *h)
{
        struct operation *page[10];
        uint64_t cursor = 0;
        size_t n = operation_page(h->f->store, NULL, &cursor, page, 10);

        for (size_t i = 0; i < n; i++)
                operation_unref(page[i]);
        return n;
}

WITH_HTTP(an_offer_is_made_with_its_defaults)
{
        struct raw_answer reply =
                expect_status(post(h, "", "", "{\"kind\":\"writable\",\"descriptors\":[{\"region\":\"%s\"}]}"), 201);

        assert_string_equal(reply_field(&reply, "kind"), "writable");
        assert_string_equal(reply_field(&reply, "status"), "INITIALIZED");
        assert_string_equal(reply_field(&reply, "bytes_total"), "65536");
        assert_string_equal(raw_header(&reply, "ETag"), "\"r1\"");
        assert_memory_equal(raw_header(&reply, "Location"), "/v1/operations/op_", 18);
        assert_null(reply_field(&reply, "metadata"));
}

WITH_HTTP(metadata_come_with_the_answer_when_asked_for)
{
        struct raw_answer reply = expect_status(post(h, "?include=metadata", "", readable), 201), other;
        char metadata[4096];

        snprintf(metadata, sizeof(metadata), "%s", reply_field(&reply, "metadata"));
        assert_non_null(strstr(metadata, "notification_key"));
        assert_string_equal(raw_header(&reply, "Cache-Control"), "no-store");
        other = http_call(h, "GET", text_format("%s/metadata", raw_header(&reply, "Location")), "", NULL);
        expect_status(other, 200);
        assert_string_equal(raw_header(&other, "Cache-Control"), "no-store");
        assert_non_null(strstr(metadata, reply_field(&other, "notification_key")));
        expect_problem(post(h, "?include=metadata", "",
                            "{\"kind\":\"read\",\"descriptors\":[{\"region\":\"%s\"}],\"remote_url\":\"http://x\"}"),
                       400, "invalid-parameter");
        assert_int_equal(count_operations(h), 1);
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
        reply = expect_status(post(h, "?include=metadata", "", readable), 201);
        text = reply_field(&reply, "metadata");
        assert_int_equal(ferry_metadata_decode(text, strlen(text), "", &metadata, &errors), 0);
        const char *url = text_format("http://127.0.0.1:%u", h->port);
        assert_string_equal(metadata->worker, "tester");
        assert_string_equal(metadata->http, url);
        assert_string_equal(metadata->data, "127.0.0.1:9400");
        metadata = ferry_metadata_free(metadata);
}

#define READABLE(slice, more) "{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"%s\"" slice "}]" more "}"
#define READ(more) "{\"kind\":\"read\",\"descriptors\":[{\"region\":\"%s\"}]" more "}"

WITH_HTTP(a_bad_operation_is_refused_with_the_place)
{
        static const struct {
                const char *format, *pointer;
                int status;       /* 0 = 400 */
                const char *code; /* NULL = invalid-parameter */
        } bad[] = {
                { "{\"descriptors\":[{\"region\":\"%s\"}]}", "/kind" },
                { "{\"kind\":\"reader\",\"descriptors\":[{\"region\":\"%s\"}]}", "/kind" },
                { "{\"kind\":\"readable\"}", "/descriptors" },
                { "{\"kind\":\"readable\",\"descriptors\":[]}", "/descriptors" },
                { "{\"kind\":\"readable\",\"descriptors\":[1]}", "/descriptors/0" },
                { "{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"rgn_0000000000000001\"}]}",
                  "/descriptors/0/region", 404, "not-found" },
                { "{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"%s\"},{\"region\":\"x\"}]}",
                  "/descriptors/1/region", 404, "not-found" },
                { READABLE(",\"offset\":65536", ""), "/descriptors/0/offset", 400, "out-of-bounds" },
                { READABLE(",\"offset\":1,\"size\":65536", ""), "/descriptors/0/size", 400, "out-of-bounds" },
                { READABLE(",\"offset\":9007199254740991,\"size\":9007199254740991", ""), "/descriptors/0/offset", 400,
                  "out-of-bounds" },
                { READABLE(",\"size\":0", ""), "/descriptors/0/size" },
                { READABLE(",\"len\":1", ""), "/descriptors/0/len", 400, "unknown-field" },
                { READABLE("", ",\"timeout_ms\":1"), "/timeout_ms" },
                { "{\"kind\":\"writable\",\"descriptors\":[{\"region\":\"%s\"}],\"readers\":2}", "/readers" },
                { READABLE("", ",\"uses\":9"), "/uses" },
                { READABLE("", ",\"uses\":3,\"readers\":2"), "/readers" },
                { READ(",\"uses\":2,\"remote_url\":\"http://x\""), "/uses" },
                { READABLE("", ",\"label\":\"\""), "/label" },
                { READABLE("", ",\"label\":\"12345678901234567890123456789012345678901234567890123456789012345\""),
                  "/label" },
                { READABLE("", ",\"readers\":9"), "/readers" },
                { READABLE("", ",\"ttl_ms\":99999999999"), "/ttl_ms" },
                { READABLE("", ",\"remote_url\":\"http://x\""), "/remote_url" },
                { READ(""), "" },
                { READ(",\"remote_metadata\":{}"), "/remote_metadata", 400, "invalid-metadata" },
                { READ(",\"remote_url\":\"ftp://127.0.0.1/\""), "/remote_url" },
                { READ(",\"remote_url\":\"http://192.0.2.1/v1/operations/op_0000000000000001/metadata\""),
                  "/remote_url", 403, "forbidden" },
        };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(bad); i++) {
                struct raw_answer reply = post(h, "", "", bad[i].format);
                test_row(bad[i].format);
                if (!strstr(reply.body, text_format("\"pointer\":\"%s", bad[i].pointer)))
                        fail_msg("%s", reply.body);
                expect_problem(reply, bad[i].status ?: 400, bad[i].code ?: "invalid-parameter");
        }
        assert_int_equal(count_operations(h), 0);
        assert_int_equal(region_in_use(h->f->region), 0);
}

WITH_HTTP(too_many_descriptors_are_refused)
{
        char body[2048] = "{\"kind\":\"readable\",\"descriptors\":[", item[64];

        for (int i = 0; i < 17; i++) {
                snprintf(item, sizeof(item), "%s{\"region\":\"%s\"}", i ? "," : "", h->region);
                strcat(body, item);
        }
        strcat(body, "]}");
        expect_problem(http_call(h, "POST", "/v1/operations", "", body), 400, "invalid-parameter");
}

WITH_HTTP(an_active_operation_starts_with_its_metadata)
{
        struct ferry_metadata *metadata = of_peer(FERRY_WRITE);
        struct raw_answer reply = expect_status(post_active(h, FERRY_WRITE, metadata), 201);

        assert_string_equal(reply_field(&reply, "kind"), "write");
        assert_int_equal(h->f->data_plane.n_started, 1);
        end_transfer(h->f, 0);
        metadata = ferry_metadata_free(metadata);
}

WITH_HTTP(metadata_that_do_not_fit_make_nothing)
{
        struct ferry_metadata *metadata = of_peer(FERRY_READ);

        expect_problem(post_active(h, FERRY_WRITE, metadata), 409, "kind-mismatch");
        metadata->descriptors[0].size = 4095;
        expect_problem(post_active(h, FERRY_READ, metadata), 409, "size-mismatch");
        metadata->descriptors[0].size = 4096;
        metadata->expires_ms = 1;
        expect_problem(post_active(h, FERRY_READ, metadata), 410, "metadata-expired");
        assert_int_equal(count_operations(h), 0);
        assert_int_equal(h->f->data_plane.n_started, 0);
        metadata = ferry_metadata_free(metadata);
}

WITH_HTTP(a_url_that_leads_nowhere_ends_the_operation)
{
        char format[512];
        struct raw_answer reply;

        snprintf(format, sizeof(format),
                 "{\"kind\":\"read\",\"descriptors\":[{\"region\":\"%%s\"}],"
                 "\"remote_url\":\"http://127.0.0.1:%u/v1/operations/op_0000000000000001/metadata\"}",
                 h->port);
        reply = expect_status(post(h, "", "Prefer: wait=30\r\n", format), 201);
        assert_string_equal(reply_field(&reply, "status"), "ERRORED");
        assert_non_null(strstr(reply_field(&reply, "error"), "stale-metadata"));
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
}

WITH_HTTP(cancel_delete_and_renew_act_on_the_operation)
{
        struct raw_answer reply = expect_status(post(h, "", "", readable), 201);
        char sub[80];

        const char *path = text_format("%s", raw_header(&reply, "Location"));
        snprintf(sub, sizeof(sub), "%s/renew", path);
        reply = expect_status(http_call(h, "POST", sub, "", "{\"ttl_ms\":1234567}"), 200);
        assert_string_equal(reply_field(&reply, "ttl_ms"), "1234567");
        expect_status(http_call(h, "POST", sub, "", NULL), 200);
        expect_problem(http_call(h, "POST", sub, "", "{\"ttl_ms\":0}"), 400, "invalid-parameter");
        expect_problem(http_call(h, "POST", sub, "", "{\"ttl\":1}"), 400, "unknown-field");
        snprintf(sub, sizeof(sub), "%s/cancel", path);
        reply = expect_status(http_call(h, "POST", sub, "", NULL), 200);
        assert_string_equal(reply_field(&reply, "status"), "CANCELLED");
        expect_status(http_call(h, "POST", sub, "", NULL), 200);
        snprintf(sub, sizeof(sub), "%s/renew", path);
        expect_problem(http_call(h, "POST", sub, "", NULL), 410, "gone");
        snprintf(sub, sizeof(sub), "%s/metadata", path);
        expect_problem(http_call(h, "GET", sub, "", NULL), 410, "gone");
        expect_status(http_call(h, "DELETE", path, "", NULL), 204);
        expect_problem(http_call(h, "DELETE", path, "", NULL), 410, "gone");
        expect_problem(http_call(h, "GET", path, "", NULL), 410, "gone");
}

WITH_HTTP(an_active_operation_has_no_metadata)
{
        struct operation *operation = make(h->f, FERRY_READ);
        char id[FERRY_ID_TEXT_SIZE], path[80];

        ferry_id_format("op_", look(h->f, operation).id, id);
        snprintf(path, sizeof(path), "/v1/operations/%s/metadata", id);
        expect_problem(http_call(h, "GET", path, "", NULL), 409, "not-passive");
        snprintf(path, sizeof(path), "/v1/operations/%s/renew", id);
        expect_problem(http_call(h, "POST", path, "", NULL), 409, "not-passive");
}

WITH_HTTP(the_same_key_makes_one_operation)
{
        static const char key[] = "Idempotency-Key: k\r\n";
        struct raw_answer reply = expect_status(post(h, "?include=metadata", key, readable), 201);

        const char *id = text_format("%s", reply_field(&reply, "id"));
        reply = expect_status(post(h, "?include=metadata", key, readable), 201);
        assert_string_equal(reply_field(&reply, "id"), id);
        assert_non_null(reply_field(&reply, "metadata"));
        assert_string_equal(raw_header(&reply, "Idempotency-Replayed"), "true");
        expect_problem(post(h, "", key, readable), 422, "idempotency-conflict");
        assert_int_equal(count_operations(h), 1);
}

WITH_HTTP(operations_are_listed_by_kind_and_status)
{
        struct operation *offer = make(h->f, FERRY_READABLE);
        char id[FERRY_ID_TEXT_SIZE];
        struct raw_answer reply;

        (void)make(h->f, FERRY_READ);
        ferry_id_format("op_", look(h->f, offer).id, id);
        reply = expect_status(http_call(h, "GET", "/v1/operations", "", NULL), 200);
        assert_non_null(strstr(reply.body, id));
        assert_non_null(strstr(reply.body, "\"read\""));
        assert_null(strstr(reply.body, "notification_key"));
        reply = expect_status(http_call(h, "GET", "/v1/operations?kind=readable&status=INITIALIZED&limit=5", "", NULL),
                              200);
        assert_non_null(strstr(reply.body, id));
        assert_null(strstr(reply.body, "\"read\""));
        reply = expect_status(http_call(h, "GET", "/v1/operations?status=COMPLETE", "", NULL), 200);
        assert_string_equal(reply.body, "{\"operations\":[]}\n");
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
        expect_problem(http_call(h, "GET", "/v1/operations?order=up", "", NULL), 400, "invalid-parameter");
        expect_problem(http_call(h, "GET", "/v1/operations?done=1", "", NULL), 400, "invalid-parameter");
        expect_problem(http_call(h, "GET", "/v1/operations?region=op_0000000000000001", "", NULL), 400,
                       "invalid-parameter");
        expect_problem(http_call(h, "GET", "/v1/regions?label=x", "", NULL), 400, "invalid-parameter");
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

WITH_HTTP(an_operation_names_its_request_and_its_peer)
{
        struct ferry_metadata *metadata = of_peer(FERRY_READ);
        struct raw_answer reply = expect_status(post_active(h, FERRY_READ, metadata), 201);

        assert_string_equal(reply_field(&reply, "request_id"), raw_header(&reply, "Request-Id"));
        assert_string_equal(reply_field(&reply, "peer"), "{ \"worker\": \"peer\", \"epoch\": \"0000000000001112\" }");
        end_transfer(h->f, 0);
        metadata = ferry_metadata_free(metadata);
        reply = expect_status(post(h, "", "Request-Id: mine\r\n", readable), 201);
        assert_string_equal(reply_field(&reply, "request_id"), "mine");
        assert_null(reply_field(&reply, "peer"));
}

WITH_HTTP(an_etag_that_still_holds_is_304)
{
        struct raw_answer reply = expect_status(post(h, "", "", readable), 201);

        const char *path = text_format("%s", raw_header(&reply, "Location"));
        reply = expect_status(http_call(h, "GET", path, "If-None-Match: \"r1\"\r\n", NULL), 304);
        assert_int_equal(reply.body_size, 0);
        assert_string_equal(raw_header(&reply, "ETag"), "\"r1\"");
        expect_status(http_call(h, "GET", path, "If-None-Match: \"r2\"\r\n", NULL), 200);
}
