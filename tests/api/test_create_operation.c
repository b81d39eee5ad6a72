/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "steps.h"

/* POST /v1/operations. What a peer can do wrong is in test_pairs.c, waiting in test_waiting.c. */

enum { SIZE = 10000 };

static struct json_object *create(struct worker *w, int status, const char *target, const char *kind,
                                  const char *region, const char *more)
{
        const char *body = operation_body(kind, region, more);
        struct json_object *operation = call_json(w, status, "POST", target, body);

        return operation;
}

/* The extra member that names the peer's operation: by value or by URL. */
static const char *remote(struct pair *p, const struct ferry_operation *passive, bool by_url)
{
        const char *url = metadata_url(&p->a, passive->id);
        const char *more = by_url ? text_format(",\"remote_url\":\"%s\"", url)
                                  : text_format(",\"remote_metadata\":%s", passive->metadata);

        return more;
}

static void move(struct pair *p, enum ferry_kind passive_kind, bool by_url, const char *const *headers)
{
        enum ferry_kind kind = kind_of_peer(passive_kind);
        bool readable = passive_kind == FERRY_READABLE;
        struct json_object *operation;
        OPERATION passive;
        const char *more, *body;
        const char *offered = region_make(&p->a, SIZE, readable ? 7 : 0);
        const char *local = region_make(&p->b, SIZE, readable ? 0 : 7);

        offer_make(&p->a, passive_kind, offered, &passive);
        more = remote(p, &passive, by_url);
        body = operation_body(ferry_kind_name((int)kind), local, more);
        operation = call_json_with(&p->b, 201, "POST", "/v1/operations", body, headers);
        assert_string_equal(json_text(operation, "kind"), ferry_kind_name((int)kind));
        if (headers) {
                assert_true(json_truth(operation, "done"));
                assert_string_equal(json_text(operation, "status"), "COMPLETE");
        }
        operation_assert_end(&p->b, json_text(operation, "id"), FERRY_COMPLETE, NULL);
        operation_assert_end(&p->a, passive.id, FERRY_COMPLETE, NULL);
        region_assert_pattern(readable ? &p->b : &p->a, readable ? local : offered, 7, 0, SIZE);
        region_drop(&p->a, offered);
        region_drop(&p->b, local);
}

ON_EACH_PAIR(all_four_kinds_move_by_metadata_and_by_url)
{
        static const char *const wait[] = { "Prefer: wait=20", NULL };

        for (int by_url = 0; by_url < 2; by_url++) {
                move(p, FERRY_READABLE, by_url, NULL);
                move(p, FERRY_WRITABLE, by_url, NULL);
                move(p, FERRY_READABLE, by_url, wait); /* answered when it is done */
                move(p, FERRY_WRITABLE, by_url, wait);
        }
}

static void assert_names(struct json_object *object, const char *wanted)
{
        const char *names = json_names(object);

        assert_string_equal(names, wanted);
}

ON_PAIR(absent_fields_are_left_out)
{
        const char *more;
        struct json_object *operation;
        OPERATION passive;
        const char *offered = region_make(&p->a, SIZE, 7);
        const char *local = region_make(&p->b, SIZE, 0);

        operation = create(&p->a, 201, "/v1/operations", "writable", offered, "");
        assert_names(operation,
                     "id kind status done revision bytes_total bytes_done descriptors ttl_ms request_id created_at "
                     "expires_at");
        assert_names(json_object_array_get_idx(json_member(operation, "descriptors"), 0), "region offset size");
        offer_make(&p->a, FERRY_READABLE, offered, &passive);
        more = text_format(",\"verify\":true,\"layout\":\"stream\",\"timeout_ms\":9000,\"remote_metadata\":%s",
                           passive.metadata);
        operation = create(&p->b, 201, "/v1/operations", "read", local, more);
        operation_assert_end(&p->b, json_text(operation, "id"), FERRY_COMPLETE, NULL);
        operation_assert_end(&p->a, passive.id, FERRY_COMPLETE, NULL);
        more = text_format("%s", json_text(operation, "id"));
        operation = operation_json(&p->b, more);
        assert_names(operation, "id kind status done revision bytes_total bytes_done descriptors layout timeout_ms "
                                "verify request_id created_at ended_at duration_us peer transport connect_us");
        operation = operation_json(&p->a, passive.id);
        assert_names(operation,
                     "id kind status done revision bytes_total bytes_done descriptors ttl_ms request_id created_at "
                     "ended_at duration_us peer transport");
}

