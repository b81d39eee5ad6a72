/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gpu.h"

/* GPU memory over HTTP. */

WITH_GPUS(the_digest_of_the_whole_comes_from_a_gpu)
{
        struct worker *w = &s->pair.a;
        struct raw_answer answer;
        OPERATION offer, target;

        worker_start(w, "a", NULL);
        const char *id = device_region(w, "cuda:0", 3, 0);
        offer_make(w, FERRY_WRITABLE, id, &target);
        wire_expect(w, 204,
                    "PUT /v1/operations/%s/content HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n"
                    "%s\r\nRepr-Digest: " ABC_DIGEST "\r\n\r\nabc",
                    target.id, operation_bearer(w, target.id));
        operation_assert_end(w, target.id, FERRY_COMPLETE, NULL);
        offer_make(w, FERRY_READABLE, id, &offer);
        answer = wire_ask(w,
                          "GET /v1/operations/%s/content HTTP/1.1\r\nHost: localhost\r\n"
                          "%s\r\nWant-Repr-Digest: sha-256=1\r\n\r\n",
                          offer.id, operation_bearer(w, offer.id));
        assert_int_equal(answer.status, 200);
        answer_assert_header(&answer, "Repr-Digest", ABC_DIGEST);
        assert_memory_equal(answer.body, "abc", 3);
}

/* A request for bytes of a GPU that stands still. */
struct waiting {
        const char *method, *path, *headers;
        bool operation;
        enum ferry_kind kind;
        const char *region, *id;
        int fd;
};

enum { SIZE = 4 * MIB, EARLY = 2 * MIB + 64 * KIB /* of a body: more than is read ahead of the GPU */, EACH = 4 };

static bool is_upload(const struct waiting *r)
{
        return !strcmp(r->method, "PUT");
}

static void waiting_prepare(struct worker *w, struct waiting *r)
{
        r->region = r->id = device_region(w, "cuda:0", SIZE, is_upload(r) ? 0 : SEED);
        if (r->operation) {
                OPERATION offer;

                offer_make(w, r->kind, r->region, &offer);
                r->id = text_format("%s", offer.id);
                r->headers = text_format("%s%s\r\n", r->headers, operation_bearer(w, r->id));
        }
}

static void waiting_begin(struct worker *w, struct waiting *r, const uint8_t *pattern)
{
        const char *head =
                text_format("%s %s/%s/content HTTP/1.1\r\nHost: localhost\r\n%s%s\r\n", r->method, r->path, r->id,
                            is_upload(r) ? text_format("Content-Length: %d\r\n", SIZE) : "", r->headers);

        r->fd = raw_begin(w, head);
        if (is_upload(r))
                raw_send(r->fd, pattern, EARLY);
}

static void waiting_end(struct worker *w, const struct waiting *r, const uint8_t *pattern)
{
        if (is_upload(r))
                raw_send(r->fd, pattern + EARLY, SIZE - EARLY);
        struct raw_answer answer = raw_end(r->fd);
        assert_int_equal(answer.status, is_upload(r) ? 204 : 200);
        if (is_upload(r)) {
                region_assert_pattern(w, r->region, SEED, 0, SIZE);
        } else {
                assert_int_equal(answer.body_size, SIZE);
                assert_memory_equal(answer.body, pattern, SIZE);
        }
        if (r->operation)
                operation_assert_end(w, r->id, FERRY_COMPLETE, NULL);
        region_drop(w, r->region);
}

static const struct waiting requests[] = {
        { .method = "GET", .path = "/v1/regions", .headers = "" },
        { .method = "GET", .path = "/v1/regions", .headers = "Want-Content-Digest: xxh3=1\r\n" },
        { .method = "PUT", .path = "/v1/regions", .headers = "" },
        { .method = "GET", .path = "/v1/operations", .headers = "", .operation = true, .kind = FERRY_READABLE },
        { .method = "GET",
          .path = "/v1/operations",
          .headers = "Want-Content-Digest: xxh3=1\r\nWant-Repr-Digest: sha-256=1\r\n",
          .operation = true,
          .kind = FERRY_READABLE },
        { .method = "PUT", .path = "/v1/operations", .headers = "", .operation = true, .kind = FERRY_WRITABLE },
};

