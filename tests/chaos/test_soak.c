/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdio.h>

#include "harness.h"

/*
 * After 10,000 operations a worker is what it was after the first 100. What it remembers of ended operations (some
 * hundred bytes each, by design for ten minutes) is kept small here, so that growth which is none of that is seen.
 */

enum {
        CLIENTS = 4,
        FIRST = 100,
        OPERATIONS = 10000, /* of each worker */
        REGION = 64 << 10,
        SIZE_MAX_EACH = 16 << 10,
        RSS_GROWTH_KB = 6 << 10, /* the 65,536 ids that answer 410 and the 4,096 idempotency keys fill up meanwhile */
};

static const char *const flags[] = { "--retention", "1s", "--max-operations", "1024", NULL };

/* A client that keeps its connections as long as it lives. */
struct soaker {
        struct worker a, b;
        size_t operations, number;
        pthread_t thread;
};

static void one(struct soaker *s, const char *region_a, const char *region_b, uint64_t size, bool readable)
{
        struct ferry_descriptor at_a = { .region = region_a, .size = size },
                                at_b = { .region = region_b, .size = size };
        struct ferry_operation offer, move;

        assert_int_equal(ferry_create_operation(
                                 s->a.client,
                                 &(struct ferry_operation_spec){ .kind = readable ? FERRY_READABLE : FERRY_WRITABLE,
                                                                 .descriptors = &at_a,
                                                                 .n_descriptors = 1,
                                                                 .include_metadata = true },
                                 &offer),
                         0);
        assert_int_equal(
                ferry_create_operation(s->b.client,
                                       &(struct ferry_operation_spec){ .kind = readable ? FERRY_READ : FERRY_WRITE,
                                                                       .descriptors = &at_b,
                                                                       .n_descriptors = 1,
                                                                       .remote_metadata = offer.metadata,
                                                                       .wait_ms = WAIT_MS },
                                       &move),
                0);
        assert_int_equal(move.status, FERRY_COMPLETE);
        operation_assert_end(&s->a, offer.id, FERRY_COMPLETE, NULL); /* a moment later: its region is free then */
        ferry_operation_clear(&move);
        ferry_operation_clear(&offer);
}

/* Operations of all sizes in both directions, and a new pair of regions for every fifty. */
static void *soak(void *context)
{
        char region_a[FERRY_ID_SIZE], region_b[FERRY_ID_SIZE];
        struct soaker *s = context;

        for (size_t i = 0; i < s->operations; i++) {
                bool fresh = i % 50 == 0;

                if (fresh && i > 0) {
                        region_drop(&s->a, region_a);
                        region_drop(&s->b, region_b);
                }
                if (fresh) {
                        region_make(&s->a, REGION, s->number, region_a);
                        region_make(&s->b, REGION, s->number, region_b);
                }
                one(s, region_a, region_b, i * 7919 % SIZE_MAX_EACH + 1, i % 2 == 0);
        }
        region_assert_pattern(&s->b, region_b, s->number, 0, REGION);
        region_drop(&s->a, region_a);
        region_drop(&s->b, region_b);
        return NULL;
}

/* With clients that are gone afterwards, with their connections. */
static void run(struct pair *p, size_t operations)
{
        struct soaker soakers[CLIENTS];

        for (size_t i = 0; i < CLIENTS; i++) {
                soakers[i] =
                        (struct soaker){ .a = p->a, .b = p->b, .operations = operations / CLIENTS, .number = i + 1 };
                assert_int_equal(ferry_new(p->a.url, NULL, &soakers[i].a.client), 0);
                assert_int_equal(ferry_new(p->b.url, NULL, &soakers[i].b.client), 0);
                assert_int_equal(pthread_create(&soakers[i].thread, NULL, soak, &soakers[i]), 0);
        }
        for (size_t i = 0; i < CLIENTS; i++) {
                assert_int_equal(pthread_join(soakers[i].thread, NULL), 0);
                soakers[i].a.client = ferry_free(soakers[i].a.client);
                soakers[i].b.client = ferry_free(soakers[i].b.client);
        }
}

struct measure {
        const struct worker *worker;
        uint64_t rss_kb;
        size_t descriptors, files;
};

static struct measure take_measure(const struct worker *w)
{
        return (struct measure){ .worker = w,
                                 .rss_kb = worker_status_kb(w, "RssAnon"),
                                 .descriptors = worker_descriptors(w),
                                 .files = worker_files(w) };
}

static bool descriptors_are_back(void *context)
{
        const struct measure *first = context;

        return worker_descriptors(first->worker) <= first->descriptors;
}

static void compare(struct measure *first)
{
        bool back = eventually(descriptors_are_back, first); /* the worker closes what clients have closed */
        struct measure now = take_measure(first->worker);

        print_message("worker %s: %d → %d kB, %zu → %zu descriptors, %zu → %zu files\n", now.worker->name,
                      (int)first->rss_kb, (int)now.rss_kb, first->descriptors, now.descriptors, first->files,
                      now.files);
        assert_true(back);
        assert_int_equal(now.files, first->files);
        if (!SANITIZED)
                assert_true(now.rss_kb < first->rss_kb + RSS_GROWTH_KB);
}

static void after_ten_thousand_operations_a_worker_is_as_after_a_hundred(void **state)
{
        struct measure first_a, first_b;
        struct pair *p = *state;

        for (int network = 0; network < 2; network++) {
                pair_start_with(p, network, flags);
                run(p, FIRST);
                first_a = take_measure(&p->a);
                first_b = take_measure(&p->b);
                run(p, OPERATIONS - FIRST);
                compare(&first_a);
                compare(&first_b);
                pair_stop(p);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                WITH_PAIR(after_ten_thousand_operations_a_worker_is_as_after_a_hundred),
        };

        return cmocka_run_group_tests_name("soak", tests, NULL, NULL);
}
