/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wire.h"

/* How a worker ends: SIGTERM and SIGINT let transfers finish, for a time; a second signal does not wait. */

enum { SIZE = 64 << 20 };

/* Rounds of GET /readyz until the worker says that it drains. */
static void await_draining(struct worker *w)
{
        WAIT_UNTIL(ferry_get_readyz(w->client) != 0);
        assert_int_equal(ferry_last_problem(w->client)->error, FERRY_E_DRAINING);
}

/* Reaps the worker: its exit status, 128 + a signal's number. Its socket is gone. */
static int reap(struct worker *w)
{
        int status = worker_reap(w);

        assert_int_equal(worker_files(w), 0);
        worker_clean(w);
        return status;
}

WITH_PAIR(each_signal_lets_a_transfer_finish)
{
        static const int signals[] = { SIGTERM, SIGINT };

        for (size_t i = 0; i < 2; i++) {
                struct running running;

                pair_start(p, i == 1);
                running_start(p, i == 1 ? FERRY_WRITABLE : FERRY_READABLE, SIZE, 5, &p->b, &running);
                assert_int_equal(kill(p->a.pid, signals[i]), 0);
                await_draining(&p->a);
                worker_resume(&p->b);
                operation_assert_end(&p->b, running.active, FERRY_COMPLETE, NULL);
                if (i < 1)
                        region_assert_pattern(&p->b, running.local, 5, 0, SIZE);
                assert_int_equal(reap(&p->a), 0);
                worker_stop(&p->b);
        }
}

/* SIGTERM while a transfer stands in its middle: not ready, alive, no new work; the transfer ends well, then the
 * worker.
 */
ON_PAIR(a_draining_worker_is_alive_but_not_ready)
{
        struct worker *a = &p->a;
        struct running running;

        running_start(p, FERRY_READABLE, SIZE, 5, &p->b, &running);
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
        region_assert_pattern(&p->b, running.local, 5, 0, SIZE);
        assert_int_equal(reap(a), 0);
}

ON_PAIR(the_active_side_of_a_transfer_finishes_it_too)
{
        struct running running;

        running_start(p, FERRY_READABLE, SIZE, 5, &p->a, &running);
        assert_int_equal(kill(p->b.pid, SIGTERM), 0);
        await_draining(&p->b);
        worker_resume(&p->a);
        operation_assert_end(&p->a, running.passive, FERRY_COMPLETE, NULL);
        assert_int_equal(reap(&p->b), 0);
}

WITH_PAIR(a_second_signal_ends_the_worker_at_once)
{
        char directory[] = "/tmp/ferry-test-XXXXXX";
        const char *path;
        struct running running;

        assert_non_null(mkdtemp(directory));
        path = text_format("%s/worker.sock", directory);
        worker_start(&p->a, "a", STRINGS("--listen", text_format("unix:%s", path)));
        worker_start(&p->b, "b", NULL);
        running_start(p, FERRY_READABLE, SIZE, 5, &p->b, &running);
        assert_int_equal(kill(p->a.pid, SIGTERM), 0);
        await_draining(&p->a);
        assert_int_equal(kill(p->a.pid, SIGTERM), 0);
        assert_int_equal(reap(&p->a), 128 + SIGTERM);
        assert_int_equal(access(path, F_OK), -1);
        /* For the peer that is a death like any other. */
        worker_expect(&p->b, "error=peer-lost");
        worker_resume(&p->b);
        operation_assert_error(&p->b, running.active, FERRY_ERRORED, FERRY_E_PEER_LOST);
        worker_stop(&p->b);
        assert_int_equal(rmdir(directory), 0);
}

