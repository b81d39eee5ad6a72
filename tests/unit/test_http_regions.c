/* SPDX-License-Identifier: Apache-2.0 */
#include "http_fixture.h"

#include <sys/socket.h>
#include <unistd.h>

static const char *content_path(struct http_fixture *h, const char *query)
{
        static char path[128];

        snprintf(path, sizeof(path), "/v1/regions/%s/content%s", h->region, query);
        return path;
}

static uint8_t *memory(struct http_fixture *h)
{
        return h->f->region->address;
}

static void fill(struct http_fixture *h)
{
        for (size_t i = 0; i < REGION_SIZE; i++)
                memory(h)[i] = (uint8_t)(i * 7 + i / 251);
}

/* Sends a head whose body the test sends itself. */
static int put(struct http_fixture *h, const char *query, const char *headers)
{
        return http_begin(h, "PUT", content_path(h, query), headers, NULL);
}

WITH_HTTP(a_region_is_made_shown_and_deleted)
{
        struct raw_answer reply =
                expect_status(http_call(h, "POST", "/v1/regions", "", "{\"size\":4096,\"name\":\"kv0\"}"), 201);

        const char *path = text_format("%s", raw_header(&reply, "Location"));
        assert_string_equal(reply_field(&reply, "size"), "4096");
        assert_string_equal(reply_field(&reply, "device"), "cpu");
        assert_string_equal(reply_field(&reply, "name"), "kv0");
        assert_string_equal(reply_field(&reply, "in_use"), "0");
        assert_string_equal(reply_field(&reply, "state"), "ready");
        assert_memory_equal(reply_field(&reply, "path"), "/proc/", 6);
        expect_status(http_call(h, "GET", path, "", NULL), 200);
        expect_status(http_call(h, "DELETE", path, "", NULL), 204);
        expect_problem(http_call(h, "GET", path, "", NULL), 404, "not-found");
        expect_problem(http_call(h, "DELETE", path, "", NULL), 404, "not-found");
}

WITH_HTTP(a_bad_region_is_refused_with_the_place)
{
        static const struct {
                const char *body, *pointer, *code;
                int status;
        } bad[] = {
                { "{}", "/size", "invalid-parameter", 400 },
                { "{\"size\":0}", "/size", "invalid-parameter", 400 },
                { "{\"size\":-1}", "/size", "invalid-parameter", 400 },
                { "{\"size\":\"1\"}", "/size", "invalid-parameter", 400 },
                { "{\"size\":null}", "/size", "invalid-parameter", 400 },
                { "{\"size\":1,\"nam\":\"x\"}", "/nam", "unknown-field", 400 },
                { "{\"size\":1,\"name\":\"a\\u0007b\"}", "/name", "invalid-parameter", 400 },
                { "{\"size\":1,\"name\":\"12345678901234567890123456789012345678901234567890123456789012345\"}",
                  "/name", "invalid-parameter", 400 },
                { "{\"size\":1,\"idle_ms\":0}", "/idle_ms", "invalid-parameter", 400 },
                { "{\"size\":1,\"idle_ms\":3600001}", "/idle_ms", "invalid-parameter", 400 },
                { "{\"size\":1,\"device\":\"cuda:99\"}", "/device", "unknown-device", 400 },
        };

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(bad); i++) {
                struct raw_answer reply = http_call(h, "POST", "/v1/regions", "", bad[i].body);
                const char *expected = text_format("\"pointer\":\"%s\"", bad[i].pointer);
                if (!strstr(reply.body, expected))
                        fail_msg("%s: %s", bad[i].body, reply.body);
                expect_problem(reply, bad[i].status, bad[i].code);
        }
}