/* More requests than the worker has threads for HTTP. */
WITH_GPUS(content_that_waits_for_a_gpu_holds_up_no_other_request)
{
        struct worker *w = &s->pair.a;
        uint8_t *pattern = malloc(SIZE);

        assert_non_null(pattern);
        pattern_fill(SEED, 0, pattern, SIZE);
        worker_start(w, "a", STRINGS("--http-threads", "2"));
        for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
                struct waiting waiting[EACH];

                test_row(text_format("%s %s %s", requests[i].method, requests[i].path, requests[i].headers));
                for (size_t k = 0; k < EACH; k++) {
                        waiting[k] = requests[i];
                        waiting_prepare(w, &waiting[k]);
                }
                gpu_set_faults(s, "stuck0");
                for (size_t k = 0; k < EACH; k++)
                        waiting_begin(w, &waiting[k], pattern);
                /* Each of its threads serves. */
                for (size_t k = 0; k < EACH; k++)
                        wire_expect(w, 200, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
                region_drop(w, device_region(w, "cpu", SIZE, SEED));
                region_drop(w, device_region(w, "cuda:1", SIZE, SEED));
                gpu_set_faults(s, "");
                for (size_t k = 0; k < EACH; k++)
                        waiting_end(w, &waiting[k], pattern);
        }
        free(pattern);
}

/* A GET and the first bytes of a PUT; the stall limit ends the wait, not the copy. */
/* Whether its first bytes find the GPU gone, or its last ones. */
WITH_GPUS(a_gpu_that_is_gone_has_no_content)
{
        struct worker *w = &s->pair.a;
        uint8_t *pattern = malloc(SIZE);

        assert_non_null(pattern);
        pattern_fill(SEED, 0, pattern, SIZE);
        for (size_t i = 0; i < 2 * sizeof(requests) / sizeof(requests[0]); i++) {
                struct waiting waiting = requests[i / 2];

                test_row(text_format("%s %s %s", waiting.method, waiting.path, waiting.headers));
                gpu_set_faults(s, "");
                worker_start(w, "a", NULL);
                worker_expect(w, "msg=\"CUDA call failed\"");
                worker_expect(w, "operation ended");
                waiting_prepare(w, &waiting);
                const int before = s->counts->in_flight; /* of a worker before, which left them */
                gpu_set_faults(s, i % 2 ? "stuck" : "gone");
                waiting_begin(w, &waiting, pattern);
                if (i % 2) {
                        WAIT_UNTIL(s->counts->in_flight > before);
                        gpu_set_faults(s, "gone");
                }
                if (is_upload(&waiting))
                        raw_send(waiting.fd, pattern + EARLY, SIZE - EARLY);
                struct raw_answer answer = raw_end(waiting.fd);
                assert_int_equal(answer.status, waiting.operation ? 500 : 410);
                assert_non_null(
                        strstr(answer.body, waiting.operation ? "\"code\":\"transfer-failed\"" : "\"code\":\"gone\""));
                if (waiting.operation)
                        operation_assert_error(w, waiting.id, FERRY_ERRORED, FERRY_E_TRANSFER_FAILED);
                else
                        assert_non_null(strstr(answer.body, "a GPU is gone or was reset"));
                region_drop(w, waiting.region);
                worker_stop(w);
        }
        free(pattern);
}