ON_WORKER(the_answer_names_the_new_operation)
{
        struct json_object *object;
        const char *body, *request, *location, *etag, *wanted;
        const char *region = region_make(w, SIZE, 0);

        body = operation_body("readable", region, "");
        request = json_request("/v1/operations", "", body);
        struct raw_answer answer = raw_exchange(w, request);
        assert_int_equal(answer.status, 201);
        object = json_parse(answer.body);
        wanted = text_format("/v1/operations/%s", json_text(object, "id"));
        location = raw_header(&answer, "Location");
        etag = raw_header(&answer, "ETag");
        assert_string_equal(location, wanted);
        assert_string_equal(etag, "\"r1\"");
        object = call_json(w, 200, "GET", location, NULL);
        assert_int_equal(json_number(object, "bytes_total"), SIZE);
}

ON_WORKER(metadata_comes_in_the_same_answer_when_asked_for)
{
        const char *body;
        struct json_object *operation, *metadata;
        const char *region = region_make(w, SIZE, 0);

        operation = create(w, 201, "/v1/operations?include=metadata", "writable", region, "");
        const char *path = text_format("/v1/operations/%s/metadata", json_text(operation, "id"));
        metadata = call_json(w, 200, "GET", path, NULL);
        assert_true(json_object_equal(json_member(operation, "metadata"), metadata));
        body = operation_body("read", region, ",\"remote_url\":\"http://127.0.0.1:9/v1/operations/x/metadata\"");
        assert_problem(w, "POST", "/v1/operations?include=metadata", body, 400, "invalid-parameter", NULL);
        assert_problem(w, "POST", "/v1/operations?include=everything", body, 400, "invalid-parameter", NULL);
        assert_problem(w, "POST", "/v1/operations?wait_for=any", body, 400, "invalid-parameter", NULL);
}

#define URL ",\"remote_url\":\"http://127.0.0.1:9/v1/operations/x/metadata\""

