/* SPDX-License-Identifier: Apache-2.0 */
#include "region_fixture.h"

#include "loop_probe.h"

/* Regions with idle_ms, on a clock that the test moves. */

enum { IDLE_MS = 1000 };

static _Atomic uint64_t later_us;

uint64_t __wrap_clock_now_us(void);

uint64_t __wrap_clock_now_us(void)
{
        return 1000 * 1000 * 1000 + atomic_load(&later_us);
}

static int setup_idle(void **state)
{
        int r = loop_setup(state);

        table_loop = loop;
        atomic_store(&later_us, 0);
        return r ? r : setup(state);
}

static int teardown_idle(void **state)
{
        int r = teardown(state);

        return loop_teardown(state) || r;
}

#define WITH_IDLE(name) TEST_WITH(name, setup_idle, teardown_idle)

/* Moves the clock, and returns when the loop has called all timers that were due before. */
static void pass_ms(uint64_t ms)
{
        struct probe *last = probe_new(), *wake = probe_new();

        atomic_fetch_add(&later_us, ms * MS);
        assert_int_equal(loop_timer_start(loop, &last->timer, clock_now_us()), 0);
        assert_int_equal(loop_timer_start(loop, &wake->timer, 0), 0); /* by the real clock, the loop would sleep on */
        wait_for(&wake->done);
        wait_for(&last->done);
}

/* To the second look of a region that is idle now. */
static void pass_second_look(void)
{
        pass_ms(IDLE_MS / 2);
}

static struct region *begin_idle(uint64_t size)
{
        const struct region_spec spec = { .size = size, .device = "cpu", .idle_ms = IDLE_MS };
        struct region *region = NULL;

        assert_int_equal(region_create(table, &spec, &region, NULL), 0);
        return region;
}

static struct region *create_idle(uint64_t size)
{
        struct region *region = begin_idle(size);

        assert_int_equal(region_await(region), 0);
        return region;
}

static void assert_lives_for(struct region *region, uint64_t ms)
{
        assert_int_equal(region_idle_due_us(region), clock_now_us() + ms * MS);
        pass_ms(ms - 1);
        assert_false(region_deleted(region));
        pass_ms(2);
        pass_second_look();
        assert_true(region_deleted(region));
        region_unref(region);
        assert_totals(0, 0);
}

WITH_IDLE(an_idle_region_goes)
{
        FOR_EACH (uint64_t, size, SMALL, LIMIT)
                assert_lives_for(create_idle(size), IDLE_MS);
}

WITH_IDLE(its_memory_is_freed_for_others)
{
        region_unref(create_idle(LIMIT));
        pass_ms(IDLE_MS + 1);
        pass_second_look();
        region_unref(create(LIMIT));
}

WITH_IDLE(a_region_without_the_time_lives)
{
        struct region *region = create(SMALL);

        assert_int_equal(region_idle_due_us(region), UINT64_MAX);
        pass_ms(1000 * IDLE_MS);
        assert_false(region_deleted(region));
        region_unref(region);
}

WITH_IDLE(finding_it_starts_the_time_again)
{
        struct region *region = create_idle(SMALL);

        for (int i = 0; i < 5; i++) {
                pass_ms(IDLE_MS - 1);
                region_unref(region_find(table, region->id));
        }
        assert_lives_for(region, IDLE_MS);
}

/* As after a SIGSTOP of the worker: the request that waits in a socket is read after the timer has fired. */
WITH_IDLE(finding_it_when_the_worker_goes_on_is_in_time)
{
        struct region *region = create_idle(SMALL);

        pass_ms(10 * IDLE_MS);
        struct region *found = region_find(table, region->id);
        assert_ptr_equal(found, region);
        region_unref(found);
        assert_lives_for(region, IDLE_MS);
}

