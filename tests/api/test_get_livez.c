/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

ON_WORKER(a_worker_that_answers_lives)
{
        struct raw_answer answer = raw_exchange(w, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");

        assert_int_equal(answer.status, 200);
        answer_assert_header(&answer, "Content-Type", "application/json");
        answer_assert_header(&answer, "Cache-Control", "no-store");
        assert_string_equal(answer.body, "{\"status\":\"live\"}\n");
        assert_int_equal(ferry_get_livez(w->client), 0);
}

/* A load balancer's probe: HTTP/1.0, no Host. */
ON_WORKER(an_old_probe_is_answered)
{
        wire_expect(w, 200, "GET /livez HTTP/1.0\r\n\r\n");
        wire_expect(w, 200, "HEAD /livez HTTP/1.0\r\n\r\n");
}

/* Parked requests hold no thread: more of them than there are threads, and the probe is answered at once. */
ON_WORKER(it_answers_beside_parked_requests, "--http-threads", "2")
{
        enum { PARKED = 64 };
        OPERATION operation;
        const char *target;
        int fds[PARKED];
        const char *region = region_make(w, 1, 0);

        offer_make(w, FERRY_READABLE, region, &operation);
        target = text_format("/v1/operations/%s?wait_ms=60000", operation.id);
        for (int i = 0; i < PARKED; i++)
                fds[i] = raw_ask(w, "GET", target);
        worker_await_metric(w, "ferry_http_waiters", PARKED);
        assert_int_equal(ferry_get_livez(w->client), 0);
        assert_int_equal(ferry_delete_operation(w->client, operation.id), 0);
        for (int i = 0; i < PARKED; i++) {
                struct raw_answer answer;

                raw_receive(fds[i], false, &answer);
                wire_abort(fds[i]);
                answer_assert_problem(&answer, 410, "gone");
        }
}
