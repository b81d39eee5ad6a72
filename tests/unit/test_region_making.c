/* SPDX-License-Identifier: Apache-2.0 */
#include "region_fixture.h"

/* Regions that are being prepared, and many at once. */

TEST_WITH(a_large_region_is_listed_and_shows_its_progress_but_cannot_be_used, setup, teardown)
{
        struct region *page[2], *region;
        uint64_t cursor = 0;

        gate_shut(true);
        region = begin(LIMIT);
        gate_await(1);
        assert_int_equal(region_state(region), REGION_PREPARING);
        assert_int_equal(region_bytes_prepared(region), 0);
        assert_string_equal(region->path, "");
        assert_int_equal(region_page(table, &cursor, page, 2), 1);
        assert_ptr_equal(page[0], region);
        region_unref(page[0]);
        assert_totals(1, LIMIT);
        assert_int_equal(region_use(region), FERRY_E_REGION_NOT_READY);
        assert_int_equal(region_stream_begin(region), FERRY_E_REGION_NOT_READY);
        assert_int_equal(registered, 0);
        gate_shut(false);
        assert_int_equal(region_await(region), 0);
        assert_int_equal(region_bytes_prepared(region), LIMIT);
        assert_int_equal(region_use(region), 0);
        region_unuse(region);
        region_unref(region);
}

TEST_WITH(a_region_deleted_while_it_is_prepared_is_abandoned, setup, teardown)
{
        gate_shut(true);
        struct region *region = begin(LIMIT);
        gate_await(1);
        assert_int_equal(region_delete(table, region->id), 0);
        assert_int_equal(region_await(region), FERRY_E_NOT_FOUND);
        assert_totals(0, 0);
        gate_shut(false);
        region_unref(create(LIMIT));
        assert_int_equal(region_state(region), REGION_PREPARING);
        assert_int_equal(registered, 1);
        region_unref(region);
}

TEST_WITH(memory_that_leaves_is_waited_for, setup, teardown)
{
        for (int i = 0; i < 20; i++) {
                struct region *region = create(LIMIT);

                assert_int_equal(region_delete(table, region->id), 0);
                region_unref(region);
                /* Its bytes, exactly; then a small part of them, while somebody has a short look at them. */
                region = create(LIMIT);
                struct region *look = region_find(table, region->id);
                assert_int_equal(region_delete(table, region->id), 0);
                region_unref(region);
                region = begin(SMALL);
                assert_int_equal(region_state(region), REGION_PREPARING);
                region_unref(look);
                assert_int_equal(region_await(region), 0);
                assert_int_equal(region_delete(table, region->id), 0);
                region_unref(region);
        }
        assert_totals(0, 0);
}

/* Whoever holds the memory may do so for ever: the region that has waited for it is refused. */
TEST_WITH(memory_that_stays_after_all_is_not_waited_for, setup, teardown)
{
        char detail[REGION_DETAIL_SIZE];
        struct region *held = create(LIMIT);

        assert_int_equal(region_stream_begin(held), 0);
        assert_int_equal(region_delete(table, held->id), 0);
        assert_int_equal(create_fails_with(LIMIT, "cpu", detail), FERRY_E_NO_SPACE);
        assert_non_null(strstr(detail, "--memory-limit"));
        region_stream_end(held);
        region_unref(held);
        region_unref(create(LIMIT));
}

struct told {
        struct region_waiter waiter;
        atomic_int n;
};

static void tell(struct region_waiter *waiter)
{
        atomic_fetch_add(&FERRY_CONTAINER_OF(waiter, struct told, waiter)->n, 1);
}

TEST_WITH(waiters_are_told_once_that_it_is_ready_or_gone, setup, teardown)
{
        struct told ready = { .waiter.wake = tell }, gone = ready, never = ready, late = ready;

        gate_shut(true);
        struct region *one = begin(LIMIT / 2), *two = begin(LIMIT / 4 + 1);
        assert_true(region_wait(one, &ready.waiter));
        assert_true(region_wait(one, &never.waiter));
        assert_true(region_wait(two, &gone.waiter));
        assert_true(region_unwait(one, &never.waiter));
        assert_false(region_unwait(one, &never.waiter));
        assert_int_equal(region_delete(table, two->id), 0);
        assert_int_equal(gone.n, 1);
        assert_false(region_unwait(two, &gone.waiter));
        assert_int_equal(ready.n, 0);
        gate_shut(false);
        assert_int_equal(region_await(one), 0);
        assert_false(region_wait(one, &late.waiter));
        table = region_table_free(table); /* after which nobody is about to be told */
        assert_int_equal(ready.n, 1);
        assert_int_equal(gone.n, 1);
        assert_int_equal(never.n + late.n, 0);
        region_unref(one);
        region_unref(two);
}

