/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

#include "harness.h"

/* Many operations: at once in both directions, one after another, and made by many clients together. */

enum { KIB = 1 << 10, MIB = 1 << 20, READS = 100, MANY = 2 * READS, SEQUENCE = 1000, THREADS = 8, ROUNDS = 12 };

static const uint64_t sizes[] = { 1,           7,           4096, 4097, 7936,      7937,    65537,
                                  MIB / 2 + 3, MIB - 1,     MIB,  5,    MIB + 1,   3 * KIB, 2 * MIB + 77,
                                  100,         3 * MIB + 1, 12,   999,  257 * KIB, 4 * MIB };
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* ---- at once ---- */

struct move {
        struct worker *passive_worker, *active_worker;
        enum ferry_kind kind; /* of the passive operation */
        uint64_t size;
        const char *local, *offered;
        struct ferry_operation passive, active;
};

static void move_offer(struct pair *p, struct move *m, size_t i)
{
        bool readable = i % 2 == 0, from_a = i / 2 % 2 == 0;

        *m = (struct move){ .passive_worker = from_a ? &p->a : &p->b,
                            .active_worker = from_a ? &p->b : &p->a,
                            .kind = readable ? FERRY_READABLE : FERRY_WRITABLE,
                            .size = sizes[i / 4 % SIZES] };
        m->offered = region_make(m->passive_worker, m->size, readable ? i + 1 : 0);
        m->local = region_make(m->active_worker, m->size, readable ? 0 : i + 1);
        offer_make(m->passive_worker, m->kind, m->offered, &m->passive);
}

static void move_begin(struct move *m)
{
        begin_make(m->active_worker, kind_of_peer(m->kind), m->local, m->passive.metadata, &m->active);
}

static void move_check(struct move *m, size_t i)
{
        operation_assert_end(m->active_worker, m->active.id, FERRY_COMPLETE, NULL);
        operation_assert_end(m->passive_worker, m->passive.id, FERRY_COMPLETE, NULL);
        region_assert_pattern(m->active_worker, m->local, i + 1, 0, m->size);
        region_assert_pattern(m->passive_worker, m->offered, i + 1, 0, m->size);
        ferry_operation_clear(&m->passive);
        ferry_operation_clear(&m->active);
        region_drop(m->passive_worker, m->offered);
        region_drop(m->active_worker, m->local);
}

static void all_at_once(struct pair *p, struct move *moves)
{
        for (size_t i = 0; i < MANY; i++)
                move_offer(p, &moves[i], i);
        /* While b stands still none of a's can end, so that they all run when b's begin. */
        assert_int_equal(kill(p->b.pid, SIGSTOP), 0);
        for (size_t i = 0; i < MANY; i++)
                if (moves[i].active_worker == &p->a)
                        move_begin(&moves[i]);
        assert_int_equal(kill(p->b.pid, SIGCONT), 0);
        for (size_t i = 0; i < MANY; i++)
                if (moves[i].active_worker == &p->b)
                        move_begin(&moves[i]);
        for (size_t i = 0; i < MANY; i++)
                move_check(&moves[i], i);
}

ON_EACH_PAIR(two_hundred_at_once_in_both_directions)
{
        struct move *moves = calloc(MANY, sizeof(*moves));

        all_at_once(p, moves);
        pair_assert_serving(p);
        free(moves);
}

/* ---- one after another ---- */

/* The i-th slice from one region to the other, as a read of what from offers or a write into what to offers. */
static void move_slice(struct worker *from, struct worker *to, const char *source, const char *target, uint64_t offset,
                       uint64_t size, bool read)
{
        struct ferry_descriptor out = { .region = source, .offset = offset, .size = size };
        struct ferry_descriptor in = { .region = target, .offset = offset, .size = size };
        struct ferry_operation_spec offer = { .kind = read ? FERRY_READABLE : FERRY_WRITABLE,
                                              .descriptors = read ? &out : &in,
                                              .n_descriptors = 1,
                                              .include_metadata = true };
        OPERATION passive, active;

        assert_int_equal(ferry_create_operation((read ? from : to)->client, &offer, &passive), 0);
        assert_int_equal(ferry_create_operation((read ? to : from)->client,
                                                &(struct ferry_operation_spec){
                                                        .kind = read ? FERRY_READ : FERRY_WRITE,
                                                        .descriptors = read ? &in : &out,
                                                        .n_descriptors = 1,
                                                        .remote_metadata = passive.metadata,
                                                        .wait_ms = WAIT_MS,
                                                },
                                                &active),
                         0);
        assert_int_equal(active.status, FERRY_COMPLETE);
        operation_assert_end(read ? from : to, passive.id, FERRY_COMPLETE, NULL);
}

