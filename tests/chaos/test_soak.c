/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdio.h>

#include "harness.h"

/*
 * After many operations a worker is what it was before. What it remembers of ended operations (some hundred bytes each,
 * by design for ten minutes) is kept small here, so that growth which is none of that is seen. FERRY_CHAOS_OPERATIONS
 * says how many of each worker, over shared memory and TCP together.
 */

enum {
        CLIENTS = 4,
        BATCH = 50, /* operations of one request, and of a pair of regions */
        OPERATIONS = 20000,
        SLICE = 1280,
        REGION = BATCH * SLICE,
        PARTS = 4,
        RSS_GROWTH_KB = 12 << 10, /* 4,096 operations, 65,536 ids that answer 410, 4,096 idempotency keys fill up … */
        RSS_FULL = 200000,        /* … and are full after half of so many operations */
        RSS_FLAT_KB = 2 << 10,    /* growth from then on: a few bytes for each */
};

/* When the workers are looked at, in thousandths of the operations. */
static const unsigned parts[PARTS] = { 10, 100, 500, 1000 };

/* By number and not by time: a slow machine takes longer between the end of an offer and the look at it. */
static const char *const flags[] = { "--max-operations", "4096", NULL };

static size_t operations_of_a_side(void)
{
        const char *text = getenv("FERRY_CHAOS_OPERATIONS");
        size_t n = text ? strtoul(text, NULL, 10) : OPERATIONS;

        return (n / 2 + CLIENTS * BATCH - 1) / (CLIENTS * BATCH) * (CLIENTS * BATCH);
}

/* A client that keeps its connections as long as it lives. */
struct soaker {
        struct worker a, b;
        size_t batches, number;
        pthread_t thread;
};

/* One batch: what moves from a to b, and what moves the other way. */
struct batch {
        const char *region_b, *region_a;
        uint64_t seed;
        struct ferry_descriptor at_a[BATCH], at_b[BATCH];
        struct ferry_operation_spec specs[BATCH];
};

static bool moves_to_b(size_t i)
{
        return i % 2 == 0;
}

/* What fails in a thread ends the program at once, before cmocka has said why. */
static void assert_all_complete(const struct ferry_operation_results *results)
{
        assert_int_equal(results->n, BATCH);
        for (size_t i = 0; i < BATCH; i++) {
                const struct ferry_operation *operation = results->items[i].operation;
                int result = results->items[i].result;

                if (result || operation->status != FERRY_COMPLETE)
                        (void)fprintf(stderr, "an operation is lost: %s, %s\n",
                                      result ? ferry_error_code(result) : "ok",
                                      result ? "no status" : ferry_status_name(operation->status));
                assert_int_equal(result, 0);
                assert_int_equal(operation->status, FERRY_COMPLETE);
        }
}

static void offer(struct soaker *s, struct batch *b, struct ferry_operation_results *ret_offers)
{
        for (size_t i = 0; i < BATCH; i++) {
                uint64_t size = (b->seed + i) * 7919 % SLICE + 1;

                b->at_a[i] = (struct ferry_descriptor){ .region = b->region_a, .offset = i * SLICE, .size = size };
                b->at_b[i] = (struct ferry_descriptor){ .region = b->region_b, .offset = i * SLICE, .size = size };
                b->specs[i] = (struct ferry_operation_spec){ .kind = moves_to_b(i) ? FERRY_READABLE : FERRY_WRITABLE,
                                                             .descriptors = &b->at_a[i],
                                                             .n_descriptors = 1,
                                                             .include_metadata = true };
        }
        assert_int_equal(ferry_create_operations(s->a.client, b->specs, BATCH, ret_offers), 0);
}

static void move(struct soaker *s, struct batch *b, const struct ferry_operation_results *offers)
{
        struct ferry_operation_results moves;

        for (size_t i = 0; i < BATCH; i++)
                b->specs[i] = (struct ferry_operation_spec){ .kind = moves_to_b(i) ? FERRY_READ : FERRY_WRITE,
                                                             .descriptors = &b->at_b[i],
                                                             .n_descriptors = 1,
                                                             .remote_metadata = offers->items[i].operation->metadata,
                                                             .wait_ms = WAIT_MS };
        assert_int_equal(ferry_create_operations(s->b.client, b->specs, BATCH, &moves), 0);
        assert_all_complete(&moves);
        ferry_operation_results_clear(&moves);
}

/* A moment later: their region is free then. */
static void await_offers(struct soaker *s, const struct ferry_operation_results *offers)
{
        struct ferry_operation_results ends;
        const char *ids[BATCH];

        for (size_t i = 0; i < BATCH; i++)
                ids[i] = offers->items[i].operation->id;
        assert_int_equal(ferry_wait_operations(s->a.client, ids, BATCH, FERRY_WAIT_ALL, WAIT_MS, &ends), 0);
        assert_all_complete(&ends);
        ferry_operation_results_clear(&ends);
}

