/* SPDX-License-Identifier: Apache-2.0 */
#include "operation_fixture.h"

#include "content_fixture.h"
#include "mover_internal.h"

/* When a client of an operation's content counts as away. */

static struct http_responder *responder_of(struct operation *operation)
{
        return FERRY_CONTAINER_OF(operation_attached(operation), struct http_offer, attachment)->responders;
}

/* As when the loop has taken the timer, and has not got the lock yet. */
WITH_STORE(a_client_that_comes_while_its_absence_is_noticed_is_not_lost)
{
        struct operation *operation = make(f, FERRY_READABLE);
        struct http_responder *transfer;

        http_content_close(must_open(f, operation, 0, 0, TOTAL), false);
        transfer = responder_of(operation);
        assert_true(loop_timer_stop(f->loop, &transfer->timer));
        http_content_close(must_open(f, operation, 0, 0, TOTAL), false);
        transfer->timer.fired(&transfer->timer);
        assert_ended(f, operation, FERRY_IN_PROGRESS, 0);
        assert_true(loop_timer_stop(f->loop, &transfer->timer)); /* its absence counts anew */
        transfer->absent_us = 0;
        transfer->timer.fired(&transfer->timer);
        assert_ended(f, operation, FERRY_ERRORED, FERRY_E_PEER_LOST);
}

/* As long as one of its connections is open; a client without a name may have left it to a proxy. */
WITH_STORE(a_worker_that_is_connected_is_not_away)
{
        struct operation_limits limits = default_limits;
        struct http_content *content[2];
        struct http_responder *transfer[2];
        struct operation *operation;

        limits.absence_ms = 30;
        fixture_limits(f, &limits);
        operation = make(f, FERRY_READABLE);
        for (int i = 0; i < 2; i++) {
                content[i] = must_open(f, operation, 7, (uint64_t)i, 1);
                transfer[i] = http_content_connected(content[i]);
                assert_non_null(transfer[i]);
        }
        for (int i = 0; i < 2; i++) {
                http_content_close(content[i], true);
                await_loop(f, clock_now_us() + 100000);
                assert_ended(f, operation, FERRY_IN_PROGRESS, 0);
        }
        http_content_disconnected(transfer[0]);
        await_loop(f, clock_now_us() + 100000);
        assert_ended(f, operation, FERRY_IN_PROGRESS, 0);
        assert_false(http_content_is_over(transfer[1]));
        http_content_disconnected(transfer[1]);
        await(f, operation, 0);
        assert_ended(f, operation, FERRY_ERRORED, FERRY_E_PEER_LOST);
        http_content_disconnected(NULL);
}

/* The loop has taken the timer, and another client came, or the operation ended, before it got the lock. */
WITH_STORE(nobody_is_lost_who_is_there_again_or_has_ended)
{
        enum { A_RANGE, A_CONNECTION, THE_END, CASES };

        for (int i = 0; i < CASES; i++) {
                struct operation *operation = make(f, FERRY_READABLE);
                struct http_content *content = must_open(f, operation, 7, 0, TOTAL);
                struct http_responder *transfer = responder_of(operation), *connection = NULL;

                test_row(text_format("%d", i));
                http_content_close(content, false);
                assert_true(loop_timer_stop(f->loop, &transfer->timer));
                transfer->absent_us = 0;
                content = i == THE_END ? NULL : must_open(f, operation, 7, 0, TOTAL);
                if (i == A_CONNECTION) {
                        connection = http_content_connected(content);
                        http_content_close(content, false);
                        content = NULL;
                }
                if (i == THE_END)
                        operation_cancel(f->store, operation);
                transfer->timer.fired(&transfer->timer);
                assert_ended(f, operation, i == THE_END ? FERRY_CANCELLED : FERRY_IN_PROGRESS,
                             i == THE_END ? FERRY_E_CANCELLED : 0);
                http_content_close(content, false);
                http_content_disconnected(connection);
                operation_cancel(f->store, operation);
        }
}

/* It connects anew at once, while a person may come back later. */
WITH_STORE(a_worker_may_be_away_for_five_seconds_only)
{
        const uint64_t five_s = 5000000;

        FOR_EACH (uint64_t, id, 0, 7) {
                struct operation *operation = make(f, FERRY_READABLE);
                uint64_t before = clock_now_us();

                http_content_close(must_open(f, operation, id, 0, TOTAL), false);
                if (id)
                        assert_true(responder_of(operation)->absent_us <= clock_now_us() + five_s);
                else
                        assert_true(responder_of(operation)->absent_us > before + five_s);
                operation_cancel(f->store, operation);
        }
}
