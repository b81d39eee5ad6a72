/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "bench.h"

/* What a worker costs: with few things and with many, in turn; with nothing to do; with a large region. */

/* ---- many live operations and parked waits ---- */

enum { FEW = 100, SLICE = 4096, REPEATS = 200, WAKES = 100 /* a round */ };

static const char *const crowd_names[] = { "few", "many" };

struct crowd {
        struct worker worker;
        struct http http;
        char body[256]; /* that creates an operation */
        size_t n;
        char (*ids)[FERRY_ID_SIZE];
        struct http *parked; /* n, or NULL */
};

static void crowd_create(struct crowd *c, size_t i)
{
        http_call(&c->http, "POST", "/v1/operations", c->body, 201);
        http_take_id(&c->http, c->ids[i]);
}

/* n operations are live then. Returns the worker's own memory of all but the first of them. */
static uint64_t crowd_open(struct crowd *c, size_t n)
{
        char operations[32], connections[32];
        const char *const flags[] = { "--max-operations",
                                      operations,
                                      "--max-connections",
                                      connections,
                                      "--max-waiters",
                                      connections,
                                      "--spin-us",
                                      "1",
                                      NULL };
        struct ferry_region region;
        uint64_t before = 0;

        (void)snprintf(operations, sizeof(operations), "%zu", 2 * n + 1000);  /* those that are over count, too */
        (void)snprintf(connections, sizeof(connections), "%zu", 2 * n + 100); /* one address has its share of them */
        *c = (struct crowd){ .n = n, .ids = calloc(n, sizeof(*c->ids)) };
        worker_start(&c->worker, flags);
        region_create(&c->worker, SLICE, &region);
        (void)snprintf(c->body, sizeof(c->body),
                       "{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"%s\",\"offset\":0,\"size\":%d}],"
                       "\"ttl_ms\":3600000}",
                       region.id, SLICE);
        http_open(&c->http, c->worker.url);
        for (size_t i = 0; i < n; i++) {
                if (i == FEW)
                        before = process_anonymous_bytes(c->worker.pid);
                crowd_create(c, i);
        }
        return process_anonymous_bytes(c->worker.pid) - before;
}

static void crowd_close(struct crowd *c)
{
        for (size_t i = 0; c->parked && i < c->n; i++)
                http_close(&c->parked[i]);
        http_close(&c->http);
        worker_stop(&c->worker);
        free(c->parked);
        free(c->ids);
}

/* Replaces an operation by a new one: the seconds of its creation. */
static double create_once(struct crowd *c, size_t i)
{
        char path[128];
        uint64_t start;

        (void)snprintf(path, sizeof(path), "/v1/operations/%s", c->ids[i % c->n]);
        http_call(&c->http, "DELETE", path, NULL, 204);
        start = now_ns();
        crowd_create(c, i % c->n);
        return seconds_since(start);
}

static void live_operations(size_t many, size_t n)
{
        struct crowd crowds[2];
        double seconds[2][REPEATS];

        (void)crowd_open(&crowds[0], FEW);
        sample("B", (double)crowd_open(&crowds[1], many) / (double)(many - FEW), "scale.memory.operation");
        for (size_t round = 0; round < n; round++) {
                begin_round("live operations, round %zu of %zu", round + 1, n);
                for (size_t i = 0; i < REPEATS; i++)
                        for (int c = 0; c < 2; c++)
                                seconds[c][i] = create_once(&crowds[c], round * REPEATS + i);
                for (int c = 0; c < 2; c++)
                        sample("us", median(seconds[c], REPEATS) * 1e6, "scale.create.%s", crowd_names[c]);
        }
        crowd_close(&crowds[1]);
        crowd_close(&crowds[0]);
}

static void park(struct crowd *c, size_t i)
{
        char path[128];

        (void)snprintf(path, sizeof(path), "/v1/operations/%s?wait_ms=60000", c->ids[i]);
        http_send(&c->parked[i], "GET", path, NULL);
}