WITH_GPUS(the_stall_limit_ends_the_wait_for_a_gpu)
{
        struct worker *w = &s->pair.a;
        uint8_t *pattern = calloc(1, SIZE);

        assert_non_null(pattern);
        worker_start(w, "a", STRINGS("--stall-limit", "2s"));
        worker_expect(w, "stalled");
        for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
                test_row(text_format("%s %s %s", requests[i].method, requests[i].path, requests[i].headers));
                struct waiting waiting = requests[i];

                waiting_prepare(w, &waiting);
                gpu_set_faults(s, "stuck0");
                waiting_begin(w, &waiting, pattern);
                if (is_upload(&waiting))
                        raw_send(waiting.fd, pattern + EARLY, SIZE - EARLY);
                struct raw_answer answer = raw_end(waiting.fd);
                answer_assert_problem(&answer, 409, "region-not-ready");
                gpu_set_faults(s, "");
                if (waiting.operation)
                        operation_assert_error(w, waiting.id, FERRY_ERRORED, FERRY_E_STALLED);
                region_drop(w, waiting.region);
        }
        free(pattern);
}

/* libmicrohttpd may find its end first; else the answer tells whose end it was. */
WITH_GPUS(a_client_that_shuts_down_its_direction_is_not_told_that_the_worker_ends)
{
        struct worker *w = &s->pair.a;
        struct waiting waiting = requests[0];

        worker_start(w, "a", NULL);
        waiting_prepare(w, &waiting);
        gpu_set_faults(s, "stuck0");
        waiting_begin(w, &waiting, NULL);
        assert_int_equal(shutdown(waiting.fd, SHUT_WR), 0);
        struct raw_answer answer = raw_end(waiting.fd);
        if (answer.status)
                answer_assert_problem(&answer, 410, "gone");
        gpu_set_faults(s, "");
        region_drop(w, waiting.region);
}

/* The GPU had copied them when their client had been told to come again: they are still to be sent. */
WITH_GPUS(bytes_that_come_after_the_stall_limit_are_not_taken_for_sent)
{
        struct worker *w = &s->pair.a;

        worker_start(w, "a", STRINGS("--stall-limit", "2s"));
        const char *slow = device_region(w, "cuda:0", KIB, SEED), *quick = device_region(w, "cpu", 2 * KIB, SEED);
        struct json_object *offer = call_json(
                w, 201, "POST", "/v1/operations",
                text_format("{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"%s\"},{\"region\":\"%s\"}]}", slow,
                            quick));
        const char *id = json_text(offer, "id");
        const char *head =
                text_format("GET /v1/operations/%s/content HTTP/1.1\r\nHost: localhost\r\n%s\r\nRange: bytes=", id,
                            operation_bearer(w, id));
        const struct waiting first = { .method = "GET",
                                       .path = "/v1/operations",
                                       .id = id,
                                       .headers = text_format("%s\r\nRange: bytes=0-%d\r\n", operation_bearer(w, id),
                                                              KIB - 1) };
        struct waiting waiting = first;
        struct pollfd answered;
        unsigned at = KIB;

        gpu_set_faults(s, "stuck0");
        waiting_begin(w, &waiting, NULL);
        worker_await_metric(w, "ferry_http_waiters", 1);
        /* Bytes of other ranges keep the transfer alive. */
        answered = (struct pollfd){ .fd = waiting.fd, .events = POLLIN };
        for (; poll(&answered, 1, 10) == 0; at++)
                wire_expect(w, 206, "%s%u-%u\r\n\r\n", head, at, at);
        struct raw_answer answer = raw_end(waiting.fd);
        answer_assert_problem(&answer, 409, "region-not-ready");
        wire_expect(w, 206, "%s%u-\r\n\r\n", head, at);
        gpu_set_faults(s, "");
        for (answer.status = 0; answer.status != 206;) { /* 409 until the GPU has let go of the first request */
                assert_false(json_truth(operation_json(w, id), "done"));
                answer = wire_ask(w, "%s0-%d\r\n\r\n", head, KIB - 1);
        }
        operation_assert_end(w, id, FERRY_COMPLETE, NULL);
}

