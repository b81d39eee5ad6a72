/* SPDX-License-Identifier: Apache-2.0 */
#include "http_fixture.h"

#include <unistd.h>

#include <ferry/encoding.h>

#include "unit_json.h"

/* POST /v1/operations/batch, and GET /v1/operations?ids=…: several operations by one request. */

enum { PATH_SIZE = 1024 };

/* The list in a reply. */
static struct json_object *results_of(struct raw_answer reply, const char *member)
{
        struct json_object *results = keep_json(json_tokener_parse(reply.body));

        if (reply.status != 200)
                fail_msg("no results: %s", reply.body);
        assert_true(json_object_object_get_ex(results, member, &results));
        assert_true(json_object_is_type(results, json_type_array));
        expect_status(reply, 200);
        return results;
}

/* A member of result i, or of its problem, as text; "" = there is none. Borrowed from the results. */
static const char *result(struct json_object *results, size_t i, const char *name)
{
        struct json_object *element = json_object_array_get_idx(results, i), *problem, *value = NULL;
        bool refused = json_object_object_get_ex(element, "problem", &problem);

        if (!json_object_object_get_ex(element, name, &value) &&
            (!refused || !json_object_object_get_ex(problem, name, &value)))
                return "";
        return json_object_get_string(value);
}

static struct raw_answer post(struct http_fixture *h, const char *query, const char *headers, const char *body)
{
        char path[PATH_SIZE];

        snprintf(path, sizeof(path), "/v1/operations/batch%s", query);
        return http_call(h, "POST", path, headers, body);
}

/* A batch of n readables. */
static char *bodies(struct http_fixture *h, size_t n)
{
        char *text = test_keep(calloc(1, 32 + n * 128), free);

        strcpy(text, "{\"operations\":[");
        for (size_t i = 0; i < n; i++)
                sprintf(text + strlen(text),
                        "%s{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"%s\",\"size\":%zu}]}", i ? " ,\n" : "",
                        h->region, i + 1);
        return strcat(text, "]}");
}

static size_t count_operations(struct http_fixture *h)
{
        struct operation *page[100];
        uint64_t cursor = 0;
        size_t n = operation_page(h->f->store, NULL, &cursor, page, 100);

        for (size_t i = 0; i < n; i++)
                operation_unref(page[i]);
        return n;
}

/* "/v1/operations?ids=a,b,…" and more. */
static const char *ids_path(struct http_fixture *h, struct operation *const *operations, size_t n, const char *more)
{
        static char path[PATH_SIZE];
        char id[FERRY_ID_TEXT_SIZE];

        strcpy(path, "/v1/operations?ids=");
        for (size_t i = 0; i < n; i++) {
                ferry_id_format("op_", operation_id(operations[i]), id);
                strcat(strcat(path, i ? "," : ""), id);
        }
        return strcat(path, more);
}

WITH_HTTP(a_bad_body_spoils_no_other)
{
        struct json_object *results;
        char body[4096];

        snprintf(body, sizeof(body),
                 " { \"operations\" : [ {\"kind\":\"readable\",\"descriptors\":[{\"region\":\"%s\"}]}, "
                 "[[{\"kind\":\"]}\\\"\"}]], null, 7,"
                 "{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"%s\",\"size\":0}]},"
                 "{\"kind\":\"read\",\"descriptors\":[{\"region\":\"%s\"}],\"remote_metadata\":{}},"
                 "{\"kind\":\"read\",\"descriptors\":[{\"region\":\"%s\"}],\"remote_url\":\"http://192.0.2.1/v1/"
                 "operations/op_0000000000000001/metadata\"},"
                 "{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"rgn_0000000000000001\"}]},"
                 "{\"kind\":\"writable\",\"descriptors\":[{\"region\":\"%s\"}]}\n]}",
                 h->region, h->region, h->region, h->region, h->region);
        results = results_of(post(h, "", "", body), "results");
        assert_int_equal(json_object_array_length(results), 9);
        assert_string_equal(result(results, 0, "kind"), "readable");
        for (size_t i = 1; i < 4; i++)
                assert_string_equal(result(results, i, "code"), "invalid-parameter");
        assert_string_equal(result(results, 4, "code"), "invalid-parameter");
        assert_non_null(strstr(result(results, 4, "errors"), "\"\\/operations\\/4\\/descriptors\\/0\\/size\""));
        assert_string_equal(result(results, 4, "status"), "400");
        assert_string_equal(result(results, 5, "code"), "invalid-metadata");
        assert_string_equal(result(results, 6, "code"), "forbidden");
        assert_string_equal(result(results, 7, "code"), "not-found");
        assert_string_equal(result(results, 8, "kind"), "writable");
        assert_int_equal(count_operations(h), 2);
}

