/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wire.h"

WITH_PAIR(a_started_worker_is_ready)
{
        worker_start(&p->a, "w", NULL);
        struct raw_answer answer = raw_exchange(&p->a, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_int_equal(answer.status, 200);
        assert_string_equal(answer.body, "{\"status\":\"ready\"}\n");
        assert_int_equal(ferry_get_readyz(p->a.client), 0);
}

/* Rounds of GET /readyz until the worker says that it is draining. */
static void await_draining(struct worker *w)
{
        WAIT_UNTIL(ferry_get_readyz(w->client) != 0);
        assert_int_equal(ferry_last_problem(w->client)->error, FERRY_E_DRAINING);
}

/* SIGTERM while a transfer stands in its middle: not ready, alive, no new work; the transfer ends well, then the
 * worker.
 */
ON_PAIR(a_draining_worker_is_alive_but_not_ready)
{
        struct worker *a = &p->a;
        struct running running;

        running_start(p, FERRY_READABLE, 64 << 20, 5, &p->b, &running);
        assert_int_equal(kill(a->pid, SIGTERM), 0);
        await_draining(a);
        struct raw_answer answer = raw_exchange(a, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n");
        answer_assert_header(&answer, "Retry-After", "5");
        answer_assert_problem(&answer, 503, "draining");
        assert_int_equal(ferry_get_livez(a->client), 0);
        assert_problem(a, "POST", "/v1/regions", "{\"size\":1}", 503, "draining", NULL);
        assert_problem(a, "POST", "/v1/operations", "{}", 503, "draining", NULL);
        wire_refused(a, 503, "draining", "PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx",
                     region_path(running.offered, "/content"));
        call_json(a, 200, "GET", "/v1/regions", NULL);

        worker_resume(&p->b);
        operation_assert_end(&p->b, running.active, FERRY_COMPLETE, NULL);
        region_assert_pattern(&p->b, running.local, 5, 0, 64 << 20);
        assert_int_equal(worker_reap(a), 0);
        assert_int_equal(worker_files(a), 0);
        worker_clean(a);
}