/* All are parked when the worker's own gauge says so. */
static void await_parked(struct crowd *c)
{
        char wanted[64];
        uint64_t start = now_ns();

        (void)snprintf(wanted, sizeof(wanted), "\nferry_http_waiters %zu\n", c->n);
        do {
                http_call(&c->http, "GET", "/metrics", NULL, 200);
                if (seconds_since(start) > 20)
                        bench_fail("the worker does not hold %zu parked waits", c->n);
        } while (!strstr(c->http.body, wanted));
}

/*
 * A wait on each operation. Each connection has answered before it waits, as the kept-alive ones of clients have: the
 * first answer of all finds memory that nobody has touched yet, and the hundred's are not their first. Returns the
 * worker's own memory of all waits.
 */
static uint64_t crowd_park(struct crowd *c)
{
        uint64_t before = process_anonymous_bytes(c->worker.pid);

        c->parked = calloc(c->n, sizeof(*c->parked));
        for (size_t i = 0; i < c->n; i++) {
                http_open(&c->parked[i], c->worker.url);
                http_call(&c->parked[i], "GET", "/livez", NULL, 200);
                park(c, i);
        }
        await_parked(c);
        return process_anonymous_bytes(c->worker.pid) - before;
}

/* Cancels an operation: seconds until its waiter has the answer. Then another one is parked in its place. */
static double wake_once(struct crowd *c, size_t i)
{
        char path[128];
        uint64_t start;
        double seconds;

        (void)snprintf(path, sizeof(path), "/v1/operations/%s/cancel", c->ids[i]);
        start = now_ns();
        http_send(&c->http, "POST", path, "");
        http_receive(&c->parked[i]);
        seconds = seconds_since(start);
        http_receive(&c->http);
        if (!strstr(c->parked[i].body, "\"CANCELLED\""))
                bench_fail("a wait ended before its time: %.300s", c->parked[i].body);
        crowd_create(c, i);
        park(c, i);
        return seconds;
}

static void parked_waits(size_t many, size_t n)
{
        struct crowd crowds[2];
        double seconds[2][WAKES];

        (void)crowd_open(&crowds[0], FEW);
        (void)crowd_open(&crowds[1], many);
        (void)crowd_park(&crowds[0]);
        sample("B", (double)crowd_park(&crowds[1]) / (double)many, "scale.memory.wait");
        for (size_t round = 0; round < n; round++) {
                begin_round("parked waits, round %zu of %zu", round + 1, n);
                for (size_t i = 0; i < WAKES; i++)
                        for (int c = 0; c < 2; c++)
                                seconds[c][i] = wake_once(&crowds[c], (round * WAKES + i) % crowds[c].n);
                for (int c = 0; c < 2; c++)
                        sample("us", midmean(seconds[c], WAKES) * 1e6, "scale.wake.%s", crowd_names[c]);
        }
        crowd_close(&crowds[1]);
        crowd_close(&crowds[0]);
}

/* How many waits can be parked: each is an open file here, too. */
static size_t waits_allowed(size_t wanted)
{
        enum { OTHER_FILES = 200 };
        struct rlimit files;

        if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur >= wanted + OTHER_FILES)
                return wanted;
        if (files.rlim_cur < 2 * FEW + OTHER_FILES)
                bench_fail("only %llu open files are allowed: raise the hard limit (ulimit -Hn, LimitNOFILE=)",
                           (unsigned long long)files.rlim_cur);
        return files.rlim_cur - OTHER_FILES;
}

void bench_scale(void)
{
        size_t operations = quick_or_full(20000, 100000), waits = waits_allowed(quick_or_full(2000, 10000));
        size_t n = quick_or_full(5, 31);

        /*
         * On several processors, where the scheduler has put a worker's threads moves a round trip by more than what is
         * looked for here. On one, threads of both workers that look for more would take turns with who is measured, in
         * an order that lasts, and is another one in each run: hence --spin-us above.
         */
        share_one_processor();
        note("scale: %zu live operations, %zu parked waits against %d of each", operations, waits, FEW);
        live_operations(operations, n);
        parked_waits(waits, n);
}

/* ---- nothing to do ---- */