WITH_HTTP(metadata_come_with_what_has_them)
{
        struct json_object *results;
        char body[1024];

        snprintf(body, sizeof(body),
                 "{\"operations\":[{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"%s\"}]},"
                 "{\"kind\":\"read\",\"descriptors\":[{\"region\":\"%s\"}],\"remote_url\":\"http://127.0.0.1:1/v1/"
                 "operations/op_0000000000000001/metadata\"}]}",
                 h->region, h->region);
        results = results_of(post(h, "?include=metadata", "", body), "results");
        assert_non_null(strstr(result(results, 0, "metadata"), "notification_key"));
        assert_string_equal(result(results, 1, "kind"), "read");
        assert_string_equal(result(results, 1, "metadata"), "");
}

WITH_HTTP(the_same_key_shows_what_it_made)
{
        char *body = bodies(h, 2), first[64];
        struct json_object *results;
        struct operation *made[2];
        struct raw_answer reply;
        uint64_t cursor = 0;

        results = results_of(post(h, "", "Idempotency-Key: k\r\n", body), "results");
        snprintf(first, sizeof(first), "%s", result(results, 0, "id"));
        assert_int_equal(operation_page(h->f->store, NULL, &cursor, made, 2), 2);
        operation_delete(h->f->store, made[1]);
        reply = post(h, "", "Idempotency-Key: k\r\n", body);
        assert_string_equal(raw_header(&reply, "Idempotency-Replayed"), "true");
        results = results_of(reply, "results");
        assert_string_equal(result(results, 0, "id"), first);
        assert_string_equal(result(results, 1, "code"), "gone");
        assert_int_equal(count_operations(h), 1);
        strstr(body, "size")[6] = '3';
        expect_problem(post(h, "", "Idempotency-Key: k\r\n", body), 422, "idempotency-conflict");
        for (size_t i = 0; i < 2; i++)
                operation_unref(made[i]);
}

WITH_HTTP(the_same_key_tries_again_what_was_refused)
{
        struct operation *others[99];
        char *body = bodies(h, 2), first[64];
        struct json_object *results;

        for (size_t i = 0; i < 99; i++)
                others[i] = make(h->f, FERRY_READABLE);
        for (int round = 0; round < 2; round++) {
                results = results_of(post(h, "", "Idempotency-Key: k\r\n", body), "results");
                if (!round)
                        snprintf(first, sizeof(first), "%s", result(results, 0, "id"));
                assert_string_equal(result(results, 0, "id"), first);
                assert_string_equal(result(results, 1, "code"), "limit-reached");
                assert_string_equal(result(results, 1, "status"), "429");
        }
        operation_delete(h->f->store, others[0]);
        results = results_of(post(h, "", "Idempotency-Key: k\r\n", body), "results");
        assert_string_equal(result(results, 0, "id"), first);
        assert_string_equal(result(results, 1, "kind"), "readable");
}

WITH_HTTP(several_are_found_in_the_order_of_their_ids)
{
        struct operation *some[3];
        struct json_object *results;
        char id[2][FERRY_ID_TEXT_SIZE];

        for (size_t i = 0; i < 3; i++)
                some[i] = make(h->f, i ? FERRY_READABLE : FERRY_WRITABLE);
        ferry_id_format("op_", operation_id(some[0]), id[0]);
        ferry_id_format("op_", operation_id(some[2]), id[1]);
        operation_delete(h->f->store, some[2]);
        results = results_of(http_call(h, "GET", ids_path(h, some, 3, ",op_0000000000000001,nonsense%22"), "", NULL),
                             "operations");
        assert_int_equal(json_object_array_length(results), 5);
        assert_string_equal(result(results, 0, "id"), id[0]);
        assert_string_equal(result(results, 0, "kind"), "writable");
        assert_string_equal(result(results, 1, "kind"), "readable");
        assert_string_equal(result(results, 2, "id"), id[1]);
        assert_string_equal(result(results, 2, "code"), "gone");
        assert_string_equal(result(results, 3, "id"), "op_0000000000000001");
        assert_string_equal(result(results, 3, "code"), "not-found");
        assert_string_equal(result(results, 4, "id"), "nonsense\"");
        assert_string_equal(result(results, 4, "status"), "404");
}

