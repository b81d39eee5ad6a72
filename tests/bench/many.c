/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "bench.h"

/* Many transfers at a time, and a small one beside a large one. */

static const char *const side_names[] = { "local", "network" };

/* ---- many at once ---- */

struct flight {
        char passive[FERRY_ID_SIZE], active[FERRY_ID_SIZE];
        uint64_t posted_ns; /* when the active operation's answer was here */
};

static void flight_prepare(struct pair *p, struct flight *f, const struct region *at_a, const struct region *at_b,
                           uint64_t offset, uint64_t size, char **ret_metadata)
{
        const struct ferry_descriptor from = { at_a->info.id, offset, size };
        struct ferry_operation_spec spec = { .kind = FERRY_READABLE, .descriptors = &from, .n_descriptors = 1 };
        struct ferry_operation o;

        spec.include_metadata = true;
        bench_check(p->a.client, ferry_create_operation(p->a.client, &spec, &o), "create the passive operation");
        (void)snprintf(f->passive, sizeof(f->passive), "%s", o.id);
        *ret_metadata = o.metadata;
        o.metadata = NULL;
        ferry_operation_clear(&o);
}

static void flight_post(struct pair *p, struct flight *f, const struct region *at_b, uint64_t offset, uint64_t size,
                        const char *metadata)
{
        const struct ferry_descriptor to = { at_b->info.id, offset, size };
        struct ferry_operation_spec spec = { .kind = FERRY_READ, .descriptors = &to, .n_descriptors = 1 };
        struct ferry_operation o;

        spec.remote_metadata = metadata;
        bench_check(p->b.client, ferry_create_operation(p->b.client, &spec, &o), "create the active operation");
        f->posted_ns = now_ns();
        (void)snprintf(f->active, sizeof(f->active), "%s", o.id);
        ferry_operation_clear(&o);
}

/* Seconds from the common start to the end of one flight. */
static double flight_end(struct pair *p, const struct flight *f, uint64_t start_ns)
{
        struct ferry_operation o;
        double seconds;

        bench_check(p->b.client, ferry_get_operation(p->b.client, f->active, 60000, 0, &o), "wait");
        if (o.status != FERRY_COMPLETE)
                bench_fail("%s is %s: %s", o.id, ferry_status_name(o.status), o.error_detail);
        seconds = ((double)f->posted_ns - (double)start_ns) / 1e9 + (double)o.duration_us / 1e6;
        ferry_operation_clear(&o);
        bench_check(p->a.client, ferry_get_operation(p->a.client, f->passive, 60000, 0, &o), "wait");
        ferry_operation_clear(&o);
        return seconds;
}

/*
 * n transfers that start at one moment: the passive worker is stopped while they are asked for. The wall time;
 * ret_rates (bytes a second of each) may be NULL.
 */
static double flights_run(struct pair *p, const struct region *at_a, const struct region *at_b, unsigned n,
                          uint64_t size, double *ret_rates)
{
        struct flight *flights = calloc(n, sizeof(*flights));
        char **metadata = calloc(n, sizeof(*metadata));
        double last = 0;
        uint64_t start;

        for (unsigned i = 0; i < n; i++)
                flight_prepare(p, &flights[i], at_a, at_b, i * size, size, &metadata[i]);
        (void)kill(p->a.pid, SIGSTOP);
        (void)waitpid(p->a.pid, NULL, WUNTRACED); /* until its last thread has stopped */
        for (unsigned i = 0; i < n; i++)
                flight_post(p, &flights[i], at_b, i * size, size, metadata[i]);
        start = now_ns();
        (void)kill(p->a.pid, SIGCONT);
        for (unsigned i = 0; i < n; i++) {
                double seconds = flight_end(p, &flights[i], start);

                last = seconds > last ? seconds : last;
                if (ret_rates)
                        ret_rates[i] = (double)size / seconds;
                ferry_secret_free(metadata[i]);
        }
        free(metadata);
        free(flights);
        return last;
}