/* Leaves an open endpoint, a passive operation that waits for its peer, and a parked wait on it. */
static void make_idle(struct pair *p, struct http *parked)
{
        const struct ferry_descriptor whole = { .region = p->at_a.id };
        struct ferry_operation_spec spec = { .kind = FERRY_READABLE, .descriptors = &whole, .n_descriptors = 1 };
        struct ferry_operation waiting;
        char path[128];

        (void)pair_move(p, FERRY_READABLE, MIB);
        bench_check(p->a.client, ferry_create_operation(p->a.client, &spec, &waiting), "create an operation");
        http_open(parked, p->a.url);
        (void)snprintf(path, sizeof(path), "/v1/operations/%s?wait_ms=60000", waiting.id);
        http_send(parked, "GET", path, NULL);
        ferry_operation_clear(&waiting);
}

static uint64_t pair_cpu_ns(const struct pair *p)
{
        return process_cpu_ns(p->a.pid) + process_cpu_ns(p->b.pid);
}

void bench_idle(void)
{
        enum { QUIET_MS = 1000, IDLE_MS = 5000 };
        size_t n = quick_or_full(1, 3);
        struct http parked[2];
        struct pair pairs[2];
        struct worker fresh;

        worker_start(&fresh, NULL);
        sample("MiB", (double)process_resident_bytes(fresh.pid) / (double)MIB, "idle.resident");
        sample("MiB", (double)process_anonymous_bytes(fresh.pid) / (double)MIB, "idle.own");
        worker_stop(&fresh);
        for (int network = 0; network < 2; network++)
                pair_start(&pairs[network], network, NULL, MIB);
        for (size_t i = 0; i < n; i++) {
                uint64_t before[2];

                begin_round("round %zu of %zu", i + 1, n);
                for (int network = 0; network < 2; network++)
                        make_idle(&pairs[network], &parked[network]);
                (void)poll(NULL, 0, QUIET_MS);
                for (int j = 0; j < 2; j++)
                        before[j] = pair_cpu_ns(&pairs[j]);
                (void)poll(NULL, 0, IDLE_MS);
                for (int j = 0; j < 2; j++) {
                        sample("ms", (double)(pair_cpu_ns(&pairs[j]) - before[j]) / 1e6, "idle.%s.cpu",
                               transport_names[j]);
                        http_close(&parked[j]);
                }
        }
        for (int network = 1; network >= 0; network--)
                pair_stop(&pairs[network]);
}

/* ---- a large region, beside bare page faults ---- */

/*
 * A virtual machine's host takes free memory back and gives it again at
 * its first touch, ten times slower than memory that it has left there; which of both a program gets is chance. So a
 * round's figures are the quickest of some.
 */

enum { TRIES = 3 };

static void region_delete(struct worker *w, const struct ferry_region *region)
{
        bench_check(w->client, ferry_delete_region(w->client, region->id), "delete the region");
}

/* Seconds. Returns when the memory is free again: the small region has to wait for that. */
static double make_once(struct worker *w, uint64_t size)
{
        struct ferry_region large, small;
        uint64_t start = now_ns();
        double seconds;

        region_create(w, size, &large);
        seconds = seconds_since(start);
        region_delete(w, &large);
        region_create(w, MIB, &small);
        region_delete(w, &small);
        return seconds;
}

void bench_regions(void)
{
        uint64_t size = size_that_fits(quick_or_full(GIB, 8 * GIB), 1.5);
        size_t n = quick_or_full(3, 5);
        struct reference bare;
        struct worker w;
        char limit[32];

        (void)snprintf(limit, sizeof(limit), "%llu", (unsigned long long)size);
        worker_start(&w, (const char *const[]){ "--memory-limit", limit, NULL });
        reference_start(&bare, "ref_memory", (const char *const[]){ "populate", NULL });
        for (size_t i = 0; i < n; i++) {
                double bare_s = 0, made_s = 0;

                begin_round("round %zu of %zu", i + 1, n);
                for (int try = 0; try < TRIES; try++) {
                        double bare_once = reference_run(&bare, size), made_once = make_once(&w, size);

                        bare_s = try == 0 || bare_once < bare_s ? bare_once : bare_s;
                        made_s = try == 0 || made_once < made_s ? made_once : made_s;
                }
                sample("GB/s", gigabytes_per_second(size, bare_s), "regions.populate");
                sample("GB/s", gigabytes_per_second(size, made_s), "regions.make");
        }
        reference_stop(&bare);
        worker_stop(&w);
}