/* Their buffers are bounded; those of requests that have ended count until the GPU lets go of them. */
WITH_GPUS(requests_that_wait_for_a_gpu_have_a_limit)
{
        enum { MOST = 256 };
        struct worker *w = &s->pair.a;
        struct waiting all[MOST];
        const struct waiting get = { .method = "GET", .path = "/v1/regions", .headers = "" };

        worker_start(w, "a", NULL);
        const char *id = device_region(w, "cuda:0", MIB, SEED);
        gpu_set_faults(s, "stuck0");
        for (size_t i = 0; i < MOST; i++) {
                all[i] = get;
                all[i].id = id;
                waiting_begin(w, &all[i], NULL);
        }
        worker_await_metric(w, "ferry_http_waiters", MOST);
        for (size_t i = 0; i < MOST / 2; i++)
                wire_abort(all[i].fd);
        worker_await_metric(w, "ferry_http_waiters", MOST / 2);
        wire_refused(w, 429, "limit-reached", "GET /v1/regions/%s/content HTTP/1.1\r\nHost: localhost\r\n\r\n", id);
        wire_refused(w, 429, "limit-reached",
                     "PUT /v1/regions/%s/content HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc", id);
        gpu_set_faults(s, "");
        for (size_t i = MOST / 2; i < MOST; i++) {
                struct raw_answer answer = raw_end(all[i].fd);
                assert_int_equal(answer.status, 200);
        }
        worker_await_metric(w, "ferry_http_waiters", 0);
        region_assert_pattern(w, id, SEED, 0, MIB);
        region_drop(w, id);
}

/* Nobody waits for what they left behind, and the GPU ends it when it moves again. */
WITH_GPUS(a_client_that_leaves_while_a_gpu_stands_still_costs_nothing)
{
        struct worker *w = &s->pair.a;
        uint8_t *pattern = calloc(1, SIZE);

        assert_non_null(pattern);
        worker_start(w, "a", NULL);
        for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
                test_row(text_format("%s %s %s", requests[i].method, requests[i].path, requests[i].headers));
                struct waiting waiting = requests[i];
                size_t sockets = worker_sockets(w);
                OPERATION end = { 0 };

                waiting_prepare(w, &waiting);
                gpu_set_faults(s, "stuck0");
                waiting_begin(w, &waiting, pattern);
                worker_await_metric(w, "ferry_http_waiters", 1);
                if (waiting.operation)
                        assert_int_equal(ferry_cancel_operation(w->client, waiting.id, &end), 0);
                else
                        region_drop(w, waiting.region);
                wire_abort(waiting.fd); /* an end that bytes which nobody reads cannot hold up */
                worker_await_metric(w, "ferry_http_waiters", 0);
                worker_await_sockets(w, sockets);
                gpu_set_faults(s, "");
                if (waiting.operation) {
                        ferry_operation_clear(&end);
                        operation_assert_end(w, waiting.id, FERRY_CANCELLED, &end);
                        region_drop(w, waiting.region);
                }
                worker_await_metric(w, "ferry_region_bytes", 0);
        }
        free(pattern);
}

/* The active side, whose thread also fetches documents and keeps the worker's name in the registry. */
WITH_GPUS(a_transfer_over_http_that_waits_for_a_gpu_holds_up_no_other)
{
        static const char warning[] = "no transport but HTTP";
        struct pair *p = &s->pair;

        worker_start(&p->a, "a", STRINGS("--local", "off"));
        worker_start(&p->b, "b", STRINGS("--local", "off"));
        worker_expect(&p->a, warning);
        worker_expect(&p->b, warning);
        for (int read = 0; read < 2; read++) {
                const enum ferry_kind kind = read ? FERRY_READABLE : FERRY_WRITABLE;
                const struct course c = { kind, "cpu", "cuda:0", SIZE, read ? ",\"verify\":true" : NULL };
                const struct course beside = { kind, "cpu", "cpu", SIZE, NULL };
                const struct course other = { kind, "cpu", "cuda:1", SIZE, NULL };
                struct course_state begun;

                course_prepare(p, &c, &begun);
                gpu_set_faults(s, "stuck0");
                course_begin(p, &c, &begun);
                course_run(p, &beside, "http", "http");
                course_run(p, &other, "http", "http");
                assert_not_done(&p->b, begun.active);
                gpu_set_faults(s, "");
                course_end(p, &c, &begun, "http", "http");
        }
}