TEST_WITH(free_abandons_what_is_prepared, setup, teardown)
{
        gate_shut(true);
        struct region *region = begin(LIMIT / 2);
        region_unref(begin(LIMIT / 2));
        gate_await(1);
        gate_shut(false);
        table = region_table_free(table);
        assert_true(region_deleted(region));
        region_unref(region);
}

TEST_WITH(memory_pinned_by_a_gpu_that_stands_still_holds_up_no_other, setup, teardown)
{
        struct region *pinned[20], *host = create(LIMIT / 2);

        for (size_t i = 0; i < UNIT_COUNT(pinned); i++) {
                pinned[i] = create(SMALL);
                memcpy(pinned[i]->address, PINNED, sizeof(PINNED));
        }
        gate_shut(true);
        for (size_t i = 0; i < UNIT_COUNT(pinned); i++) {
                assert_int_equal(region_delete(table, pinned[i]->id), 0);
                region_unref(pinned[i]);
        }
        assert_int_equal(region_delete(table, host->id), 0);
        region_unref(host);
        pthread_mutex_lock(&gate.lock);
        WAIT_SIGNAL(&gate.changed, &gate.lock, deregistered == 1);
        pthread_mutex_unlock(&gate.lock);
        gate_shut(false);
        pthread_mutex_lock(&gate.lock);
        WAIT_SIGNAL(&gate.changed, &gate.lock, deregistered == 1 + UNIT_COUNT(pinned));
        pthread_mutex_unlock(&gate.lock);
}

TEST_WITH(held_memory_outlives_the_table, setup, teardown)
{
        struct region *held = create(4096);
        region_unref(create(4096));
        table = region_table_free(table);
        assert_null(table);
        assert_int_equal(deregistered, 2);
        memset(held->address, 'h', held->size);
        assert_int_equal(region_use(held), FERRY_E_NOT_FOUND);
        region_unref(held);
        assert_null(region_table_free(NULL));
}

TEST_WITH(a_region_that_failed_has_no_part_of_the_limit, setup, teardown)
{
        gate.error = -ENOMEM;
        struct region *region = begin(LIMIT);
        assert_int_equal(region_await(region), FERRY_E_NO_SPACE);
        assert_int_equal(region_state(region), REGION_FAILED);
        assert_totals(1, 0);
        gate.error = 0;
        region_unref(create(LIMIT));
        assert_int_equal(region_delete(table, region->id), 0);
        assert_totals(1, LIMIT);
        region_unref(region);
}

/* Creates, uses, finds and deletes; what is in use by one thread must stay for it though others try to delete it. */
static void *churn(void *argument)
{
        unsigned seed = (unsigned)(uintptr_t)argument;
        intptr_t wrong = 0;
        for (int i = 0; i < 400; i++) {
                struct region *region = NULL, *page[4];
                uint64_t cursor = (uint64_t)(rand_r(&seed) % 300);
                const bool large = rand_r(&seed) % 4 == 0;
                const struct region_spec spec = { .size = (uint64_t)(1 + rand_r(&seed) % (large ? LIMIT / 2 : 9000)),
                                                  .device = "cpu" };
                int r = region_create(table, &spec, &region, NULL);
                if (r == 0)
                        region_unref(region);
                else
                        wrong += r != FERRY_E_LIMIT_REACHED && r != FERRY_E_NO_SPACE;
                size_t n = region_page(table, &cursor, page, 4);
                for (size_t k = 0; k < n; k++) {
                        if (region_use(page[k]) == 0) {
                                wrong += region_delete(table, page[k]->id) != FERRY_E_REGION_IN_USE;
                                struct region *found = region_find(table, page[k]->id);
                                wrong += found != page[k];
                                region_unref(found);
                                region_unuse(page[k]);
                        }
                        if (k % 2)
                                (void)region_delete(table, page[k]->id);
                        region_unref(page[k]);
                }
        }
        return (void *)wrong;
}

TEST_WITH(threads_may_do_everything_at_once, setup, teardown)
{
        pthread_t threads[4];
        for (uintptr_t i = 0; i < 4; i++)
                pthread_create(&threads[i], NULL, churn, (void *)(i + 1));
        for (size_t i = 0; i < 4; i++) {
                void *wrong;
                pthread_join(threads[i], &wrong);
                assert_int_equal((intptr_t)wrong, 0);
        }
        struct region *page[MAX_REGIONS];
        uint64_t cursor = 0, bytes = 0;
        size_t n = region_page(table, &cursor, page, MAX_REGIONS);
        for (size_t i = 0; i < n; i++)
                bytes += page[i]->size;
        assert_totals(n, bytes);
        assert_int_equal(gauge("ferry_region_bytes"), bytes);
        for (size_t i = 0; i < n; i++) {
                assert_int_equal(region_delete(table, page[i]->id), 0);
                region_unref(page[i]);
        }
        assert_totals(0, 0);
        region_unref(create(LIMIT));
}
