/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "steps.h"

/* POST /v1/operations. What a peer can do wrong is in test_pairs.c, waiting in test_waiting.c. */

enum { SIZE = 10000 };

static struct json_object *create(struct worker *w, int status, const char *target, const char *kind,
                                  const char *region, const char *more)
{
        return call_json(w, status, "POST", target, operation_body(kind, region, more));
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
        more = by_url ? text_format(",\"remote_url\":\"%s\"", metadata_url(&p->a, passive.id))
                      : text_format(",\"remote_metadata\":%s", passive.metadata);
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

ON_PAIR(absent_fields_are_left_out)
{
        struct json_object *operation;
        OPERATION passive;
        const char *offered = region_make(&p->a, SIZE, 7);
        const char *local = region_make(&p->b, SIZE, 0);

        operation = create(&p->a, 201, "/v1/operations", "writable", offered, "");
        assert_string_equal(
                json_names(operation),
                "id kind status done revision bytes_total bytes_done descriptors ttl_ms request_id created_at "
                "expires_at");
        assert_string_equal(json_names(json_object_array_get_idx(json_member(operation, "descriptors"), 0)),
                            "region offset size");
        offer_make(&p->a, FERRY_READABLE, offered, &passive);
        operation =
                create(&p->b, 201, "/v1/operations", "read", local,
                       text_format(",\"verify\":true,\"layout\":\"stream\",\"timeout_ms\":9000,\"remote_metadata\":%s",
                                   passive.metadata));
        operation_assert_end(&p->b, json_text(operation, "id"), FERRY_COMPLETE, NULL);
        operation_assert_end(&p->a, passive.id, FERRY_COMPLETE, NULL);
        operation = operation_json(&p->b, json_text(operation, "id"));
        assert_string_equal(json_names(operation),
                            "id kind status done revision bytes_total bytes_done descriptors layout timeout_ms "
                            "verify request_id created_at ended_at duration_us peer transport connect_us");
        operation = operation_json(&p->a, passive.id);
        assert_string_equal(
                json_names(operation),
                "id kind status done revision bytes_total bytes_done descriptors ttl_ms request_id created_at "
                "ended_at duration_us peer transport");
}

ON_WORKER(the_answer_names_the_new_operation)
{
        struct json_object *object;
        const char *request, *location, *etag, *wanted;
        const char *region = region_make(w, SIZE, 0);

        request = json_request("/v1/operations", "", operation_body("readable", region, ""));
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
        struct json_object *operation;
        const char *region = region_make(w, SIZE, 0);

        operation = create(w, 201, "/v1/operations?include=metadata", "writable", region, "");
        const char *path = text_format("/v1/operations/%s/metadata", json_text(operation, "id"));
        assert_true(json_object_equal(json_member(operation, "metadata"), call_json(w, 200, "GET", path, NULL)));
        body = operation_body("read", region, ",\"remote_url\":\"http://127.0.0.1:9/v1/operations/x/metadata\"");
        assert_problem(w, "POST", "/v1/operations?include=metadata", body, 400, "invalid-parameter", NULL);
}

/* What is wrong with one field alone, tests/openapi/check_parameters.py sends. */
ON_WORKER(fields_that_do_not_go_together_are_named)
{
        static const struct {
                const char *kind, *more, *pointer;
        } cases[] = {
                { "read", "", "" },
                { "read", ",\"remote_metadata\":{},\"remote_url\":\"http://127.0.0.1:9/\"", "" },
                { "writable", ",\"readers\":2", "/readers" },
        };
        const char *region = region_make(w, SIZE, 0);

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                assert_problem(w, "POST", "/v1/operations", operation_body(cases[i].kind, region, cases[i].more), 400,
                               "invalid-parameter", cases[i].pointer);
        region_drop(w, region); /* nothing was made */
}

ON_WORKER(a_descriptor_that_does_not_fit_its_region_is_named)
{
        static const struct {
                const char *members; /* of the second slice of a region of 100 bytes */
                const char *code, *pointer;
        } cases[] = {
                { "\"offset\":100", "out-of-bounds", "/offset" },
                { "\"offset\":9007199254740991,\"size\":9007199254740991", "out-of-bounds", "/offset" },
                { "\"size\":101", "out-of-bounds", "/size" },
                { "\"offset\":1,\"size\":100", "out-of-bounds", "/size" },
                { "\"offset\":99,\"size\":9007199254740991", "out-of-bounds", "/size" },
                { "\"count\":2", "invalid-parameter", "/size" },
                { "\"stride\":99", "invalid-parameter", "/stride" },
                { "\"size\":2,\"count\":2,\"stride\":1", "invalid-parameter", "/stride" },
                { "\"size\":101,\"count\":2", "out-of-bounds", "/size" },
                { "\"size\":1,\"count\":101", "out-of-bounds", "/count" },
                { "\"offset\":1,\"size\":50,\"count\":2", "out-of-bounds", "/count" },
                { "\"size\":1,\"count\":2,\"stride\":100", "out-of-bounds", "/count" },
                { "\"size\":1,\"count\":2049,\"stride\":9007199254740991", "out-of-bounds", "/count" },
                { "\"size\":1,\"count\":9007199254740991,\"stride\":9007199254740991", "out-of-bounds", "/count" },
                { "\"blocks\":[1]", "invalid-parameter", "/size" },
                { "\"size\":1,\"count\":1,\"blocks\":[1]", "invalid-parameter", "/blocks" },
                { "\"size\":1,\"stride\":1,\"blocks\":[1]", "invalid-parameter", "/blocks" },
                { "\"size\":101,\"blocks\":[0]", "out-of-bounds", "/blocks/0" },
                { "\"size\":2,\"blocks\":[9007199254740991]", "out-of-bounds", "/blocks/0" },
                { "\"size\":10,\"blocks\":[9,10]", "out-of-bounds", "/blocks/1" },
                { "\"offset\":1,\"size\":10,\"blocks\":[8,9]", "out-of-bounds", "/blocks/1" },
        };
        const char *region = region_make(w, 100, 0);

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                assert_problem(w, "POST", "/v1/operations",
                               text_format("{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"%s\"},"
                                           "{\"region\":\"%s\",%s}]}",
                                           region, region, test_row(cases[i].members)),
                               400, cases[i].code, text_format("/descriptors/1%s", cases[i].pointer));
        assert_problem(w, "POST", "/v1/operations", operation_body("readable", "rgn_0000000000000001", ""), 404,
                       "not-found", "/descriptors/0/region");
        region_drop(w, region); /* nothing holds it */
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