/* Parks one request for three operations, and tells how many it takes to wake it. */
static void wait_for_three(struct http_fixture *h, const char *more, size_t enough)
{
        struct operation *some[3];
        struct json_object *results;
        int fd;

        for (size_t i = 0; i < 3; i++)
                some[i] = make(h->f, FERRY_READABLE);
        fd = http_begin(h, "GET", ids_path(h, some, 3, more), "", NULL);
        await_parked(h, 1);
        for (size_t i = 0; i < enough; i++) {
                assert_int_equal(h->server->waits->n_parked, 1);
                operation_cancel(h->f->store, some[2 - i]);
        }
        results = results_of(raw_receive_last(fd), "operations");
        for (size_t i = 0; i < 3; i++) {
                assert_string_equal(result(results, 2 - i, "done"), i < enough ? "true" : "false");
                operation_delete(h->f->store, some[i]);
                test_release(some[i]);
        }
        await_parked(h, 0);
}

WITH_HTTP(a_wait_is_for_all_or_for_any)
{
        wait_for_three(h, "&wait_ms=60000", 3);
        wait_for_three(h, "&wait_ms=60000&wait_for=all", 3);
        wait_for_three(h, "&wait_ms=60000&wait_for=any", 1);
}

WITH_HTTP(what_is_done_or_missing_ends_a_wait_for_any_at_once)
{
        struct operation *some[2] = { make(h->f, FERRY_READABLE), make(h->f, FERRY_READABLE) };

        (void)results_of(
                http_call(h, "GET", ids_path(h, some, 2, ",op_0000000000000001&wait_for=any&wait_ms=60000"), "", NULL),
                "operations");
        operation_cancel(h->f->store, some[1]);
        (void)results_of(http_call(h, "GET", ids_path(h, some, 2, "&wait_for=any&wait_ms=60000"), "", NULL),
                         "operations");
        operation_cancel(h->f->store, some[0]);
        (void)results_of(http_call(h, "GET", ids_path(h, some, 2, "&wait_ms=60000"), "", NULL), "operations");
}

WITH_HTTP(a_wait_ends_with_what_is_known_at_its_limit)
{
        struct operation *some[2] = { make(h->f, FERRY_READABLE), make(h->f, FERRY_READABLE) };
        struct json_object *results;

        operation_cancel(h->f->store, some[0]);
        results = results_of(http_call(h, "GET", ids_path(h, some, 2, "&wait_ms=20"), "", NULL), "operations");
        assert_string_equal(result(results, 0, "done"), "true");
        assert_string_equal(result(results, 1, "done"), "false");
}

WITH_HTTP(a_server_that_stops_answers_who_waits_for_several)
{
        struct operation *some[2] = { make(h->f, FERRY_READABLE), make(h->f, FERRY_READABLE) };
        int fd = http_begin(h, "GET", ids_path(h, some, 2, "&wait_ms=60000"), "", NULL);

        await_parked(h, 1);
        http_stop(h);
        (void)results_of(raw_receive_last(fd), "operations");
}

WITH_HTTP(what_does_not_go_together_is_refused)
{
        FOR_EACH_TEXT (path, "/v1/operations?ids=", "/v1/operations?wait_ms=1", "/v1/operations?wait_for=any",
                       "/v1/operations?ids=op_0000000000000001&kind=read",
                       "/v1/operations?ids=op_0000000000000001&limit=1",
                       "/v1/operations?ids=op_0000000000000001&wait_for=some",
                       "/v1/operations?ids=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17")
                expect_problem(http_call(h, "GET", path, "", NULL), 400, "invalid-parameter");
}

WITH_HTTP(waits_beyond_the_limit_are_refused_for_ids_only)
{
        struct operation *some[1] = { make(h->f, FERRY_READABLE) };
        char *body = bodies(h, 1);
        int fds[4];

        for (size_t i = 0; i < 4; i++) {
                fds[i] = http_begin(h, "GET", ids_path(h, some, 1, "&wait_ms=60000"), "", NULL);
                await_parked(h, i + 1);
        }
        expect_problem(http_call(h, "GET", ids_path(h, some, 1, "&wait_ms=60000"), "", NULL), 429, "limit-reached");
        /* What was made must be told. */
        (void)results_of(post(h, "", "Prefer: wait=60\r\n", body), "results");
        operation_cancel(h->f->store, some[0]);
        for (size_t i = 0; i < 4; i++)
                (void)results_of(raw_receive_last(fds[i]), "operations");
}
