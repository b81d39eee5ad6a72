/* SPDX-License-Identifier: Apache-2.0 */
#include <regex.h>
#include <stdio.h>

#include "wire.h"

/* GET /v1/operations/{id} without waiting; that is in test_waiting.c. */

enum { SIZE = 300000 };

static void assert_like(const char *text, const char *pattern)
{
        regex_t regex;

        assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
        if (regexec(&regex, text, 0, NULL, 0) != 0)
                fail_msg("\"%s\" is not like %s", text, pattern);
        regfree(&regex);
}

#define TIME "^20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]\\.[0-9]{3}Z$"

ON_EACH_PAIR(an_operation_tells_how_it_went)
{
        OPERATION passive, active;
        struct json_object *object;
        const char *offered = region_make(&p->a, SIZE, 3);
        const char *local = region_make(&p->b, SIZE, 0);

        offer_make(&p->a, FERRY_READABLE, offered, &passive);
        object = operation_json(&p->a, passive.id);
        assert_string_equal(json_text(object, "status"), "INITIALIZED");
        assert_false(json_truth(object, "done"));
        assert_int_equal(json_number(object, "bytes_done"), 0);
        assert_like(json_text(object, "id"), "^op_[0-9a-f]{16}$");
        assert_like(json_text(object, "created_at"), TIME);
        assert_like(json_text(object, "expires_at"), TIME);
        assert_true(strcmp(json_text(object, "created_at"), json_text(object, "expires_at")) < 0);

        begin_make(&p->b, FERRY_READ, local, passive.metadata, &active);
        operation_assert_end(&p->b, active.id, FERRY_COMPLETE, NULL);
        operation_assert_end(&p->a, passive.id, FERRY_COMPLETE, NULL);
        for (int side = 0; side < 2; side++) {
                object = operation_json(side ? &p->b : &p->a, side ? active.id : passive.id);
                assert_string_equal(json_text(object, "status"), "COMPLETE");
                assert_true(json_truth(object, "done"));
                assert_int_equal(json_number(object, "bytes_done"), SIZE);
                assert_true(json_number(object, "revision") > 1);
                assert_true(json_number(object, "duration_us") < WAIT_MS * 1000);
                assert_like(json_text(object, "ended_at"), TIME);
                assert_true(strcmp(json_text(object, "created_at"), json_text(object, "ended_at")) <= 0);
                assert_string_equal(json_text(object, "transport"), p->network ? "tcp" : "shm");
        }
}

static struct raw_answer get(struct worker *w, const char *method, const char *id, const char *headers)
{
        return wire_ask(w, "%s /v1/operations/%s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", method, id, headers);
}

ON_WORKER(the_etag_follows_the_revision)
{
        OPERATION operation;
        struct raw_answer answer;
        const char *etag, *length;
        const char *region = region_make(w, SIZE, 0);

        offer_make(w, FERRY_WRITABLE, region, &operation);
        answer = get(w, "GET", operation.id, "");
        assert_int_equal(answer.status, 200);
        etag = raw_header(&answer, "ETag");
        assert_string_equal(etag, "\"r1\"");
        length = raw_header(&answer, "Content-Length");
        for (size_t i = 0; i < 3; i++) {
                static const char *const same[] = { "If-None-Match: \"r1\"\r\n", "If-None-Match: *\r\n",
                                                    "If-None-Match: \"x\", W/\"r1\"\r\n" };

                answer = get(w, "GET", operation.id, same[i]);
                assert_int_equal(answer.status, 304);
                assert_int_equal(answer.body_size, 0);
                answer_assert_header(&answer, "Content-Length", length); /* a cache may take it for the 200's */
                answer_assert_header(&answer, "Cache-Control", "no-store");
                etag = raw_header(&answer, "ETag");
                assert_string_equal(etag, "\"r1\"");
        }
        assert_int_equal(ferry_cancel_operation(w->client, operation.id, NULL), 0);
        answer = get(w, "GET", operation.id, "If-None-Match: \"r1\"\r\n");
        assert_int_equal(answer.status, 200);
        etag = raw_header(&answer, "ETag");
        assert_string_not_equal(etag, "\"r1\"");
}

/* At once, although the client was ready to wait: only what is there can change. */
ON_WORKER(an_id_that_is_not_there_is_not_waited_for)
{
        static const char *const rows[][2] = { { "op_0123456789abcdef?wait_ms=60000&revision=1", "" },
                                               { "rgn_0123456789abcdef?wait_ms=60000", "" },
                                               { "op_0123456789abcdef", "Prefer: wait=60\r\n" } };
        uint64_t start = now_ms();

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct raw_answer answer = get(w, "GET", rows[i][0], rows[i][1]);

                assert_int_equal(answer.status, 404);
        }
        assert_true(now_ms() - start < 20000);
}