ON_EACH_PAIR(a_thousand_small_ones_in_sequence)
{
        uint64_t offset = 0;
        const char *source = region_make(&p->a, 128 * KIB, 5);
        const char *target = region_make(&p->b, 128 * KIB, 0);

        for (uint64_t i = 0; i < SEQUENCE; i++) {
                uint64_t size = i % 120 + 1;

                move_slice(&p->a, &p->b, source, target, offset, size, i % 2 == 0);
                offset += size;
        }
        region_assert_pattern(&p->b, target, 5, 0, offset);
        region_assert_pattern(&p->b, target, 0, offset, 128 * KIB - offset);
}

/* ---- many clients ---- */

struct client_thread {
        struct worker a, b; /* the workers, with clients of the thread's own */
        uint64_t seed;
        pthread_t thread;
};

/* Assertions of a thread end the whole test program, as they should. */
static void *create_and_move(void *context)
{
        struct client_thread *c = context;

        for (unsigned round = 0; round < ROUNDS; round++) {
                struct move m = { .passive_worker = round % 2 ? &c->a : &c->b,
                                  .active_worker = round % 2 ? &c->b : &c->a };
                uint64_t seed = c->seed * ROUNDS + round;

                m.size = sizes[(c->seed + round * 3) % SIZES];
                m.kind = round / 2 % 2 ? FERRY_READABLE : FERRY_WRITABLE;
                m.offered = region_make(m.passive_worker, m.size, m.kind == FERRY_READABLE ? seed : 0);
                m.local = region_make(m.active_worker, m.size, m.kind == FERRY_READABLE ? 0 : seed);
                offer_make(m.passive_worker, m.kind, m.offered, &m.passive);
                move_begin(&m);
                move_check(&m, seed - 1);
        }
        return NULL;
}

ON_PAIR(eight_clients_create_at_the_same_time)
{
        struct client_thread clients[THREADS];
        struct ferry_operation_list list;

        for (uint64_t i = 0; i < THREADS; i++) {
                clients[i] = (struct client_thread){ .a = p->a, .b = p->b, .seed = i + 1 };
                assert_int_equal(ferry_new(p->a.url, NULL, &clients[i].a.client), 0);
                assert_int_equal(ferry_new(p->b.url, NULL, &clients[i].b.client), 0);
                assert_int_equal(pthread_create(&clients[i].thread, NULL, create_and_move, &clients[i]), 0);
        }
        for (size_t i = 0; i < THREADS; i++) {
                assert_int_equal(pthread_join(clients[i].thread, NULL), 0);
                clients[i].a.client = ferry_free(clients[i].a.client);
                clients[i].b.client = ferry_free(clients[i].b.client);
        }
        assert_int_equal(ferry_list_operations(p->a.client, &(struct ferry_operation_query){ .limit = 1000 }, &list),
                         0);
        assert_int_equal(list.n, THREADS * ROUNDS);
        for (size_t i = 0; i < list.n; i++)
                assert_int_equal(list.items[i].status, FERRY_COMPLETE);
        ferry_operation_list_clear(&list);
}

/* malloc alone would keep it, below what is still in use. */
ON_WORKER(the_memory_of_many_connections_is_given_back)
{
        enum { CROWD = 900, CONNECTION_KB = 16 };
        static const char request[] = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
        uint64_t before_kb = worker_status_kb(w, "RssAnon");
        struct raw_answer answer;
        int fds[CROWD];

        for (size_t i = 0; i < CROWD; i++) {
                fds[i] = raw_begin(w, request);
                raw_receive(fds[i], false, &answer);
                assert_int_equal(answer.status, 200);
        }
        if (!SANITIZED) /* which has a malloc of its own */
                assert_true(worker_status_kb(w, "RssAnon") > before_kb + CROWD * CONNECTION_KB / 2);
        for (size_t i = 0; i < CROWD; i++)
                (void)close(fds[i]);
        if (!SANITIZED)
                WAIT_UNTIL(worker_status_kb(w, "RssAnon") < before_kb + CROWD * CONNECTION_KB / 2);
}