ON_PAIR(what_does_not_finish_in_the_drain_time_is_cancelled, "--drain-timeout", "300ms", "--grace", "300ms")
{
        struct running running;
        uint64_t started_ms;

        running_start(p, FERRY_READABLE, SIZE, 5, &p->b, &running);
        started_ms = now_ms();
        assert_int_equal(kill(p->a.pid, SIGTERM), 0);
        assert_int_equal(reap(&p->a), 0);
        assert_true(now_ms() - started_ms >= 300);
        assert_true(now_ms() - started_ms < 5000);
        pair_expect_failures(p);
        worker_resume(&p->b);
        operation_assert_left(&p->b, running.active);
}

/* Nobody would come for it any more, and whoever waits for it gets an answer. */
ON_WORKER(an_offer_that_nobody_has_taken_is_cancelled_at_once)
{
        OPERATION offer;
        int fd;
        const char *region = region_make(w, 4096, 0);

        offer_make(w, FERRY_READABLE, region, &offer);
        fd = raw_ask(w, "GET", text_format("/v1/operations/%s?wait_ms=30000", offer.id));
        worker_await_metric(w, "ferry_http_waiters", 1);
        assert_int_equal(kill(w->pid, SIGTERM), 0);
        struct raw_answer answer = raw_end(fd);
        assert_int_equal(answer.status, 200);
        assert_non_null(strstr(answer.body, "\"status\":\"CANCELLED\""));
        assert_int_equal(reap(w), 0);
}

/* Nor does an offer of several uses hold up the end while no peer uses it. */
ON_PAIR(an_offer_with_uses_left_is_cancelled_at_once)
{
        OPERATION offer, read;
        const char *source = region_make(&p->a, 4096, 5), *target = region_make(&p->b, 4096, 0);

        OFFER(&p->a, source, &offer, .kind = FERRY_READABLE, .uses = 2);
        begin_make(&p->b, FERRY_READ, target, offer.metadata, &read);
        operation_assert_end(&p->b, read.id, FERRY_COMPLETE, NULL);
        assert_int_equal(kill(p->a.pid, SIGTERM), 0);
        assert_int_equal(reap(&p->a), 0);
}

/* While a peer uses it, others come too late. */
ON_PAIR(an_offer_in_use_takes_no_further_peer_while_draining)
{
        enum { ALL = 4096, FIRST = 1000 };
        static char bytes[FIRST];
        OPERATION offer, read;
        const char *source = region_make(&p->a, ALL, 5), *target = region_make(&p->b, ALL, 0);

        OFFER(&p->a, source, &offer, .kind = FERRY_READABLE, .uses = 2);
        assert_int_equal(
                ferry_get_operation_content(p->a.client, offer.id, metadata_key(offer.metadata), 0, bytes, FIRST, NULL),
                0);
        assert_int_equal(kill(p->a.pid, SIGTERM), 0);
        await_draining(&p->a);
        begin_make(&p->b, FERRY_READ, target, offer.metadata, &read);
        operation_assert_error(&p->b, read.id, FERRY_CANCELLED, FERRY_E_CANCELLED_BY_PEER);
        assert_int_equal(ferry_cancel_operation(p->a.client, offer.id, NULL), 0);
        assert_int_equal(reap(&p->a), 0);
}

/* A drain takes nothing new, but what runs can be ended, looked at and waited for. */
ON_PAIR(what_runs_can_be_cancelled_while_draining, "--grace", "300ms")
{
        OPERATION operation;
        struct running running;

        pair_expect_failures(p);
        running_start(p, FERRY_READABLE, SIZE, 5, &p->b, &running);
        assert_int_equal(kill(p->a.pid, SIGTERM), 0);
        await_draining(&p->a);
        assert_problem(&p->a, "POST", text_format("/v1/operations/%s/renew", running.passive), NULL, 503, "draining",
                       NULL);
        assert_int_equal(ferry_get_operation(p->a.client, running.passive, 0, 0, &operation), 0);
        assert_int_equal(operation.status, FERRY_IN_PROGRESS);
        assert_int_equal(ferry_cancel_operation(p->a.client, running.passive, NULL), 0);
        assert_int_equal(reap(&p->a), 0);
        worker_resume(&p->b);
        operation_assert_left(&p->b, running.active);
}