void bench_many(void)
{
        enum { MANY = 64 };
        /* Several windows each, or the first comers take it all. */
        uint64_t size = (bench_full ? 32 : 24) * MIB, total = MANY * size;
        unsigned n = rounds(2, 15);

        for (int network = 0; network < 2; network++) {
                struct pair p;
                struct region at_a, at_b;
                double rates[MANY];

                pair_start(&p, network, NULL);
                region_create(p.a.client, total, &at_a);
                region_create(p.b.client, total, &at_b);
                (void)flights_run(&p, &at_a, &at_b, 1, total, NULL);
                for (unsigned i = 0; i < n; i++) {
                        double sum = 0, slowest;

                        begin_round("%s, round %u of %u", side_names[network], i + 1, n);
                        sample("GB/s", gigabytes_per_second(total, flights_run(&p, &at_a, &at_b, 1, total, NULL)),
                               "many.%s.alone", side_names[network]);
                        sample("GB/s", gigabytes_per_second(total, flights_run(&p, &at_a, &at_b, MANY, size, rates)),
                               "many.%s.together", side_names[network]);
                        slowest = rates[0];
                        for (int j = 0; j < MANY; j++) {
                                sum += rates[j];
                                slowest = rates[j] < slowest ? rates[j] : slowest;
                        }
                        sample("ratio", slowest / (sum / MANY), "many.%s.fairness", side_names[network]);
                }
                pair_stop(&p);
        }
}

/* ---- a small operation during a bulk transfer ---- */

struct background {
        struct ferry *a, *b;
        const struct region *at_a, *at_b;
        atomic_bool stop, moving;
};

static void *background_run(void *context)
{
        struct background *g = context;
        struct timing t;

        do {
                move_simple(g->a, g->b, FERRY_READABLE, g->at_a, g->at_b, g->at_a->info.size, &t);
                atomic_store(&g->moving, true);
        } while (!atomic_load(&g->stop));
        return NULL;
}

static void small_median(struct pair *p, const struct region *small_a, const struct region *small_b, const char *side,
                         const char *when)
{
        enum { N = 40 };
        double posts[N], cycles[N];

        for (int i = 0; i < N; i++) {
                struct timing t;

                move_simple(p->a.client, p->b.client, FERRY_READABLE, small_a, small_b, 4 * KIB, &t);
                posts[i] = t.post_s;
                cycles[i] = t.cycle_s;
        }
        sample("us", median(posts, N) * 1e6, "interference.%s.%s.operation", side, when);
        sample("us", median(cycles, N) * 1e6, "interference.%s.%s.cycle", side, when);
}

void bench_interference(void)
{
        unsigned n = rounds(3, 15);

        for (int network = 0; network < 2; network++) {
                const char *side = side_names[network];
                unsigned chunk_mib = network ? 4 : 1; /* as it is on the network by default; locally less */
                struct region big_a, big_b, small_a, small_b;
                struct background g = { .at_a = &big_a, .at_b = &big_b };
                struct pair p;

                pair_start(&p, network, NULL);
                g.a = worker_connect(&p.a);
                g.b = worker_connect(&p.b);
                region_create(p.a.client, 256 * MIB, &big_a);
                region_create(p.b.client, 256 * MIB, &big_b);
                region_create(p.a.client, 4 * KIB, &small_a);
                region_create(p.b.client, 4 * KIB, &small_b);
                for (unsigned i = 0; i < n; i++) {
                        pthread_t thread;
                        struct timing t;

                        begin_round("%s, round %u of %u", side, i + 1, n);
                        small_median(&p, &small_a, &small_b, side, "alone");
                        move_simple(g.a, g.b, FERRY_READABLE, &big_a, &big_b, 256 * MIB, &t);
                        sample("us", t.transfer_s * chunk_mib / 256 * 1e6, "interference.%s.chunk", side);
                        atomic_store(&g.stop, false);
                        atomic_store(&g.moving, false);
                        if (pthread_create(&thread, NULL, background_run, &g) != 0)
                                bench_fail("no thread");
                        while (!atomic_load(&g.moving)) /* the first of them is the warm-up */
                                move_simple(p.a.client, p.b.client, FERRY_READABLE, &small_a, &small_b, 4 * KIB, &t);
                        small_median(&p, &small_a, &small_b, side, "busy");
                        atomic_store(&g.stop, true);
                        (void)pthread_join(thread, NULL);
                }
                g.a = ferry_free(g.a);
                g.b = ferry_free(g.b);
                pair_stop(&p);
        }
}