WITH_HTTP(a_region_beyond_the_memory_limit_is_507)
{
        struct raw_answer reply = http_call(h, "POST", "/v1/regions", "", "{\"size\":1048576}");

        assert_string_equal(reply_field(&reply, "retryable"), "false");
        assert_null(raw_header(&reply, "Retry-After"));
        expect_problem(reply, 507, "limit-reached");
        reply = http_call(h, "POST", "/v1/regions", "", text_format("{\"size\":%d}", 4 * REGION_SIZE));
        assert_string_equal(reply_field(&reply, "retryable"), "true");
        assert_non_null(raw_header(&reply, "Retry-After"));
        expect_problem(reply, 507, "limit-reached");
}

WITH_HTTP(the_same_key_makes_one_region)
{
        static const char key[] = "Idempotency-Key: k-1\r\n";
        struct raw_answer reply = expect_status(http_call(h, "POST", "/v1/regions", key, "{\"size\":4096}"), 201);

        const char *id = text_format("%s", reply_field(&reply, "id"));
        assert_null(raw_header(&reply, "Idempotency-Replayed"));
        reply = expect_status(http_call(h, "POST", "/v1/regions", key, "{\"size\":4096}"), 201);
        assert_string_equal(reply_field(&reply, "id"), id);
        assert_string_equal(raw_header(&reply, "Idempotency-Replayed"), "true");
        expect_problem(http_call(h, "POST", "/v1/regions", key, "{\"size\":4097}"), 422, "idempotency-conflict");
        expect_status(http_call(h, "DELETE", text_format("/v1/regions/%s", id), "", NULL), 204);
        expect_problem(http_call(h, "POST", "/v1/regions", key, "{\"size\":4096}"), 410, "gone");
        expect_problem(http_call(h, "POST", "/v1/regions", "Idempotency-Key: a b\r\n", "{\"size\":1}"), 400,
                       "invalid-parameter");
}

WITH_HTTP(a_key_whose_request_failed_is_free_again)
{
        static const char key[] = "Idempotency-Key: k-2\r\n";

        expect_status(http_call(h, "POST", "/v1/regions", key, "{\"size\":1048576}"), 507);
        expect_status(http_call(h, "POST", "/v1/regions", key, "{\"size\":4096}"), 201);
}

WITH_HTTP(regions_come_in_pages)
{
        struct raw_answer reply = expect_status(http_call(h, "GET", "/v1/regions?limit=1", "", NULL), 200);

        assert_non_null(strstr(reply.body, h->region));
        const char *path = text_format("/v1/regions?limit=1&after=%s", reply_field(&reply, "next"));
        reply = expect_status(http_call(h, "GET", path, "", NULL), 200);
        assert_null(strstr(reply.body, h->region));
        assert_null(reply_field(&reply, "next"));
}

WITH_HTTP(content_comes_whole)
{
        struct raw_answer reply;

        fill(h);
        reply = expect_status(http_call(h, "GET", content_path(h, ""), "", NULL), 200);
        assert_int_equal(reply.body_size, REGION_SIZE);
        assert_memory_equal(reply.body, memory(h), REGION_SIZE);
        assert_string_equal(raw_header(&reply, "Accept-Ranges"), "bytes");
        assert_string_equal(raw_header(&reply, "Content-Type"), "application/octet-stream");
        reply = expect_status(http_call(h, "HEAD", content_path(h, ""), "", NULL), 200);
        assert_string_equal(raw_header(&reply, "Content-Length"), "65536");
        assert_int_equal(reply.body_size, 0);
        await_idle(h);
        assert_int_equal(region_in_use(h->f->region), 0);
}

