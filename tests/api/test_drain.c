/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "steps.h"

/* How a worker ends: SIGTERM and SIGINT let transfers finish, for a time; a second signal does not wait. */

enum { SIZE = 64 << 20 };

/* Rounds of GET /readyz until the worker says that it drains. */
static void await_draining(struct worker *w)
{
        while (ferry_get_readyz(w->client) == 0)
                ;
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
        const char *path, *flag;
        struct running running;

        assert_non_null(mkdtemp(directory));
        path = text_format("%s/worker.sock", directory);
        flag = text_format("unix:%s", path);
        worker_start(&p->a, "a", STRINGS("--listen", flag));
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
        struct raw_answer answer;
        const char *target;
        int fd;
        const char *region = region_make(w, 4096, 0);

        offer_make(w, FERRY_READABLE, region, &offer);
        target = text_format("/v1/operations/%s?wait_ms=30000", offer.id);
        fd = raw_ask(w, "GET", target);
        worker_await_metric(w, "ferry_http_waiters", 1);
        assert_int_equal(kill(w->pid, SIGTERM), 0);
        raw_receive(fd, false, &answer);
        assert_int_equal(answer.status, 200);
        assert_non_null(strstr(answer.body, "\"status\":\"CANCELLED\""));
        (void)close(fd);
        assert_int_equal(reap(w), 0);
}

/* Nor does an offer of several uses hold up the end while no peer uses it. */
ON_PAIR(an_offer_with_uses_left_is_cancelled_at_once)
{
        OPERATION offer, read;
        const char *source = region_make(&p->a, 4096, 5), *target = region_make(&p->b, 4096, 0);
        const struct ferry_descriptor all = { .region = source };
        const struct ferry_operation_spec spec = {
                .kind = FERRY_READABLE, .descriptors = &all, .n_descriptors = 1, .uses = 2, .include_metadata = true
        };

        assert_int_equal(ferry_create_operation(p->a.client, &spec, &offer), 0);
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
        const char *key, *path;
        const char *source = region_make(&p->a, ALL, 5), *target = region_make(&p->b, ALL, 0);
        const struct ferry_descriptor all = { .region = source };
        const struct ferry_operation_spec spec = {
                .kind = FERRY_READABLE, .descriptors = &all, .n_descriptors = 1, .uses = 2, .include_metadata = true
        };

        assert_int_equal(ferry_create_operation(p->a.client, &spec, &offer), 0);
        path = text_format("/v1/operations/%s/metadata", offer.id);
        key = json_text(call_json(&p->a, 200, "GET", path, NULL), "notification_key");
        assert_int_equal(ferry_get_operation_content(p->a.client, offer.id, key, 0, bytes, FIRST, NULL), 0);
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
        const char *path;

        pair_expect_failures(p);
        running_start(p, FERRY_READABLE, SIZE, 5, &p->b, &running);
        assert_int_equal(kill(p->a.pid, SIGTERM), 0);
        await_draining(&p->a);
        path = text_format("/v1/operations/%s/renew", running.passive);
        assert_problem(&p->a, "POST", path, NULL, 503, "draining", NULL);
        assert_int_equal(ferry_get_operation(p->a.client, running.passive, 0, 0, &operation), 0);
        assert_int_equal(operation.status, FERRY_IN_PROGRESS);
        assert_int_equal(ferry_cancel_operation(p->a.client, running.passive, NULL), 0);
        assert_int_equal(reap(&p->a), 0);
        worker_resume(&p->b);
        operation_assert_left(&p->b, running.active);
}
