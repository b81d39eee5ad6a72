/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

/*
 * 4 KiB on one host. Which threads share a processor decides much about times of this size, and stays as it fell when
 * the programs started: so new ones are started in each round.
 */

enum { SIZE = 4096 };

/* ---- the bytes alone, beside a bare Unix socket ---- */

/*
 * Both ends of the reference look for the next message all the time. So do these workers: what waking a core costs is
 * the host's, and is in the lines of whole calls.
 */
static const char *const never_asleep[] = { "--spin-us", "5000", NULL };

void bench_bytes(void)
{
        static const enum ferry_kind passives[] = { FERRY_READABLE, FERRY_WRITABLE };
        static const char *const names[] = { "read", "write" };
        enum { REPEATS = 400 };
        size_t n = quick_or_full(5, 21);
        double seconds[2][REPEATS];

        for (size_t i = 0; i < n; i++) {
                struct reference socket;
                struct pair p;

                begin_round("workers %zu of %zu", i + 1, n);
                pair_start(&p, false, never_asleep, SIZE);
                reference_start(&socket, "ref_pair", (const char *const[]){ "socket", "4096", NULL });
                (void)reference_run(&socket, SIZE);
                for (int j = -REPEATS / 4; j < REPEATS; j++)
                        for (int d = 0; d < 2; d++)
                                seconds[d][j < 0 ? 0 : j] = pair_move(&p, passives[d], SIZE).transfer_s;
                /* duration_us is a whole number: a mean tells more of it than a median. */
                for (int d = 0; d < 2; d++)
                        sample("us", midmean(seconds[d], REPEATS) * 1e6, "bytes.%s", names[d]);
                sample("us", reference_run(&socket, SIZE) * 1e6, "bytes.socket");
                reference_stop(&socket);
                pair_stop(&p);
        }
}

/* ---- three calls ---- */

/*
 * The three calls of a transfer: by libferry beside bare libcurl and json-c, which call the same workers in turn; and
 * by raw sockets beside two processes of a bare libmicrohttpd, which pass the documents that the workers gave.
 */

enum { CALLS = 100 };

static void sample_median(double *seconds, const char *series)
{
        sample("us", median(seconds, CALLS) * 1e6, "small.%s", series);
}

static void library_round(struct pair *p)
{
        double bare_s[CALLS], ferry_s[CALLS];
        struct bare *bare = bare_new(p);

        for (int i = -CALLS / 2; i < CALLS; i++) {
                bare_s[i < 0 ? 0 : i] = bare_move(bare).cycle_s;
                ferry_s[i < 0 ? 0 : i] = pair_move(p, FERRY_READABLE, SIZE).cycle_s;
        }
        bare = bare_free(bare);
        sample_median(bare_s, "libcurl");
        sample_median(ferry_s, "libferry");
}

static void raw_row(struct raw *r, const char *series)
{
        double seconds[CALLS];

        for (int i = -CALLS; i < CALLS; i++)
                seconds[i < 0 ? 0 : i] = raw_move(r).cycle_s;
        sample_median(seconds, series);
}

/* The workers' answers to the three calls, for free(). */
static void take_answers(struct raw *r, char *ret_answers[3])
{
        raw_offer(r);
        ret_answers[0] = strdup(r->a.body);
        http_call(&r->b, "POST", "/v1/operations", r->read, 201);
        ret_answers[1] = strdup(r->b.body);
        http_call(&r->a, "GET", r->wait_path, NULL, 200);
        ret_answers[2] = strdup(r->a.body);
}

static void raw_round(struct pair *p)
{
        char *at_a = raw_whole(&p->at_a), *at_b = raw_whole(&p->at_b), *answers[3], url_a[128], url_b[128];
        struct reference server;
        struct raw ours, bare;

        raw_open(&ours, p->a.url, p->b.url);
        raw_describe(&ours, at_a, at_b);
        raw_row(&ours, "worker");
        take_answers(&ours, answers);
        reference_start(&server, "ref_http",
                        (const char *const[]){ "calls", answers[0], answers[1], answers[2], NULL });
        (void)snprintf(url_a, sizeof(url_a), "%s", reference_line(&server));
        (void)snprintf(url_b, sizeof(url_b), "%s", reference_line(&server));
        raw_open(&bare, url_a, url_b);
        raw_describe(&bare, at_a, at_b);
        raw_row(&bare, "libmicrohttpd");
        raw_close(&bare);
        raw_close(&ours);
        reference_stop(&server);
        for (int i = 0; i < 3; i++)
                free(answers[i]);
        free(at_a);
        free(at_b);
}

void bench_small(void)
{
        size_t n = quick_or_full(5, 41);

        for (size_t i = 0; i < n; i++) {
                struct pair p;

                begin_round("workers %zu of %zu", i + 1, n);
                pair_start(&p, false, NULL, SIZE);
                library_round(&p);
                raw_round(&p);
                pair_stop(&p);
        }
}

/* ---- between programs with a worker inside ---- */

/* No HTTP: from create to both ends seen. */
enum { TRANSFERS = 200, BULK = 256 << 20 };

static void measure(struct reference *program, const char *series)
{
        double seconds[TRANSFERS];

        (void)reference_run(program, SIZE); /* connects */
        for (int i = 0; i < TRANSFERS; i++)
                seconds[i] = reference_run(program, SIZE);
        sample("us", median(seconds, TRANSFERS) * 1e6, "%s", series);
}

static void measure_new(const char *name, const char *const *arguments, const char *series)
{
        struct reference program;

        reference_start(&program, name, arguments);
        measure(&program, series);
        reference_stop(&program);
}

void bench_inside(void)
{
        static const char *const python[] = { FERRY_PYTHON_MODULE, FERRY_WORKER_LIBRARY, NULL };
        size_t n = quick_or_full(5, 21);

        for (size_t i = 0; i < n; i++) {
                begin_round("round %zu of %zu", i + 1, n);
                measure_new("sim_inside", NULL, "inside.c");
                measure_new("sim_asyncio", python, "inside.asyncio");
        }
}

/* ---- beside NIXL ---- */

/*
 * From making the operation to both ends knowing of its end. Both ends of NIXL poll meanwhile. 4 KiB between programs
 * that have their worker inside, as NIXL has its agent; 256 MiB through REST.
 */
static void nixl_rounds(struct reference *nixl)
{
        size_t n = quick_or_full(3, 15);
        struct pair p;

        pair_start(&p, false, NULL, BULK);
        for (size_t i = 0; i <= n; i++) {
                double theirs_s = reference_run(nixl, BULK), ours_s = pair_move(&p, FERRY_READABLE, BULK).cycle_s;

                if (i == 0) /* connects */
                        continue;
                begin_round("round %zu of %zu", i, n);
                sample("GB/s", gigabytes_per_second(BULK, ours_s), "nixl.bulk.ours");
                sample("GB/s", gigabytes_per_second(BULK, theirs_s), "nixl.bulk.theirs");
                measure_new("sim_inside", NULL, "nixl.small.ours");
                measure(nixl, "nixl.small.theirs");
        }
        pair_stop(&p);
}

void bench_nixl(void)
{
        struct reference nixl;

        reference_start(&nixl, "ref_nixl", (const char *const[]){ "268435456", NULL });
        if (strcmp(reference_line(&nixl), "ready") == 0)
                nixl_rounds(&nixl);
        else
                note("nixl: the wheel nixl does not start for python3: left out");
        reference_stop(&nixl);
}
