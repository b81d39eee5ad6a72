/* SPDX-License-Identifier: Apache-2.0 */

#include <stdlib.h>
#include <string.h>

#include "bench.h"

/*
 * Three calls (create a readable with its metadata, read it with Prefer: wait, wait for the readable) beside GET
 * /livez.
 *
 * A core that has slept answers late, so that a GET right after another to the same process costs less than one after a
 * call to another. Hence each /livez of the comparison is one of three in the rhythm of the cycle, on the same
 * connections: the passive worker, the active one, the passive one again. A row of such triples comes before a row of
 * cycles. Between cycles a /livez is cheaper than in a row of its own, because data planes that look for more keep the
 * cores awake: that is measured as well, for information.
 */

/* Of series, by whether there is one processor for all, and by the side. */
static const char *const side_names[2][2] = { { "local", "network" }, { "one.local", "one.network" } };

enum { CALLS = 3, REPEATS = 100 };

static double livez_seconds(struct ferry *a, struct ferry *b)
{
        struct ferry *const turns[CALLS] = { a, b, a };
        uint64_t start = now_ns();

        for (int i = 0; i < CALLS; i++)
                bench_check(turns[i], ferry_get_livez(turns[i]), "GET /livez");
        return seconds_since(start) / CALLS;
}

static double raw_livez_seconds(struct raw *r)
{
        struct http *const turns[CALLS] = { &r->a, &r->b, &r->a };
        uint64_t start = now_ns();

        for (int i = 0; i < CALLS; i++)
                http_call(turns[i], "GET", "/livez", NULL, 200);
        return seconds_since(start) / CALLS;
}

static void sample_median(double *seconds, const char *side, const char *what)
{
        sample("us", median(seconds, REPEATS) * 1e6, "small.%s.%s", side, what);
}

static void library_round(struct raw *r, const struct pair *p, const char *side)
{
        double livez[REPEATS], cycle[REPEATS], transfer[REPEATS];

        for (int i = 0; i < REPEATS; i++)
                livez[i] = livez_seconds(p->a.client, p->b.client);
        for (int i = 0; i < REPEATS; i++) {
                struct timing t;

                move_simple(p->a.client, p->b.client, FERRY_READABLE, &r->at_a, &r->at_b, r->at_a.info.size, &t);
                cycle[i] = t.cycle_s;
                transfer[i] = t.transfer_s;
        }
        sample_median(livez, side, "livez");
        sample_median(cycle, side, "cycle");
        sample_median(transfer, side, "transfer");
}

static void raw_round(struct raw *r, const char *side)
{
        double livez[REPEATS], cycle[REPEATS], offer[REPEATS], read[REPEATS], wait[REPEATS], between[REPEATS];
        struct raw_timing t;

        for (int i = 0; i < REPEATS; i++)
                livez[i] = raw_livez_seconds(r);
        for (int i = 0; i < REPEATS; i++) {
                raw_cycle(r, &t);
                cycle[i] = t.cycle_s;
                offer[i] = t.offer_s;
                read[i] = t.read_s;
                wait[i] = t.wait_s;
        }
        for (int i = 0; i < REPEATS; i++) {
                raw_cycle(r, &t);
                between[i] = raw_livez_seconds(r);
        }
        sample_median(between, side, "raw_between");
        sample_median(livez, side, "raw_livez");
        sample_median(cycle, side, "raw_cycle");
        sample_median(offer, side, "raw_offer");
        sample_median(read, side, "raw_read");
        sample_median(wait, side, "raw_wait");
}

/* ---- the same three calls on nothing but the libraries ---- */

static char *copy_body(const struct http *h)
{
        char *copy = strdup(h->body);

        if (!copy)
                bench_fail("out of memory");
        return copy;
}

/* ref_calls answers what the workers did, byte by byte, so that its client does the same work. */
static void bare_start(struct reference *reference, struct raw *r, bool network)
{
        const char *arguments[] = { network ? "tcp" : "socket", "4096", NULL, NULL, NULL, NULL };
        char *offer, *read, *wait;

        raw_offer(r);
        offer = copy_body(&r->a);
        http_call(&r->b, "POST", "/v1/operations", r->read, 201);
        read = copy_body(&r->b);
        http_call(&r->a, "GET", r->wait_path, NULL, 200);
        wait = copy_body(&r->a);
        arguments[2] = offer;
        arguments[3] = read;
        arguments[4] = wait;
        reference_start(reference, "ref_calls", arguments);
        free(offer);
        free(read);
        free(wait);
}

