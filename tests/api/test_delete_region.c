/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "steps.h"
#include "wire.h"

enum { MIB = 1 << 20 };

static void assert_in_use(struct worker *w, const char *id)
{
        struct raw_answer answer = wire_ask(w, "DELETE %s HTTP/1.1\r\nHost: localhost\r\n\r\n", region_path(id, ""));

        answer_assert_problem(&answer, 409, "region-in-use");
}

ON_WORKER(nothing_of_it_is_left)
{
        struct ferry_region region;
        struct ferry_region_spec spec = { .size = 100 };
        size_t descriptors;

        descriptors = worker_descriptors(w) + 1; /* the client's connection */
        assert_int_equal(ferry_create_region(w->client, &spec, &region), 0);
        assert_int_equal(access(region.path, F_OK), 0);
        struct raw_answer answer =
                wire_ask(w, "DELETE %s HTTP/1.1\r\nHost: localhost\r\n\r\n", region_path(region.id, ""));
        assert_int_equal(answer.status, 204);
        assert_int_equal(answer.body_size, 0);
        assert_int_equal(access(region.path, F_OK), -1);
        WAIT_UNTIL(worker_descriptors(w) <= descriptors); /* our other connection ends */
        assert_problem(w, "GET", region_path(region.id, ""), NULL, 404, "not-found", NULL);
        assert_problem(w, "GET", region_path(region.id, "/content"), NULL, 404, "not-found", NULL);
        assert_problem(w, "DELETE", region_path(region.id, ""), NULL, 404, "not-found", NULL);
        assert_int_equal(ferry_delete_region(w->client, region.id), FERRY_E_NOT_FOUND);
        assert_non_null(strstr(ferry_last_problem(w->client)->detail, region.id));
        wire_refused(w, 404, "not-found", "PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx",
                     region_path(region.id, "/content"));
        worker_await_metric(w, "ferry_regions", 0);
        worker_await_metric(w, "ferry_region_bytes", 0);
}

ON_WORKER(it_waits_for_every_operation_to_end)
{
        OPERATION first, second;
        const char *id = region_make(w, 100, 3);

        offer_make(w, FERRY_READABLE, id, &first);
        offer_make(w, FERRY_WRITABLE, id, &second);
        assert_in_use(w, id);
        assert_int_equal(ferry_cancel_operation(w->client, first.id, NULL), 0);
        operation_assert_end(w, first.id, FERRY_CANCELLED, NULL);
        assert_in_use(w, id);
        region_assert_pattern(w, id, 3, 0, 100);
        assert_int_equal(ferry_cancel_operation(w->client, second.id, NULL), 0);
        operation_assert_end(w, second.id, FERRY_CANCELLED, NULL);
        region_drop(w, id);

        /* The operations outlive their region, and still say what they were about. */
        operation_assert_end(w, first.id, FERRY_CANCELLED, NULL);
}

/* Two descriptors of one operation on one region, and a region that only one of two descriptors uses. */
ON_WORKER(each_region_of_an_operation_is_held)
{
        struct json_object *operation;
        const char *a = region_make(w, 100, 0);
        const char *b = region_make(w, 100, 0);

        operation = call_json(w, 201, "POST", "/v1/operations",
                              text_format("{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"%s\",\"size\":10},"
                                          "{\"region\":\"%s\",\"offset\":50},{\"region\":\"%s\",\"offset\":10}]}",
                                          a, a, b));
        assert_in_use(w, a);
        assert_in_use(w, b);
        assert_int_equal(ferry_delete_operation(w->client, json_text(operation, "id")), 0);
        region_drop(w, a);
        region_drop(w, b);
}

/* Either side of a transfer that stands in its middle refuses, and agrees once it has ended. */
ON_EACH_PAIR(a_running_transfer_holds_its_regions)
{
        enum { SIZE = 64 * MIB };

        struct worker *paused = p->network ? &p->a : &p->b, *other = p->network ? &p->b : &p->a;
        struct running running;

        running_start(p, FERRY_READABLE, SIZE, 8, paused, &running);
        assert_in_use(other, p->network ? running.local : running.offered);
        worker_resume(paused);
        operation_assert_end(&p->b, running.active, FERRY_COMPLETE, NULL);
        operation_assert_end(&p->a, running.passive, FERRY_COMPLETE, NULL);
        region_assert_pattern(&p->b, running.local, 8, 0, SIZE);
        running_drop(p, &running);
}

/* The bytes still come, although the region is gone; its memory counts until they have. */
ON_WORKER(a_download_goes_on_to_its_end, "--memory-limit", "32M")
{
        enum { SIZE = 32 * MIB };
        const char *bytes;
        uint8_t *wanted = malloc(SIZE);
        size_t n;
        int reader;
        const char *id = region_make(w, SIZE, 17);

        reader = wire_stalled_reader(w, region_path(id, "/content"));
        region_drop(w, id);
        assert_problem(w, "GET", region_path(id, ""), NULL, 404, "not-found", NULL);
        worker_await_metric(w, "ferry_regions", 0);
        assert_problem(w, "POST", "/v1/regions", "{\"size\":1}", 507, "limit-reached", NULL);
        bytes = wire_read_rest(reader, &n);
        (void)close(reader);
        pattern_fill(17, 0, wanted, SIZE);
        assert_int_equal(n, SIZE);
        assert_memory_equal(bytes, wanted, SIZE);
        id = region_await_room(w, SIZE);
        free(wanted);
}

