/* SPDX-License-Identifier: Apache-2.0 */
#include "operation_fixture.h"

struct counter {
        struct operation_waiter waiter;
        struct fixture *f;
        struct operation *again; /* waits for this from inside wake */
        _Atomic unsigned woken;
};

static void count(struct operation_waiter *waiter)
{
        struct counter *counter = FERRY_CONTAINER_OF(waiter, struct counter, waiter);

        counter->woken++;
        if (counter->again)
                assert_false(operation_wait(counter->f->store, counter->again, 0, waiter));
}

WITH_STORE(a_waiter_is_woken_once_at_the_end)
{
        struct operation *operation = make(f, FERRY_READ);
        struct counter counters[3] = { { .waiter.wake = count, .f = f },
                                       { .waiter.wake = count, .f = f },
                                       { .waiter.wake = count, .f = f } };

        for (size_t i = 0; i < 3; i++)
                assert_true(operation_wait(f->store, operation, 0, &counters[i].waiter));
        begin(f, operation);
        f->data_plane.transfer.started(f->data_plane.transfer.context);
        operation_cancel(f->store, operation);
        assert_int_equal(counters[0].woken, 0);
        end_transfer(f, 0);
        for (size_t i = 0; i < 3; i++) {
                assert_int_equal(counters[i].woken, 1);
                assert_false(operation_unwait(f->store, &counters[i].waiter));
        }
}

WITH_STORE(who_waits_is_woken_after_the_round_of_the_data_plane)
{
        struct operation *operation = make(f, FERRY_READ);
        struct counter counter = { .waiter.wake = count };
        struct engine_outcome outcome = { .error = 0 };

        assert_true(operation_wait(f->store, operation, 0, &counter.waiter));
        begin(f, operation);
        f->data_plane.transfer.started(f->data_plane.transfer.context);
        f->data_plane.transfer.ended(f->data_plane.transfer.context, &outcome);
        assert_int_equal(look(f, operation).status, FERRY_COMPLETE);
        assert_int_equal(counter.woken, 0);
        assert_false(operation_unwait(f->store, &counter.waiter));
        operation_store_wake_waiters(f->store);
        assert_int_equal(counter.woken, 1);
}

struct in_turn {
        struct operation_waiter waiter;
        unsigned *n, turn;
};

static void take_turn(struct operation_waiter *waiter)
{
        struct in_turn *in_turn = FERRY_CONTAINER_OF(waiter, struct in_turn, waiter);

        in_turn->turn = (*in_turn->n)++;
}

WITH_STORE(the_ends_of_a_round_are_told_in_their_order)
{
        struct engine_transfer transfers[3];
        struct in_turn waiters[3];
        struct engine_outcome outcome = { .error = 0 };
        unsigned n = 0;

        for (size_t i = 0; i < 3; i++) {
                struct operation *operation = make(f, FERRY_READ);

                waiters[i] = (struct in_turn){ .waiter.wake = take_turn, .n = &n };
                assert_true(operation_wait(f->store, operation, 0, &waiters[i].waiter));
                begin(f, operation);
                transfers[i] = f->data_plane.transfer;
        }
        for (size_t i = 0; i < 3; i++)
                transfers[i].ended(transfers[i].context, &outcome);
        operation_store_wake_waiters(f->store);
        assert_int_equal(n, 3);
        for (unsigned i = 0; i < 3; i++)
                assert_int_equal(waiters[i].turn, i);
}

WITH_STORE(the_waiters_of_an_operation_are_woken_in_their_order)
{
        struct operation *operation = make(f, FERRY_READABLE);
        struct in_turn waiters[3];
        unsigned n = 0;

        for (size_t i = 0; i < 3; i++) {
                waiters[i] = (struct in_turn){ .waiter.wake = take_turn, .n = &n };
                assert_true(operation_wait(f->store, operation, 0, &waiters[i].waiter));
        }
        operation_cancel(f->store, operation);
        assert_int_equal(n, 3);
        for (unsigned i = 0; i < 3; i++)
                assert_int_equal(waiters[i].turn, i);
}

WITH_STORE(nobody_waits_for_what_holds_already)
{
        struct operation *operation = make(f, FERRY_READ), *deleted = make(f, FERRY_READ);
        struct counter counter = { .waiter.wake = count };

        begin(f, operation);
        f->data_plane.transfer.started(f->data_plane.transfer.context);
        assert_int_equal(look(f, operation).revision, 2);
        assert_false(operation_wait(f->store, operation, 1, &counter.waiter));
        assert_true(operation_is_past(f->store, operation, 1));
        assert_false(operation_is_past(f->store, operation, 2));
        assert_false(operation_is_past(f->store, operation, 0));
        end_transfer(f, 0);
        assert_true(operation_is_past(f->store, operation, 0));
        assert_true(operation_is_past(f->store, operation, 99));
        assert_false(operation_wait(f->store, operation, 0, &counter.waiter));
        assert_false(operation_wait(f->store, operation, 99, &counter.waiter));
        operation_delete(f->store, deleted);
        assert_false(operation_wait(f->store, deleted, 0, &counter.waiter));
        assert_true(operation_is_past(f->store, deleted, 0));
        assert_int_equal(counter.woken, 0);
}