WITH_IDLE(listing_it_does_not)
{
        struct region *region = create_idle(SMALL), *page[2];
        uint64_t cursor = 0;

        pass_ms(IDLE_MS - 10);
        assert_int_equal(region_page(table, &cursor, page, 2), 1);
        region_unref(page[0]);
        assert_lives_for(region, 10);
}

/* The time runs from the end of the use, also where the timer has fired meanwhile. */
WITH_IDLE(a_region_in_use_lives)
{
        FOR_EACH (int, streams, 0, 1) {
                struct region *region = create_idle(SMALL);

                assert_int_equal(streams ? region_stream_begin(region) : region_use(region), 0);
                pass_ms(5 * IDLE_MS + 1);
                assert_false(region_deleted(region));
                assert_int_equal(region_idle_due_us(region), UINT64_MAX);
                streams ? region_stream_end(region) : region_unuse(region);
                assert_lives_for(region, IDLE_MS);
        }
}

WITH_IDLE(the_time_begins_when_it_is_made)
{
        gate_shut(true);
        struct region *region = begin_idle(LIMIT);

        pass_ms(5 * IDLE_MS);
        assert_int_equal(region_state(region), REGION_PREPARING);
        assert_int_equal(region_idle_due_us(region), UINT64_MAX);
        gate_shut(false);
        assert_int_equal(region_await(region), 0);
        assert_lives_for(region, IDLE_MS);
}

WITH_IDLE(one_that_could_not_be_made_goes)
{
        gate.error = -EIO;
        struct region *region = begin_idle(LIMIT);

        assert_int_equal(region_await(region), -EIO);
        assert_lives_for(region, IDLE_MS);
}

static atomic_int n_unlisted;

static void note_unlisted(void *context, struct region_table *of, uint64_t id, struct region *deleted,
                          enum region_change change)
{
        if (change == REGION_UNLISTED)
                atomic_fetch_add(&n_unlisted, 1);
}

WITH_IDLE(its_end_is_observed_once)
{
        const struct region_config config = {
                .memory_limit = LIMIT, .max_regions = 4, .observer = { .changed = note_unlisted }, .loop = loop
        };

        region_table_free(table);
        assert_int_equal(region_table_new(&config, &table), 0);
        region_unref(create_idle(SMALL));
        pass_ms(IDLE_MS + 1);
        pass_ms(IDLE_MS + 1);
        assert_int_equal(atomic_exchange(&n_unlisted, 0), 1);
}

/* The timer's reference goes with the region: its memory is freed at once. */
WITH_IDLE(a_deleted_region_has_no_timer)
{
        struct region *region = create_idle(SMALL);
        const char *path = text_format("%s", region->path);

        assert_int_equal(access(path, F_OK), 0);
        assert_int_equal(region_delete(table, region->id), 0);
        region_unref(region);
        assert_int_equal(access(path, F_OK), -1);
        pass_ms(IDLE_MS + 1);
}

static void *use_once(void *context)
{
        struct region *region = context;
        int r = region_use(region);

        if (r == 0) {
                memset(region->address, 1, region->size);
                region_unuse(region);
        }
        return (void *)(intptr_t)r;
}

/* Either the use comes first, and the region lives on, or the timer. */
WITH_IDLE(a_use_races_with_the_timer)
{
        for (int round = 0; round < 200; round++) {
                struct region *region = create_idle(SMALL);
                pthread_t thread;
                void *r;

                pass_ms(IDLE_MS + 1);
                assert_int_equal(pthread_create(&thread, NULL, use_once, region), 0);
                pass_second_look();
                pthread_join(thread, &r);
                assert_true(r == NULL || (intptr_t)r == FERRY_E_NOT_FOUND);
                pass_ms(IDLE_MS + 1);
                pass_second_look();
                assert_true(region_deleted(region));
                region_unref(region);
        }
}

/* Ends with timers armed; the leak checker and the teardown's counts see what is left. */
WITH_IDLE(the_table_ends_before_the_time)
{
        region_unref(create_idle(SMALL));
        region_unref(create_idle(LIMIT / 2));
}
