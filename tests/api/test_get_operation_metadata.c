/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "wire.h"

/* GET /v1/operations/{id}/metadata: upstream's RdmaMetadata, and a secret. */

static struct json_object *metadata_of(struct worker *w, const char *id)
{
        return call_json(w, 200, "GET", text_format("/v1/operations/%s/metadata", id), NULL);
}

/* What nixl_connect checks when it decodes the document. */
static void assert_like_upstream(struct json_object *metadata, int kind, const uint64_t *sizes, size_t n)
{
        struct json_object *descriptors = json_member(metadata, "descriptors");
        const char *blob = json_text(metadata, "nixl_metadata"), *key = json_text(metadata, "notification_key");
        const char *names = json_names(metadata);

        assert_string_equal(names, "descriptors nixl_metadata notification_key operation_kind");
        assert_int_equal(json_number(metadata, "operation_kind"), kind);
        assert_int_equal(strncmp(blob, "b64:e", 5), 0); /* its lstrip("b64:") takes off no more than the prefix */
        assert_int_equal(strspn(blob + 4, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="),
                         strlen(blob) - 4);
        assert_int_equal(strlen(key), 43);
        assert_int_equal(strspn(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"), 43);
        assert_int_equal(json_object_array_length(descriptors), n);
        for (size_t i = 0; i < n; i++) {
                struct json_object *descriptor = json_object_array_get_idx(descriptors, i);

                names = json_names(descriptor);
                assert_string_equal(names, "device ptr size");
                assert_string_equal(json_text(descriptor, "device"), "cpu");
                assert_true(json_number(descriptor, "ptr") > 0);
                assert_int_equal(json_number(descriptor, "size"), sizes[i]);
        }
}

ON_WORKER(the_document_is_upstreams_with_exactly_four_keys)
{
        static const uint64_t sizes[] = { 1, 4097, 100 };
        struct ferry_descriptor descriptors[3];
        const char *region = region_make(w, 100000, 0);

        for (size_t i = 0; i < 3; i++)
                descriptors[i] = (struct ferry_descriptor){ region, i * 10000, sizes[i] };
        for (int writable = 0; writable < 2; writable++) {
                struct ferry_operation_spec spec = { .kind = writable ? FERRY_WRITABLE : FERRY_READABLE,
                                                     .descriptors = descriptors,
                                                     .n_descriptors = 3 };
                OPERATION operation;
                struct json_object *metadata;

                assert_int_equal(ferry_create_operation(w->client, &spec, &operation), 0);
                metadata = metadata_of(w, operation.id);
                assert_like_upstream(metadata, writable ? 2 : 1, sizes, 3);
        }
}

static size_t blob_length(struct worker *w, const char *region)
{
        OPERATION operation;
        size_t n;

        offer_make(w, FERRY_READABLE, region, &operation);
        n = strlen(json_text(json_parse(operation.metadata), "nixl_metadata"));
        return n;
}

/* Ids and digests are random, so that zlib's output varies by a few bytes; 100 registrations would show. */
ON_EACH_PAIR(the_blob_does_not_grow_with_what_else_is_there)
{
        enum { MORE = 100, SLACK = 24 };

        const char *other;
        size_t before, after;
        const char *region = region_make(&p->a, 100, 0);

        before = blob_length(&p->a, region);
        for (int i = 0; i < MORE; i++) {
                other = region_make(&p->a, 1000, 0);
                (void)blob_length(&p->a, other);
        }
        after = blob_length(&p->a, region);
        assert_in_range(after, before - SLACK, before + SLACK);
        assert_true(after < 600);
}

/* As many pieces of memory as one likes. */
ON_WORKER(the_metadata_of_a_stream_stay_short)
{
        enum { PIECES = 10000 };
        const char *region = region_make(w, 2 * PIECES, 0);
        struct json_object *offered, *metadata, *one;
        size_t length;
        char *body;
        FILE *file = open_memstream(&body, &length);

        fprintf(file, "{\"kind\":\"readable\",\"layout\":\"stream\",\"descriptors\":[");
        for (int i = 0; i < PIECES; i++)
                fprintf(file, "%s{\"region\":\"%s\",\"offset\":%d,\"size\":1}", i ? "," : "", region, 2 * i);
        fprintf(file, "]}");
        (void)fclose(file);
        offered = call_json(w, 201, "POST", "/v1/operations?include=metadata", text_keep(body));
        metadata = json_member(offered, "metadata");
        assert_true(strlen(json_object_to_json_string_ext(metadata, JSON_C_TO_STRING_PLAIN)) < 600);
        assert_int_equal(json_object_array_length(json_member(metadata, "descriptors")), 1);
        one = json_object_array_get_idx(json_member(metadata, "descriptors"), 0);
        assert_int_equal(json_number(one, "size"), PIECES);
}

ON_WORKER(it_is_not_to_be_stored_and_every_offer_has_its_own_key)
{
        OPERATION one, two;
        struct json_object *first, *second;
        const char *region = region_make(w, 100, 0);

        offer_make(w, FERRY_READABLE, region, &one);
        offer_make(w, FERRY_READABLE, region, &two);
        struct raw_answer answer = raw_exchange(
                w, text_format("GET /v1/operations/%s/metadata HTTP/1.1\r\nHost: localhost\r\n\r\n", one.id));
        assert_int_equal(answer.status, 200);
        assert_string_equal(raw_header(&answer, "Cache-Control"), "no-store");
        first = json_parse(one.metadata);
        second = json_parse(two.metadata);
        assert_string_not_equal(json_text(first, "notification_key"), json_text(second, "notification_key"));
}

ON_PAIR(only_live_passive_operations_have_it)
{
        OPERATION passive, active;
        const char *path;
        const char *offered = region_make(&p->a, 100, 4);
        const char *local = region_make(&p->b, 100, 0);

        offer_make(&p->a, FERRY_READABLE, offered, &passive);
        begin_make(&p->b, FERRY_READ, local, passive.metadata, &active);
        path = text_format("/v1/operations/%s/metadata", active.id);
        assert_problem(&p->b, "GET", path, NULL, 409, "not-passive", NULL);
        operation_assert_end(&p->b, active.id, FERRY_COMPLETE, NULL);
        assert_problem(&p->b, "GET", path, NULL, 409, "not-passive", NULL);
        operation_assert_end(&p->a, passive.id, FERRY_COMPLETE, NULL);
        path = text_format("/v1/operations/%s/metadata", passive.id);
        assert_problem(&p->a, "GET", path, NULL, 410, "gone", NULL);
        assert_problem(&p->a, "GET", "/v1/operations/op_0123456789abcdef/metadata", NULL, 404, "not-found", NULL);
}

static const char *body_of(struct worker *w, const char *path)
{
        return wire_ask(w, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path).body;
}

/* Collects everything that the worker says about an operation. */
static const char *all_answers(struct worker *w, const char *id)
{
        static const struct {
                const char *method, *form, *body;
        } requests[] = {
                { "GET", "", NULL },
                { "GET", "?wait_ms=1", NULL },
                { "POST", "/renew", "{\"ttl_ms\":\"x\"}" },
                { "POST", "/renew", "{}" },
                { "POST", "/cancel", NULL },
                { "GET", "/metadata", NULL }, /* cancelled: 410 */
                { "DELETE", "", NULL },
        };
        const char *all = text_format("%s%s", body_of(w, "/v1/operations"), body_of(w, "/metrics"));

        for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
                struct ferry_answer answer;
                const char *path = text_format("/v1/operations/%s%s", id, requests[i].form);

                (void)ferry_request(w->client, requests[i].method, path, requests[i].body ? "application/json" : NULL,
                                    requests[i].body, requests[i].body ? strlen(requests[i].body) : 0, &answer);
                all = text_format("%s%s", all, answer.body ? answer.body : "");
                ferry_answer_clear(&answer);
        }
        return all;
}

ON_EACH_PAIR(the_key_appears_nowhere_else, "--log-level", "debug")
{
        const char *changed, *body, *text;
        OPERATION passive, active;
        struct json_object *metadata;
        const char *key;

        pair_expect_failures(p);
        const char *offered = region_make(&p->a, 100, 4);
        const char *local = region_make(&p->b, 100, 0);
        offer_make(&p->a, FERRY_READABLE, offered, &passive);
        metadata = json_parse(passive.metadata);
        key = json_text(metadata, "notification_key");
        begin_make(&p->b, FERRY_READ, local, passive.metadata, &active);
        operation_assert_end(&p->b, active.id, FERRY_COMPLETE, NULL);
        operation_assert_end(&p->a, passive.id, FERRY_COMPLETE, NULL);
        text = all_answers(&p->b, active.id);
        assert_null(strstr(text, key));
        /* A refusal names the place, not the value. */
        changed = metadata_with(passive.metadata, "operation_kind", json_object_new_int(7));
        body = operation_body("read", local, text_format(",\"remote_metadata\":%s", changed));
        assert_null(strstr(json_object_to_json_string(call_json(&p->b, 400, "POST", "/v1/operations", body)), key));
        ferry_operation_clear(&active);
        /* A second use fails, and says so without the key. */
        begin_make(&p->b, FERRY_READ, local, passive.metadata, &active);
        operation_assert_error(&p->b, active.id, FERRY_ERRORED, FERRY_E_ALREADY_CLAIMED);
        ferry_operation_clear(&passive);
        offer_make(&p->a, FERRY_WRITABLE, offered, &passive);
        metadata = json_parse(passive.metadata);
        text = all_answers(&p->a, passive.id);
        assert_null(strstr(text, json_text(metadata, "notification_key")));
        for (int side = 0; side < 2; side++) {
                text = worker_log(side ? &p->b : &p->a);
                assert_non_null(strstr(text, "level=debug"));
                assert_null(strstr(text, json_text(metadata, "notification_key")));
        }
}
