/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "operations_internal.h"
#include "unit.h"

/* The bytes of the last seconds, on a clock that the test moves. */

#define SECOND UINT64_C(1000000)
#define START (5 * SECOND + 400000)

static struct throughput throughput;
static struct operation_throughput shown;

static void begin(uint64_t start_us)
{
        throughput = (struct throughput){ 0 };
        throughput_init(&throughput, start_us);
}

static void show(uint64_t now_us)
{
        memset(&shown, 0xff, sizeof(shown));
        throughput_get(&throughput, now_us, &shown);
}

TEST(a_second_is_shown_when_it_is_over)
{
        begin(START);
        throughput_add(&throughput, FERRY_READ, 7, START);
        show(START + SECOND / 2);
        assert_int_equal(shown.n, 0);
        throughput_add(&throughput, FERRY_READ, 5, START + SECOND / 2);
        show(6 * SECOND);
        assert_int_equal(shown.n, 1);
        assert_int_equal(shown.since_us, 5 * SECOND);
        assert_int_equal(shown.received[0], 12);
        assert_int_equal(shown.sent[0], 0);
}

TEST(the_direction_is_that_of_the_kind)
{
        begin(START);
        throughput_add(&throughput, FERRY_READ, 1, START);
        throughput_add(&throughput, FERRY_WRITABLE, 10, START);
        throughput_add(&throughput, FERRY_READABLE, 100, START);
        throughput_add(&throughput, FERRY_WRITE, 1000, START);
        show(START + SECOND);
        assert_int_equal(shown.received[0], 11);
        assert_int_equal(shown.sent[0], 1100);
}

TEST(the_last_five_minutes_are_kept_and_no_more)
{
        begin(START);
        for (uint64_t i = 0; i < 2 * OPERATION_SECONDS_MAX; i++)
                throughput_add(&throughput, FERRY_WRITE, i + 1, START + i * SECOND);
        show(START + 2 * OPERATION_SECONDS_MAX * SECOND);
        assert_int_equal(shown.n, OPERATION_SECONDS_MAX);
        assert_int_equal(shown.since_us, (5 + OPERATION_SECONDS_MAX) * SECOND);
        for (size_t i = 0; i < OPERATION_SECONDS_MAX; i++)
                assert_int_equal(shown.sent[i], OPERATION_SECONDS_MAX + i + 1);
}

/* Whatever an earlier round of the ring left in a cell is not shown, and not added to. */
TEST(an_idle_time_is_empty_however_long_it_was)
{
        for (uint64_t idle = 1; idle <= 2 * THROUGHPUT_CELLS; idle++) {
                uint64_t now = START + idle * SECOND;

                begin(START);
                throughput_add(&throughput, FERRY_READ, 9, START);
                throughput_add(&throughput, FERRY_READ, 4, now);
                show(now + SECOND);
                assert_int_equal(shown.received[shown.n - 1], 4);
                for (size_t i = 0; i + 1 < shown.n; i++)
                        assert_int_equal(shown.received[i], i == 0 && idle < OPERATION_SECONDS_MAX ? 9 : 0);
        }
}

TEST(a_sum_beyond_a_cell_stays_at_its_end)
{
        begin(START);
        throughput_add(&throughput, FERRY_READ, UINT64_MAX, START);
        throughput_add(&throughput, FERRY_READ, UINT64_MAX, START);
        show(START + SECOND);
        assert_int_equal(shown.received[0], (UINT64_C(1) << 44) - 1);
        throughput_add(&throughput, FERRY_READ, 3, START + SECOND);
        show(START + 2 * SECOND);
        assert_int_equal(shown.received[1], 3);
}

enum { THREADS = 4, ADDITIONS = 20000 };

static void *add(void *argument)
{
        (void)argument;
        for (uint64_t i = 0; i < ADDITIONS; i++)
                throughput_add(&throughput, FERRY_READABLE, 3, START + i * SECOND / 1000);
        return NULL;
}

TEST(threads_that_add_at_once_lose_nothing)
{
        pthread_t threads[THREADS];
        uint64_t sum = 0;

        begin(START);
        for (size_t i = 0; i < THREADS; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, add, NULL), 0);
        for (size_t i = 0; i < THREADS; i++)
                assert_int_equal(pthread_join(threads[i], NULL), 0);
        show(START + ADDITIONS / 1000 * SECOND + SECOND);
        for (size_t i = 0; i < shown.n; i++)
                sum += shown.sent[i];
        assert_int_equal(sum, 3 * THREADS * ADDITIONS);
}
