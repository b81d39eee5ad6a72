/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "bench.h"

/* The same work in a worker with few things and in one with many, in turn. */

enum { FEW = 100, SLICE = 4096 };

struct crowd {
        struct worker worker;
        struct reference bare; /* instead of the worker, when its pid is not 0 */
        struct http http;
        char body[256]; /* that creates an operation */
        size_t n;
        char (*ids)[FERRY_ID_SIZE];
        struct http *parked; /* n, or NULL */
};

static void crowd_create(struct crowd *c, size_t i)
{
        if (c->bare.pid) {
                (void)snprintf(c->ids[i], sizeof(c->ids[i]), "%zu", i);
                return;
        }
        http_call(&c->http, "POST", "/v1/operations", c->body, 201);
        http_take_id(&c->http, c->ids[i]);
}

static void crowd_open(struct crowd *c, size_t n)
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
        struct region region;

        (void)snprintf(operations, sizeof(operations), "%zu", 2 * n + 1000); /* those that are over count, too */
        (void)snprintf(connections, sizeof(connections), "%zu", n + 100);
        *c = (struct crowd){ .n = n, .ids = calloc(n, sizeof(*c->ids)) };
        worker_start(&c->worker, flags);
        region_create(c->worker.client, SLICE, &region);
        (void)snprintf(c->body, sizeof(c->body),
                       "{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"%s\",\"offset\":0,\"size\":%d}],"
                       "\"ttl_ms\":3600000}",
                       region.info.id, SLICE);
        http_open(&c->http, c->worker.url);
}

/* A bare server of n waits. */
static void crowd_open_bare(struct crowd *c, size_t n)
{
        char text[32];

        (void)snprintf(text, sizeof(text), "%zu", n);
        *c = (struct crowd){ .n = n, .ids = calloc(n, sizeof(*c->ids)) };
        reference_start(&c->bare, "ref_wake", (const char *const[]){ text, NULL });
        (void)snprintf(c->worker.url, sizeof(c->worker.url), "%s", reference_line(&c->bare));
        http_open(&c->http, c->worker.url);
}

static void crowd_fill(struct crowd *c)
{
        uint64_t before = 0;

        for (size_t i = 0; i < c->n; i++) {
                if (i == FEW)
                        before = process_anonymous_bytes(c->worker.pid);
                crowd_create(c, i);
        }
        if (c->n > FEW)
                sample("B", (double)(process_anonymous_bytes(c->worker.pid) - before) / (double)(c->n - FEW),
                       "scale.memory.operation");
}

static void crowd_close(struct crowd *c)
{
        for (size_t i = 0; c->parked && i < c->n; i++)
                http_close(&c->parked[i]);
        http_close(&c->http);
        if (c->bare.pid)
                reference_stop(&c->bare);
        else
                worker_stop(&c->worker);
        free(c->parked);
        free(c->ids);
}

/* ---- live operations ---- */

/* Replaces some operation by a new one, and looks some other up. */
static void operation_once(struct crowd *c, size_t i, double ret_s[3])
{
        char path[128];
        uint64_t start;

        (void)snprintf(path, sizeof(path), "/v1/operations/%s", c->ids[(i * 7919 + 13) % c->n]);
        start = now_ns();
        http_call(&c->http, "GET", path, NULL, 200);
        ret_s[0] = seconds_since(start);
        (void)snprintf(path, sizeof(path), "/v1/operations/%s", c->ids[i % c->n]);
        start = now_ns();
        http_call(&c->http, "DELETE", path, NULL, 204);
        ret_s[1] = seconds_since(start);
        start = now_ns();
        crowd_create(c, i % c->n);
        ret_s[2] = seconds_since(start);
}

static void live_operations(size_t many, unsigned n)
{
        enum { N = 200 };
        static const char *const verbs[] = { "find", "delete", "create" };
        static const char *const sizes[] = { "few", "many" };
        struct crowd crowds[2];
        double seconds[2][3][N];

        crowd_open(&crowds[0], FEW);
        crowd_open(&crowds[1], many);
        progress("%zu operations", many);
        crowd_fill(&crowds[0]);
        crowd_fill(&crowds[1]);
        for (unsigned round = 0; round < n; round++) {
                begin_round("live operations, round %u of %u", round + 1, n);
                for (size_t i = 0; i < N; i++) {
                        for (int c = 0; c < 2; c++) {
                                double s[3];

                                operation_once(&crowds[c], round * N + i, s);
                                for (int v = 0; v < 3; v++)
                                        seconds[c][v][i] = s[v];
                        }
                }
                for (int c = 0; c < 2; c++)
                        for (int v = 0; v < 3; v++)
                                sample("us", median(seconds[c][v], N) * 1e6, "scale.%s.%s", verbs[v], sizes[c]);
        }
        crowd_close(&crowds[1]);
        crowd_close(&crowds[0]);
}

/* ---- parked waits ---- */