ON_WORKER(fields_that_are_wrong_are_named)
{
        /* $ stands for the region. */
        static const struct {
                const char *kind, *more, *code, *pointer;
        } cases[] = {
                { "copy", "", "invalid-parameter", "/kind" },
                { "READABLE", "", "invalid-parameter", "/kind" },
                { "readable", ",\"colour\":1", "unknown-field", "/colour" },
                { "readable", ",\"metadata\":{}", "unknown-field", "/metadata" },
                { "readable", ",\"verify\":true", "invalid-parameter", "/verify" },
                { "readable", ",\"timeout_ms\":5", "invalid-parameter", "/timeout_ms" },
                { "readable", URL, "invalid-parameter", "/remote_url" },
                { "writable", ",\"remote_metadata\":{}", "invalid-parameter", "/remote_metadata" },
                { "writable", ",\"readers\":2", "invalid-parameter", "/readers" },
                { "read", ",\"readers\":2" URL, "invalid-parameter", "/readers" },
                { "write", ",\"readers\":2" URL, "invalid-parameter", "/readers" },
                { "read", ",\"ttl_ms\":5" URL, "invalid-parameter", "/ttl_ms" },
                { "read", "", "invalid-parameter", "" },
                { "read", ",\"remote_metadata\":{}" URL, "invalid-parameter", "" },
                { "read", ",\"remote_metadata\":{}", "invalid-metadata", NULL },
                { "read", ",\"remote_metadata\":\"eJ\"", "invalid-parameter", "/remote_metadata" },
                { "read", ",\"remote_metadata\":null", "invalid-parameter", "/remote_metadata" },
                { "read", ",\"remote_url\":\"\"", "invalid-parameter", "/remote_url" },
                { "read", ",\"remote_url\":7", "invalid-parameter", "/remote_url" },
                { "read", ",\"verify\":1" URL, "invalid-parameter", "/verify" },
                { "read", ",\"timeout_ms\":-1" URL, "invalid-parameter", "/timeout_ms" },
                { "read", ",\"timeout_ms\":0" URL, "invalid-parameter", "/timeout_ms" },
                { "readable", ",\"readers\":0", "invalid-parameter", "/readers" },
                { "readable", ",\"readers\":10000000", "invalid-parameter", "/readers" },
                { "readable", ",\"ttl_ms\":0", "invalid-parameter", "/ttl_ms" },
                { "readable", ",\"ttl_ms\":1.5", "invalid-parameter", "/ttl_ms" },
                { "readable", ",\"ttl_ms\":9007199254740991", "invalid-parameter", "/ttl_ms" },
                { "readable", ",\"layout\":\"heap\"", "invalid-parameter", "/layout" },
                { "readable", ",\"kind\":\"heap\"", "invalid-parameter", "/kind" },
        };
        struct ferry_operation_list list;
        const char *region = region_make(w, SIZE, 0);

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const char *body = operation_body(cases[i].kind, region, cases[i].more);

                assert_problem(w, "POST", "/v1/operations", body, 400, cases[i].code, cases[i].pointer);
        }
        assert_problem(w, "POST", "/v1/operations", "{}", 400, "invalid-parameter", "/kind");
        assert_problem(w, "POST", "/v1/operations", "{\"kind\":\"readable\"}", 400, "invalid-parameter",
                       "/descriptors");
        assert_problem(w, "POST", "/v1/operations", "[]", 400, "invalid-parameter", "");
        assert_int_equal(ferry_list_operations(w->client, NULL, &list), 0);
        assert_int_equal(list.n, 0); /* nothing was made */
        ferry_operation_list_clear(&list);
        region_drop(w, region);
}

WITH_WORKER(descriptors_that_are_wrong_are_named)
{
        /* $ stands for a region of 1000 bytes. */
        static const struct {
                const char *descriptors;
                int status;
                const char *code, *pointer;
        } cases[] = {
                { "[]", 400, "invalid-parameter", "/descriptors" },
                { "{}", 400, "invalid-parameter", "/descriptors" },
                { "[1]", 400, "invalid-parameter", "/descriptors/0" },
                { "[{}]", 400, "invalid-parameter", "/descriptors/0/region" },
                { "[{\"region\":\"rgn_0000000000000000\"}]", 404, "not-found", "/descriptors/0/region" },
                { "[{\"region\":\"op_0000000000000001\"}]", 404, "not-found", "/descriptors/0/region" },
                { "[{\"region\":\"../../etc/passwd\"}]", 404, "not-found", "/descriptors/0/region" },
                { "[{\"region\":\"\"}]", 404, "not-found", "/descriptors/0/region" },
                { "[{\"region\":\"$\",\"size\":0}]", 400, "invalid-parameter", "/descriptors/0/size" },
                { "[{\"region\":\"$\",\"size\":-5}]", 400, "invalid-parameter", "/descriptors/0/size" },
                { "[{\"region\":\"$\",\"size\":\"5\"}]", 400, "invalid-parameter", "/descriptors/0/size" },
                { "[{\"region\":\"$\",\"offset\":-1}]", 400, "invalid-parameter", "/descriptors/0/offset" },
                { "[{\"region\":\"$\",\"ptr\":1}]", 400, "unknown-field", "/descriptors/0/ptr" },
                { "[{\"region\":\"$\",\"size\":1001}]", 400, "out-of-bounds", "/descriptors/0/size" },
                { "[{\"region\":\"$\",\"offset\":1000}]", 400, "out-of-bounds", "/descriptors/0/offset" },
                { "[{\"region\":\"$\",\"offset\":999,\"size\":2}]", 400, "out-of-bounds", "/descriptors/0/size" },
                { "[{\"region\":\"$\",\"offset\":1,\"size\":9007199254740991}]", 400, "out-of-bounds",
                  "/descriptors/0/size" },
                { "[{\"region\":\"$\",\"offset\":9007199254740991}]", 400, "out-of-bounds", "/descriptors/0/offset" },
                { "[{\"region\":\"$\",\"offset\":18446744073709551615}]", 400, "invalid-parameter",
                  "/descriptors/0/offset" },
                { "[{\"region\":\"$\"},{\"region\":\"$\",\"size\":999},{\"region\":\"$\",\"size\":1001}]", 400,
                  "out-of-bounds", "/descriptors/2/size" },
        };

        worker_start(w, "a", NULL);
        const char *region = region_make(w, 1000, 0);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                const char *body = "{\"kind\":\"readable\",\"descriptors\":";

                for (const char *c = cases[i].descriptors; *c; c++)
                        body = *c == '$' ? text_format("%s%s", body, region) : text_format("%s%c", body, *c);
                body = text_format("%s}", body);
                assert_problem(w, "POST", "/v1/operations", body, cases[i].status, cases[i].code, cases[i].pointer);
        }
        region_drop(w, region); /* nothing holds it */
}