WITH_HTTP(content_comes_in_ranges)
{
        struct raw_answer reply;

        fill(h);
        reply = expect_status(http_call(h, "GET", content_path(h, ""), "Range: bytes=1000-1999\r\n", NULL), 206);
        assert_string_equal(raw_header(&reply, "Content-Range"), "bytes 1000-1999/65536");
        assert_int_equal(reply.body_size, 1000);
        assert_memory_equal(reply.body, memory(h) + 1000, 1000);
        reply = expect_status(http_call(h, "GET", content_path(h, ""), "Range: bytes=-1\r\n", NULL), 206);
        assert_int_equal(reply.body_size, 1);
        assert_memory_equal(reply.body, memory(h) + REGION_SIZE - 1, 1);
        expect_status(http_call(h, "GET", content_path(h, ""), "Range: bytes=0-1\r\nIf-Range: \"x\"\r\n", NULL), 200);
        expect_status(http_call(h, "GET", content_path(h, ""), "Range: bytes=0-1,3-4\r\n", NULL), 200);
        reply = http_call(h, "GET", content_path(h, ""), "Range: bytes=65536-\r\n", NULL);
        assert_string_equal(raw_header(&reply, "Content-Range"), "bytes */65536");
        expect_problem(reply, 416, "range-not-satisfiable");
}

WITH_HTTP(an_upload_lands_at_its_offset)
{
        int fd = put(h, "?offset=65533", "Content-Length: 3\r\nContent-Type: application/octet-stream\r\n");

        raw_send(fd, "abc", 3);
        expect_status(raw_receive_last(fd), 204);
        assert_memory_equal(memory(h) + 65533, "abc", 3);
        assert_int_equal(memory(h)[65532], 0);
        fd = put(h, "", "Transfer-Encoding: chunked\r\n");
        raw_send(fd, "2\r\nxy\r\n1\r\nz\r\n0\r\n\r\n", 19);
        expect_status(raw_receive_last(fd), 204);
        assert_memory_equal(memory(h), "xyz", 3);
}

WITH_HTTP(an_upload_of_curls_default_type_is_taken)
{
        int fd = put(h, "", "Content-Length: 1\r\nContent-Type: application/x-www-form-urlencoded\r\n");

        raw_send(fd, "q", 1);
        expect_status(raw_receive_last(fd), 204);
        expect_problem(http_call(h, "PUT", content_path(h, ""), "", "{}"), 415, "unsupported-media-type");
}

WITH_HTTP(an_upload_too_long_stores_nothing)
{
        int fd = put(h, "?offset=65533", "Content-Length: 4\r\n");

        raw_send(fd, "abcd", 4);
        expect_problem(raw_receive_last(fd), 413, "too-large");
        assert_int_equal(memory(h)[65533], 0);
        expect_problem(http_call(h, "PUT", content_path(h, "?offset=65537"), "Content-Length: 0\r\n", NULL), 400,
                       "out-of-bounds");
        expect_problem(http_call(h, "PUT", content_path(h, "?offset=-1"), "", NULL), 400, "invalid-parameter");
}

WITH_HTTP(a_chunked_upload_stops_at_the_end_of_the_region)
{
        int fd = put(h, "?offset=65534", "Transfer-Encoding: chunked\r\n");

        raw_send(fd, "2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", 19);
        expect_problem(raw_receive_last(fd), 413, "too-large");
        assert_memory_equal(memory(h) + 65534, "ab", 2);
        expect_status(http_call(h, "GET", "/livez", "", NULL), 200);
}

WITH_HTTP(a_broken_upload_keeps_what_came_and_lets_the_region_go)
{
        int fd = put(h, "", "Content-Length: 1000\r\n");

        raw_send(fd, "part", 4);
        shutdown(fd, SHUT_WR);
        struct raw_answer reply = raw_receive_last(fd);
        assert_int_not_equal(reply.status, 204);
        await_idle(h);
        assert_memory_equal(memory(h), "part", 4);
        assert_int_equal(region_in_use(h->f->region), 0);
        expect_status(http_call(h, "DELETE", text_format("/v1/regions/%s", h->region), "", NULL), 204);
}