/* A reader that leaves gives the memory back as well. */
ON_WORKER(a_download_that_breaks_off_gives_the_memory_back, "--memory-limit", "32M")
{
        enum { SIZE = 32 * MIB };
        int reader;
        const char *id = region_make(w, SIZE, 0);

        reader = wire_stalled_reader(w, region_path(id, "/content"));
        region_drop(w, id);
        wire_abort(reader);
        id = region_await_room(w, SIZE);
}

/* The writer learns that its bytes went nowhere; whoever has it mapped is not disturbed. */
ON_WORKER(an_upload_ends_as_gone, "--memory-limit", "8192")
{
        static const char half[50] = "half";
        const char *head;
        int writer;
        const char *id = region_make(w, 8192, 0);

        writer = raw_connect(w);
        head = text_format("PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n",
                           region_path(id, "/content"));
        raw_send(writer, head, strlen(head));
        assert_memory_equal(raw_read_head(writer), "HTTP/1.1 100 ", 13); /* from here on, the upload has begun */
        raw_send(writer, half, sizeof(half));
        region_drop(w, id);
        raw_send(writer, half, sizeof(half));
        struct raw_answer answer = raw_end(writer);
        answer_assert_problem(&answer, 410, "gone");
        id = region_await_room(w, 8192);
}

/* Although the client still owes the body, which is read so that it gets the answer. */
ON_WORKER(a_refused_upload_holds_no_memory, "--memory-limit", "8192")
{
        const char *id = region_make(w, 8192, 0);
        int writer = raw_begin(w, text_format("PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n",
                                              region_path(id, "/content?offset=9000")));
        worker_await_metric(w, "ferry_http_problems_total{code=\"out-of-bounds\"}", 1);
        region_drop(w, id);
        (void)region_make(w, 8192, 0);
        (void)close(writer);
}

ON_WORKER(two_at_once_delete_it_once)
{
        enum { RACERS = 8 };
        struct raw_answer answer;
        int fds[RACERS], deleted = 0;
        const char *id = region_make(w, MIB, 0);

        for (int i = 0; i < RACERS; i++)
                fds[i] = raw_ask(w, "DELETE", region_path(id, ""));
        for (int i = 0; i < RACERS; i++) {
                answer = raw_end(fds[i]);
                deleted += answer.status == 204;
                if (answer.status != 204)
                        answer_assert_problem(&answer, 404, "not-found");
        }
        assert_int_equal(deleted, 1);
        worker_await_metric(w, "ferry_regions", 0);
}

/* ---- by the worker: idle_ms ---- */

ON_WORKER(an_idle_region_is_deleted_with_an_event)
{
        struct json_object *made = call_json(w, 201, "POST", "/v1/regions", "{\"size\":100,\"idle_ms\":1}");
        struct json_object *page = call_json(w, 200, "GET", "/v1/events?type=region.deleted&wait_ms=30000", NULL);
        struct json_object *events = json_member(page, "events");

        assert_int_equal(json_object_array_length(events), 1);
        struct json_object *region = json_member(json_object_array_get_idx(events, 0), "region");
        assert_string_equal(json_text(region, "id"), json_text(made, "id"));
        assert_int_equal(json_number(region, "idle_ms"), 1);
        assert_true(json_truth(region, "expired"));
        assert_false(json_object_object_get_ex(region, "expires_at", NULL));
        assert_problem(w, "GET", region_path(json_text(made, "id"), ""), NULL, 404, "not-found", NULL);
        worker_await_metric(w, "ferry_regions", 0);
        worker_await_metric(w, "ferry_region_bytes", 0);
}

ON_WORKER(an_idle_region_says_when_it_goes)
{
        struct json_object *made = call_json(w, 201, "POST", "/v1/regions", "{\"size\":100,\"idle_ms\":600000}");
        const char *id = json_text(made, "id");
        OPERATION offer;

        assert_string_equal(json_names(made), "id size device state path in_use created_at idle_ms expires_at");
        assert_true(strcmp(json_text(made, "created_at"), json_text(made, "expires_at")) < 0);
        offer_make(w, FERRY_READABLE, id, &offer);
        struct json_object *used = call_json(w, 200, "GET", region_path(id, ""), NULL);
        assert_int_equal(json_number(used, "idle_ms"), 600000);
        assert_false(json_object_object_get_ex(used, "expires_at", NULL));
        assert_int_equal(ferry_cancel_operation(w->client, offer.id, NULL), 0);
        operation_assert_end(w, offer.id, FERRY_CANCELLED, NULL);
        (void)json_text(call_json(w, 200, "GET", region_path(id, ""), NULL), "expires_at");

        /* By a client, it has not expired. */
        region_drop(w, id);
        struct json_object *page = call_json(w, 200, "GET", "/v1/events?type=region.deleted", NULL);
        struct json_object *region = json_member(json_object_array_get_idx(json_member(page, "events"), 0), "region");
        assert_string_equal(json_names(region), "id size device state path in_use created_at idle_ms");
}
