/* SPDX-License-Identifier: Apache-2.0 */
#include "operation_fixture.h"

static void count(void *context)
{
        ++*(unsigned *)context;
}

WITH_STORE(an_idle_store_is_drained_at_once)
{
        unsigned n = 0;

        operation_store_on_drained(f->store, count, &n);
        assert_int_equal(n, 1);
}

WITH_STORE(a_busy_store_is_drained_once_when_the_last_is_quiet)
{
        struct operation *read = make(f, FERRY_READ), *readable = make(f, FERRY_READABLE), *none = NULL;
        struct engine_claim granted;
        unsigned n = 0;

        assert_int_equal(claim(f, readable, &granted), 0);
        operation_store_on_drained(f->store, count, &n);
        assert_int_equal(make_spec(f, &(struct operation_spec){ .kind = FERRY_READ }, &none), FERRY_E_DRAINING);
        assert_null(none);
        begin(f, read);
        end_claim(f, &granted, 0);
        operation_delete(f->store, read);
        assert_int_equal(n, 0);
        end_transfer(f, FERRY_E_CANCELLED);
        assert_int_equal(n, 1);
        assert_int_equal(operation_store_live(f->store), 0);
}

WITH_STORE(what_no_peer_uses_does_not_hold_up_the_drain)
{
        struct operation *unclaimed = make(f, FERRY_WRITABLE), *between = NULL, *used = NULL;
        const struct operation_spec twice = { .kind = FERRY_READABLE, .uses = 2 };
        struct engine_claim granted, late;
        unsigned n = 0;

        assert_int_equal(make_spec(f, &twice, &between), 0);
        assert_int_equal(claim(f, between, &granted), 0);
        end_claim(f, &granted, 0);
        assert_int_equal(make_spec(f, &twice, &used), 0);
        assert_int_equal(claim(f, used, &granted), 0);
        operation_store_on_drained(f->store, count, &n);
        assert_int_equal(look(f, unclaimed).status, FERRY_CANCELLED);
        assert_int_equal(look(f, between).status, FERRY_CANCELLED);
        assert_int_equal(look(f, used).status, FERRY_IN_PROGRESS);
        assert_int_equal(claim(f, used, &late), FERRY_E_CANCELLED_BY_PEER); /* nor do those that come now */
        assert_int_equal(n, 0);
        end_claim(f, &granted, 0);
        assert_int_equal(look(f, used).status, FERRY_CANCELLED);
        assert_int_equal(n, 1);
}

WITH_STORE(cancelling_all_ends_the_idle_and_tells_the_data_plane_of_the_rest)
{
        struct operation *waiting[200], *moving = NULL, *claimed = NULL, *none;
        struct operation_limits limits = default_limits;
        struct engine_claim granted;

        limits.operations_max = 300;
        limits.terminal_max = 10;
        fixture_limits(f, &limits);
        for (size_t i = 0; i < 200; i++)
                waiting[i] = make(f, (enum ferry_kind)(i % 4));
        moving = make(f, FERRY_READ);
        claimed = make(f, FERRY_READABLE);
        begin(f, moving);
        assert_int_equal(claim(f, claimed, &granted), 0);

        assert_int_equal(operation_store_cancel_all(f->store), 202);
        assert_int_equal(operation_store_live(f->store), 2);
        assert_int_equal(f->data_plane.n_cancelled, 1 + 100); /* with those whose metadata may be under way */
        assert_int_equal(f->data_plane.n_revoked, 1);
        assert_int_equal(make_spec(f, &(struct operation_spec){ .kind = FERRY_READ }, &none), FERRY_E_DRAINING);
        for (size_t i = 0; i < 200; i++) {
                assert_int_equal(look(f, waiting[i]).status, FERRY_CANCELLED);
                test_release(waiting[i]);
        }
        end_transfer(f, FERRY_E_CANCELLED);
        end_claim(f, &granted, FERRY_E_CANCELLED);
        assert_int_equal(operation_store_live(f->store), 0);
}