/* Each slice that arrived is the other side's, the rest is as it was. */
static void assert_arrived(struct worker *w, const char *region, const struct batch *b, bool is_b)
{
        static _Thread_local uint8_t bytes[REGION], wanted[REGION], moved[REGION];
        size_t size;

        pattern_fill(2 * b->seed + (is_b ? 1 : 0), 0, wanted, REGION);
        pattern_fill(2 * b->seed + (is_b ? 0 : 1), 0, moved, REGION);
        for (size_t i = 0; i < BATCH; i++)
                if (moves_to_b(i) == is_b)
                        memcpy(wanted + i * SLICE, moved + i * SLICE, b->at_b[i].size);
        assert_int_equal(ferry_get_region_content(w->client, region, 0, bytes, REGION, &size), 0);
        assert_int_equal(size, REGION);
        assert_memory_equal(bytes, wanted, REGION);
}

static void *soak(void *context)
{
        struct ferry_operation_results offers;
        struct soaker *s = context;
        struct batch b;

        for (size_t i = 0; i < s->batches; i++) {
                b.seed = 1 + s->number + i * CLIENTS;
                b.region_a = region_make(&s->a, REGION, 2 * b.seed);
                b.region_b = region_make(&s->b, REGION, 2 * b.seed + 1);
                offer(s, &b, &offers);
                move(s, &b, &offers);
                await_offers(s, &offers);
                ferry_operation_results_clear(&offers);
                assert_arrived(&s->a, b.region_a, &b, false);
                assert_arrived(&s->b, b.region_b, &b, true);
                region_drop(&s->a, b.region_a);
                region_drop(&s->b, b.region_b);
        }
        return NULL;
}

/* With clients that are gone afterwards, with their connections. */
static void run(struct pair *p, size_t batches)
{
        struct soaker soakers[CLIENTS];

        for (size_t i = 0; i < CLIENTS; i++) {
                soakers[i] = (struct soaker){ .a = p->a, .b = p->b, .batches = batches, .number = i };
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

/* ---- what a worker holds ---- */

struct measure {
        const struct worker *worker;
        uint64_t rss_kb[PARTS];
        size_t descriptors, files; /* the most that there may be */
};

/* The worker closes what clients have closed. */
static void look(struct measure *m, size_t part)
{
        m->rss_kb[part] = worker_status_kb(m->worker, "RssAnon");
        if (part == 0) {
                m->descriptors = worker_descriptors(m->worker);
                m->files = worker_files(m->worker);
                return;
        }
        WAIT_UNTIL(worker_descriptors(m->worker) <= m->descriptors);
        assert_int_equal(worker_files(m->worker), m->files);
}

static void compare(const struct measure *m, size_t operations)
{
        uint64_t from_kb = m->rss_kb[operations >= RSS_FULL ? PARTS - 2 : 0];
        uint64_t limit_kb = operations >= RSS_FULL ? RSS_FLAT_KB : RSS_GROWTH_KB;

        print_message("worker %s: %d, %d, %d, %d kB after 1, 10, 50, 100 %%; %zu → %zu descriptors\n", m->worker->name,
                      (int)m->rss_kb[0], (int)m->rss_kb[1], (int)m->rss_kb[2], (int)m->rss_kb[3], m->descriptors,
                      worker_descriptors(m->worker));
        if (!SANITIZED)
                assert_true(m->rss_kb[PARTS - 1] < from_kb + limit_kb);
}

WITH_PAIR(a_worker_is_after_many_operations_what_it_was_before)
{
        size_t operations = operations_of_a_side(), batches = operations / (CLIENTS * BATCH);

        assert_int_equal(setenv("MALLOC_ARENA_MAX", "1", 1), 0); /* arenas fill up for as long as threads come and go */
        for (int network = 0; network < 2; network++) {
                uint64_t started_ms = now_ms();
                size_t done = 0;

                pair_start_with(p, network, flags);
                struct measure a = { .worker = &p->a }, b = { .worker = &p->b };
                for (size_t i = 0; i < PARTS; i++) {
                        size_t until = (batches * parts[i] + 999) / 1000;

                        run(p, until - done);
                        done = until;
                        look(&a, i);
                        look(&b, i);
                }
                compare(&a, operations);
                compare(&b, operations);
                print_message("%s side: %zu operations of each worker in %d s, lost: none\n", side_names[network],
                              operations, (int)((now_ms() - started_ms) / 1000));
                pair_stop(p);
        }
}