/* n slices of one byte. */
static char *many_slices(const char *region, size_t n)
{
        char *text = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);

        assert_non_null(out);
        (void)fprintf(out, "{\"kind\":\"readable\",\"descriptors\":[");
        for (size_t i = 0; i < n; i++)
                (void)fprintf(out, "%s{\"region\":\"%s\",\"size\":1}", i ? "," : "", region);
        (void)fprintf(out, "]}");
        (void)fclose(out);
        return text;
}

ON_WORKER(descriptors_are_bounded_in_number)
{
        enum { MOST = 100000, TOO_MANY = 262145 };
        struct json_object *operation;
        char *body;
        const char *region = region_make(w, TOO_MANY, 0);

        assert_int_equal(json_number(call_json(w, 200, "GET", "/v1/limits", NULL), "descriptors_max"), TOO_MANY - 1);
        assert_problem(w, "POST", "/v1/operations",
                       text_format("{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"%s\",\"size\":1,"
                                   "\"count\":%d}]}",
                                   region, TOO_MANY),
                       400, "invalid-parameter", "/descriptors/0/count");
        body = many_slices(region, MOST);
        operation = call_json(w, 201, "POST", "/v1/operations", body);
        assert_int_equal(json_number(operation, "bytes_total"), MOST);
        assert_int_equal(json_object_array_length(json_member(operation, "descriptors")), MOST);
        free(body);
}

ON_WORKER(an_idempotency_key_makes_one_operation)
{
        static const char *const key[] = { "Idempotency-Key: same", NULL };
        const char *body, *other;
        struct json_object *first, *again, *problem;
        const char *region = region_make(w, SIZE, 0);

        body = operation_body("readable", region, "");
        other = operation_body("writable", region, "");
        first = call_json_with(w, 201, "POST", "/v1/operations", body, key);
        again = call_json_with(w, 201, "POST", "/v1/operations", body, key);
        assert_string_equal(json_text(first, "id"), json_text(again, "id"));
        problem = call_json_with(w, 422, "POST", "/v1/operations", other, key);
        assert_string_equal(json_text(problem, "code"), "idempotency-conflict");
        problem = call_json_with(w, 422, "POST", "/v1/operations?include=metadata", body, key);
        assert_string_equal(json_text(problem, "code"), "idempotency-conflict");
        assert_int_equal(ferry_delete_operation(w->client, json_text(first, "id")), 0);
        problem = call_json_with(w, 410, "POST", "/v1/operations", body, key);
        assert_string_equal(json_text(problem, "code"), "gone");
        /* A refusal is not kept: the same key may try again with what is right. */
        static const char *const second[] = { "Idempotency-Key: second", NULL };
        call_json_with(w, 400, "POST", "/v1/operations", "{}", second);
        call_json_with(w, 201, "POST", "/v1/operations", body, second);
}
