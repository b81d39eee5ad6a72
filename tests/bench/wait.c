/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

/*
 * From the last byte to the answers of those who wait. Nobody of ours needs a processor in between: the byte is seen by
 * a watchpoint in the active worker, and the answers are stamped by the kernel as they are sent.
 */

static const char *const side_names[] = { "local", "network" };

/* What to add to CLOCK_MONOTONIC to get CLOCK_REALTIME. */
static int64_t clock_offset(void)
{
        struct timespec real;
        uint64_t before = now_ns(), after;

        (void)clock_gettime(CLOCK_REALTIME, &real);
        after = now_ns();
        return (int64_t)real.tv_sec * 1000000000 + real.tv_nsec - (int64_t)(before + (after - before) / 2);
}

struct latencies {
        double active_us, passive_us; /* from the last byte to the answer */
        double beyond_us;             /* of the POST's time, what is not the transfer: request, creation and answer */
};

static void wait_once(struct raw *r, struct http *waiter, struct probe *probe, struct latencies *ret_latencies)
{
        uint64_t written, posted;
        double beyond_us;

        raw_offer(r);
        http_send(waiter, "GET", r->wait_path, NULL);
        (void)probe_take(probe);
        posted = now_ns();
        http_send(&r->b, "POST", "/v1/operations", r->read);
        http_receive(&r->b);
        beyond_us = seconds_since(posted) * 1e6 - raw_number(&r->b, "duration_us");
        http_receive(waiter);
        raw_assert_complete(&r->b);
        raw_assert_complete(waiter);
        written = probe_take(probe) + (uint64_t)clock_offset();
        *ret_latencies = (struct latencies){
                .active_us = (double)(int64_t)(r->b.stamp_ns - written) / 1e3,
                .passive_us = (double)(int64_t)(waiter->stamp_ns - written) / 1e3,
                .beyond_us = beyond_us,
        };
}

/* Stamps begin a moment after they were asked for: a thread of the kernel's turns them on. */
static bool both_are_seen(struct raw *r, struct probe *probe)
{
        enum { TRIES = 200, PAUSE_US = 1000 };
        struct raw_timing t;

        for (int i = 0; i < TRIES; i++) {
                raw_cycle(r, &t);
                if (probe_take(probe) != 0 && r->b.stamp_ns != 0)
                        return true;
                (void)usleep(PAUSE_US);
        }
        return false;
}

/* false: the kernel does not let us look. */
static bool wait_pair(bool network)
{
        enum { N = 100, SIZE = 1 << 20 };
        double active[N], passive[N], beyond[N];
        struct raw_timing t;
        struct http waiter;
        struct probe probe;
        struct pair p;
        struct raw r;
        bool good;

        pair_start(&p, network, NULL);
        raw_open(&r, &p, SIZE);
        http_open(&waiter, p.a.url);
        for (int i = 0; i < 20; i++) /* before the probe: threads that start with the first transfer must be there */
                raw_cycle(&r, &t);
        http_stamp(&r.b);
        http_stamp(&waiter);
        good = probe_open(&probe, p.b.pid, r.at_b.info.path, SIZE - 8);
        if (good)
                good = both_are_seen(&r, &probe);
        for (int i = 0; good && i < N; i++) {
                struct latencies l;

                wait_once(&r, &waiter, &probe, &l);
                active[i] = l.active_us;
                passive[i] = l.passive_us;
                beyond[i] = l.beyond_us;
        }
        if (good) {
                sample("us", median(active, N), "wait.%s.active", side_names[network]);
                sample("us", median(passive, N), "wait.%s.passive", side_names[network]);
                sample("us", median(beyond, N), "wait.%s.beyond", side_names[network]);
                probe_close(&probe);
        }
        http_close(&waiter);
        raw_close(&r);
        pair_stop(&p);
        return good;
}

void bench_wait(void)
{
        unsigned n = rounds(7, 41);
        bool good = true;

        for (unsigned i = 0; good && i < n; i++) {
                begin_round("workers %u of %u", i + 1, n);
                for (int network = 0; good && network < 2; network++)
                        good = wait_pair(network);
        }
        if (!good)
                note("wait: left out: the kernel lets nobody watch memory here (CAP_PERFMON, or "
                     "kernel.perf_event_paranoid at most 1, and a processor with watchpoints)");
}