WITH_STORE(who_no_longer_waits_is_not_woken)
{
        struct operation *operation = make(f, FERRY_READ);
        struct counter a = { .waiter.wake = count }, b = { .waiter.wake = count };

        assert_true(operation_wait(f->store, operation, 0, &a.waiter));
        assert_true(operation_wait(f->store, operation, 0, &b.waiter));
        assert_true(operation_unwait(f->store, &a.waiter));
        assert_false(operation_unwait(f->store, &a.waiter));
        operation_cancel(f->store, operation);
        assert_int_equal(a.woken, 0);
        assert_int_equal(b.woken, 1);
}

WITH_STORE(a_deletion_wakes_even_while_bytes_are_in_flight)
{
        struct operation *operation = make(f, FERRY_READ);
        struct counter counter = { .waiter.wake = count };

        begin(f, operation);
        assert_true(operation_wait(f->store, operation, 0, &counter.waiter));
        operation_delete(f->store, operation);
        assert_int_equal(counter.woken, 1);
        end_transfer(f, FERRY_E_CANCELLED);
        assert_int_equal(counter.woken, 1);
}

WITH_STORE(a_deletion_wakes_although_it_was_cancelled_before)
{
        struct operation *operation = make(f, FERRY_READ);
        struct counter counter = { .waiter.wake = count };

        begin(f, operation);
        operation_cancel(f->store, operation);
        assert_true(operation_wait(f->store, operation, 0, &counter.waiter));
        operation_delete(f->store, operation);
        assert_int_equal(counter.woken, 1);
        end_transfer(f, FERRY_E_CANCELLED);
}

/* Would deadlock if the lock were held. */
WITH_STORE(wake_may_call_the_store)
{
        struct operation *operation = make(f, FERRY_READ);
        struct counter counter = { .waiter.wake = count, .f = f, .again = operation };

        assert_true(operation_wait(f->store, operation, 0, &counter.waiter));
        operation_cancel(f->store, operation);
        assert_int_equal(counter.woken, 1);
}

WITH_STORE(freeing_the_store_wakes_who_waits)
{
        struct operation *operation = make(f, FERRY_READABLE);
        struct counter counter = { .waiter.wake = count };

        assert_true(operation_wait(f->store, operation, 0, &counter.waiter));
        f->store = operation_store_free(f->store);
        assert_int_equal(counter.woken, 1);
}

WITH_STORE(waits_are_counted)
{
        struct operation *operation = make(f, FERRY_READ);
        struct metric *waits = metric_single(f->metrics, METRIC_GAUGE, "ferry_operation_waits", "");
        struct counter a = { .waiter.wake = count }, b = { .waiter.wake = count };

        assert_true(operation_wait(f->store, operation, 0, &a.waiter));
        assert_true(operation_wait(f->store, operation, 0, &b.waiter));
        assert_int_equal(metric_value(waits), 2);
        assert_true(operation_unwait(f->store, &a.waiter));
        assert_int_equal(metric_value(waits), 1);
        operation_cancel(f->store, operation);
        assert_int_equal(metric_value(waits), 0);
}

/* Sees two starts be told; while the first of them is, the other operation ends. */
struct watcher {
        struct fixture *f;
        struct operation *pair[2];
        struct engine_claim granted[2];
        bool ending;
        unsigned n_started[2], n_ended[2], n_late;
};

static void watch(void *context, struct operation_store *store, struct operation *operation,
                  enum operation_change change)
{
        struct watcher *w = context;
        const int i = operation == w->pair[1];

        if (change == OPERATION_CHANGED && !w->ending) {
                w->ending = true;
                end_claim(w->f, &w->granted[!i], 0);
        }
        w->n_started[i] += change == OPERATION_CHANGED && look(w->f, operation).status == FERRY_IN_PROGRESS;
        w->n_ended[i] += change == OPERATION_ENDED;
        w->n_late += w->n_started[i] < w->n_ended[i];
}

WITH_STORE(a_start_that_another_thread_is_telling_is_told_before_the_end)
{
        struct watcher w = { f };

        f->observer = (struct operation_observer){ watch, &w };
        fixture_limits(f, &default_limits);
        for (int i = 0; i < 2; i++) {
                struct engine_claim_request request;

                w.pair[i] = make(f, FERRY_READABLE);
                request = request_for(f, w.pair[i]);
                assert_int_equal(operation_store_claim(f->store, &request, &w.granted[i]), 0);
        }
        operation_store_wake_waiters(f->store);
        for (int i = 0; i < 2; i++)
                if (!w.n_ended[i])
                        end_claim(f, &w.granted[i], 0);
        for (int i = 0; i < 2; i++) {
                assert_int_equal(w.n_started[i], 1);
                assert_int_equal(w.n_ended[i], 1);
        }
        assert_int_equal(w.n_late, 0);
}