static void park(struct crowd *c, size_t i)
{
        char path[128];

        (void)snprintf(path, sizeof(path), "/v1/operations/%s?wait_ms=60000", c->ids[i]);
        http_send(&c->parked[i], "GET", path, NULL);
}

/*
 * All of a worker's parked requests are in when it has answered a later one on each of its threads; its own gauge says
 * so for sure.
 */
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
 * Each connection has answered before it waits, as the kept-alive ones of clients have: the first answer of all finds
 * memory that nobody has touched yet, and the hundred's are not their first.
 */
static void crowd_park(struct crowd *c)
{
        uint64_t before;

        c->parked = calloc(c->n, sizeof(*c->parked));
        for (size_t i = 0; i < c->n; i++)
                crowd_create(c, i);
        before = c->bare.pid ? 0 : process_anonymous_bytes(c->worker.pid);
        for (size_t i = 0; i < c->n; i++) {
                http_open(&c->parked[i], c->worker.url);
                http_call(&c->parked[i], "GET", "/livez", NULL, 200);
                park(c, i);
        }
        await_parked(c);
        if (c->n > FEW && !c->bare.pid)
                sample("B", (double)(process_anonymous_bytes(c->worker.pid) - before) / (double)c->n,
                       "scale.memory.wait");
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

/* A worker, or a bare server. */
static void crowd_open_parked(struct crowd *c, size_t n, bool bare)
{
        if (bare)
                crowd_open_bare(c, n);
        else
                crowd_open(c, n);
        crowd_park(c);
}

enum { WAKES = 100 }; /* a round */

/* Wakes one after the other in either worker, in turn; those of the second worker from first on. */
static void wake_in_turn(struct crowd crowds[2], size_t first, double ret_few_s[], double ret_many_s[])
{
        for (size_t i = 0; i < WAKES; i++) {
                ret_few_s[i] = wake_once(&crowds[0], i % FEW);
                ret_many_s[i] = wake_once(&crowds[1], first + i);
        }
}

/*
 * Each of the many is woken once, long after it was parked, and each of the hundred was woken a moment before: so some
 * of the former is in no cache any more, in the kernel as well. Hence the same of a bare server, and a hundred of the
 * many, woken over and over.
 */
static void parked_waits(size_t many, unsigned n, bool bare)
{
        const char *series = bare ? "scale.wake.bare" : "scale.wake", *of = bare ? " of a bare server" : "";
        struct crowd crowds[2];
        /* Of two kinds: the waiter's thread is the canceller's, or it is not. */
        double few_s[WAKES], many_s[WAKES], again_s[WAKES];

        progress("%zu parked waits%s", many, of);
        crowd_open_parked(&crowds[0], FEW, bare);
        crowd_open_parked(&crowds[1], many, bare);
        for (unsigned round = 0; round < n; round++) {
                begin_round("parked waits%s, round %u of %u", of, round + 1, n);
                wake_in_turn(crowds, 0, few_s, again_s);
                sample("us", midmean(few_s, WAKES) * 1e6, "%s.few_again", series);
                sample("us", midmean(again_s, WAKES) * 1e6, "%s.again", series);
                wake_in_turn(crowds, (1 + round % (many / WAKES - 1)) * WAKES, few_s, many_s);
                sample("us", midmean(few_s, WAKES) * 1e6, "%s.few", series);
                sample("us", midmean(many_s, WAKES) * 1e6, "%s.many", series);
        }
        crowd_close(&crowds[1]);
        crowd_close(&crowds[0]);
}

/* How many waits can be parked: each is an open file here, too. */
static size_t waits_allowed(size_t wanted)
{
        enum { OTHER_FILES = 200 };
        struct rlimit files;
        size_t allowed;

        if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur >= wanted + OTHER_FILES)
                return wanted;
        if (files.rlim_cur < 2 * FEW + OTHER_FILES)
                bench_fail("only %llu open files are allowed: raise the hard limit (ulimit -Hn, LimitNOFILE=)",
                           (unsigned long long)files.rlim_cur);
        allowed = files.rlim_cur - OTHER_FILES;
        note("scale: %zu parked waits instead of %zu: only %llu open files are allowed; raise the hard limit (ulimit "
             "-Hn, LimitNOFILE=)",
             allowed, wanted, (unsigned long long)files.rlim_cur);
        return allowed;
}

void bench_scale(void)
{
        size_t operations = bench_full ? 100000 : 20000, waits = waits_allowed(bench_full ? 10000 : 2000);

        /*
         * On several processors, where the scheduler has put a worker's threads moves a round trip by more than what is
         * looked for here. On one, threads of both workers that look for more would take turns with who is measured, in
         * an order that lasts, and is another one in each run: hence --spin-us above.
         */
        share_one_processor();
        note("scale: %zu live operations, %zu parked waits against %d of each", operations, waits, FEW);
        live_operations(operations, rounds(5, 31));
        parked_waits(waits, rounds(5, 31), false);
        parked_waits(waits, rounds(5, 31), true);
}