WITH_HTTP(a_delete_looks_again_when_the_transfer_has_ended)
{
        FOR_EACH (int, error, 0, FERRY_E_PEER_LOST) {
                struct operation *operation = make(h->f, FERRY_READABLE), *other;
                struct engine_claim granted;
                int fd;

                assert_int_equal(claim(h->f, operation, &granted), 0);
                if (error)
                        operation_delete(h->f->store, operation); /* the transfer still uses the memory */
                fd = http_begin(h, "DELETE", text_format("/v1/regions/%s", h->region), "", NULL);
                await_parked(h, 1);
                other = make(h->f, FERRY_READABLE);
                end_claim(h->f, &granted, error);
                expect_problem(raw_receive_last(fd), 409, "region-in-use");
                operation_cancel(h->f->store, other);
        }
}

/* The peer's client may have the end of a transfer sooner than this worker. */
WITH_HTTP(a_delete_waits_for_the_last_use)
{
        struct operation *operation = make(h->f, FERRY_READABLE);
        struct engine_claim granted;
        int fd;

        assert_int_equal(claim(h->f, operation, &granted), 0);
        fd = http_begin(h, "DELETE", text_format("/v1/regions/%s", h->region), "", NULL);
        await_parked(h, 1);
        end_claim(h->f, &granted, 0);
        expect_status(raw_receive_last(fd), 204);
        assert_true(region_deleted(h->f->region));
}

/* One that no peer has claimed, or that further ones may. */
WITH_HTTP(a_delete_does_not_wait_for_an_operation_that_goes_on)
{
        struct operation *offer = make(h->f, FERRY_WRITABLE), *shared;
        const char *path = text_format("/v1/regions/%s", h->region);
        struct engine_claim granted;

        expect_problem(http_call(h, "DELETE", path, "", NULL), 409, "region-in-use");
        operation_cancel(h->f->store, offer);
        shared = make_readers(h->f, 2, 0);
        assert_int_equal(claim(h->f, shared, &granted), 0);
        expect_problem(http_call(h, "DELETE", path, "", NULL), 409, "region-in-use");
        end_claim(h->f, &granted, 0);
        operation_cancel(h->f->store, shared);
        expect_status(http_call(h, "DELETE", path, "", NULL), 204);
}

WITH_HTTP(a_region_deleted_during_an_upload_ends_it_as_gone)
{
        int fd = put(h, "", "Content-Length: 2\r\nExpect: 100-continue\r\n");
        char answer[64] = "";
        struct raw_answer reply;

        /* 100 Continue says that the upload is on. */
        assert_true(recv(fd, answer, sizeof(answer) - 1, 0) > 0);
        assert_memory_equal(answer, "HTTP/1.1 100", 12);
        expect_status(http_call(h, "DELETE", text_format("/v1/regions/%s", h->region), "", NULL), 204);
        raw_send(fd, "ok", 2);
        reply = expect_status(raw_receive_last(fd), 410);
        assert_string_equal(reply_field(&reply, "code"), "gone");
}

WITH_HTTP(memory_of_the_program_is_read_but_neither_removed_nor_stored_into)
{
        static char owned[] = "of the program";
        const struct region_spec spec = { .size = sizeof(owned) - 1, .device = "cpu", .held = true };
        struct region *region = NULL;
        char detail[REGION_DETAIL_SIZE];

        assert_int_equal(region_adopt(h->f->regions, owned, &spec, &region, detail), 0);
        const char *path = text_format("/v1/regions/rgn_%016llx", (unsigned long long)region->id);
        const char *content = text_format("%s/content", path);
        const char *upload = text_format(
                "PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\nConnection: close\r\n\r\nby others",
                content);
        expect_problem(http_call(h, "DELETE", path, "", NULL), 409, "region-held");
        expect_problem(http_raw(h, upload), 403, "forbidden");
        assert_string_equal(owned, "of the program");
        struct raw_answer reply = expect_status(http_call(h, "GET", content, "", NULL), 200);
        assert_string_equal(reply.body, "of the program");
        region_allow_content(region, true);
        expect_status(http_raw(h, upload), 204);
        assert_string_equal(owned, "by othersogram");
        /* The download may end, for the worker, after the client has all of its bytes. */
        WAIT_UNTIL(region_delete_held(h->f->regions, region->id) == 0);
        region_unref(region);
}