/* What the calls go to: the passive one tells its URL before they connect, the active one as well, in any order. */
static void bare_urls(struct reference *reference, struct worker *a, struct worker *b)
{
        static const char active[] = "active ";

        for (int i = 0; i < 2; i++) {
                const char *line = reference_line(reference);
                struct worker *w = strncmp(line, active, strlen(active)) == 0 ? b : a;

                (void)snprintf(w->url, sizeof(w->url), "%s", strchr(line, ' ') + 1);
        }
}

static void bare_raw(struct raw *bare, const char *side)
{
        double cycle[REPEATS], read[REPEATS];
        struct raw_timing t;

        for (int i = -REPEATS; i < REPEATS; i++) {
                raw_cycle(bare, &t);
                if (i < 0)
                        continue;
                cycle[i] = t.cycle_s;
                read[i] = t.read_s;
        }
        sample_median(cycle, side, "bare_cycle");
        sample_median(read, side, "bare_read");
}

static void bare_library(const struct raw *r, const struct worker *a, const struct worker *b, const char *side)
{
        struct ferry *at_a = worker_connect(a), *at_b = worker_connect(b);
        double cycle[REPEATS];
        struct timing t;

        for (int i = -REPEATS; i < REPEATS; i++) {
                move_simple(at_a, at_b, FERRY_READABLE, &r->at_a, &r->at_b, r->at_a.info.size, &t);
                if (i >= 0)
                        cycle[i] = t.cycle_s;
        }
        sample_median(cycle, side, "bare_library_cycle");
        (void)ferry_free(at_a);
        (void)ferry_free(at_b);
}

static void bare_round(struct raw *r, bool network, const char *side)
{
        struct raw bare = *r; /* its bodies, until they are made anew */
        struct worker a = { 0 }, b = { 0 };
        struct reference reference;

        bare.offer = bare.read = NULL;
        raw_describe(&bare, NULL, NULL);
        bare_start(&reference, r, network);
        bare_urls(&reference, &a, &b);
        http_open(&bare.a, a.url);
        http_open(&bare.b, b.url);
        bare.b.prefer_wait = true;
        reference_begin(&reference, 4 * KIB);
        bare_raw(&bare, side);
        bare_library(r, &a, &b, side);
        http_call(&bare.b, "DELETE", "/", NULL, 200);
        (void)reference_line(&reference);
        raw_close(&bare);
        reference_stop(&reference);
}

static void small_pair(bool network, const char *side)
{
        struct raw_timing t;
        struct timing warm;
        struct pair p;
        struct raw r;

        pair_start(&p, network, NULL);
        raw_open(&r, &p, 4 * KIB);
        for (int i = 0; i < REPEATS; i++) {
                raw_cycle(&r, &t);
                (void)raw_livez_seconds(&r);
                move_simple(p.a.client, p.b.client, FERRY_READABLE, &r.at_a, &r.at_b, 4 * KIB, &warm);
                (void)livez_seconds(p.a.client, p.b.client);
        }
        raw_round(&r, side);
        bare_round(&r, network, side);
        library_round(&r, &p, side);
        raw_close(&r);
        pair_stop(&p);
}

static void small_rounds(unsigned n, bool one_processor)
{
        for (unsigned i = 0; i < n; i++) {
                begin_round("workers %u of %u%s", i + 1, n, one_processor ? ", on one processor" : "");
                for (int network = 0; network < 2; network++)
                        small_pair(network, side_names[one_processor][network]);
        }
}

/*
 * Which threads share a processor decides much about times of this size, and stays as it fell when the workers started:
 * so new ones are started again and again. On one processor there is nothing to decide and none that has to wake up:
 * what is computed is all.
 */
void bench_small(void)
{
        small_rounds(rounds(5, 41), false);
        share_one_processor();
        small_rounds(rounds(2, 9), true);
}
