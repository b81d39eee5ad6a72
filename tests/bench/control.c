/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

/* The control plane, workers at rest and at their start, and how good our references are. */

enum { CONNECTIONS = 32 };

#define LOAD_S 0.5

static const char *const side_names[] = { "local", "network" };

/* ---- requests a second ---- */

/* By wrk, whose shortest run is a second, where it is installed; else by the load that create and delete get, too. */
static double get_rate(const char *url, const char *target, bool wrk)
{
        char address[512];
        const char *const command[] = { "wrk", "-t1", "-c32", "-d1s", address, NULL };
        static const char mark[] = "Requests/sec:";
        char *text, *found;
        double rate;

        if (!wrk)
                return http_load(url, CONNECTIONS, LOAD_S, target, NULL);
        (void)snprintf(address, sizeof(address), "%s%s", url, target);
        text = command_run(NULL, command);
        found = text ? strstr(text, mark) : NULL;
        if (!found || strstr(text, "Non-2xx"))
                bench_fail("wrk failed: %s", text ? text : "");
        rate = strtod(found + strlen(mark), NULL);
        free(text);
        return rate;
}

void bench_control(void)
{
        unsigned n = rounds(2, 15);
        bool wrk = command_exists("wrk");
        char body[256], path[128], url[256], id[FERRY_ID_SIZE];
        struct reference reference;
        struct region region;
        struct worker w;
        struct http h;

        if (!wrk)
                note("wrk is not installed: GET was measured with the benchmark's own load");
        worker_start(&w, NULL);
        region_create(w.client, 4 * KIB, &region);
        (void)snprintf(body, sizeof(body), "{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"%s\"}]}",
                       region.info.id);
        http_open(&h, w.url);
        http_call(&h, "POST", "/v1/operations", body, 201);
        http_take_id(&h, id);
        (void)snprintf(path, sizeof(path), "/v1/operations/%s", id);
        http_call(&h, "GET", path, NULL, 200);
        reference_start(&reference, "ref_http", (const char *const[]){ h.body, NULL });
        (void)snprintf(url, sizeof(url), "%s", reference_line(&reference));
        for (unsigned i = 0; i < n; i++) {
                begin_round("round %u of %u", i + 1, n);
                /* Where a server's threads find the connections and the cores differs from start to start of the load,
                   and makes both faster or slower by a fifth: two pairs a round, each with another one first. */
                sample("/s", get_rate(url, path, wrk), "control.get.bare");
                sample("/s", get_rate(w.url, path, wrk), "control.get");
                sample("/s", get_rate(w.url, path, wrk), "control.get");
                sample("/s", get_rate(url, path, wrk), "control.get.bare");
                sample("/s", http_load(url, CONNECTIONS, LOAD_S, path, NULL), "control.create_delete.bare");
                sample("/s", http_load(w.url, CONNECTIONS, LOAD_S, "/v1/operations", body), "control.create_delete");
        }
        http_close(&h);
        reference_stop(&reference);
        worker_stop(&w);
}

/* ---- at rest ---- */

/* Leaves an open endpoint, a passive operation that waits for its peer, and a parked wait on it. */
static void make_idle(struct pair *p, struct http *parked)
{
        struct region at_a, at_b;
        struct ferry_operation waiting;
        struct ferry_descriptor whole = { 0 };
        struct ferry_operation_spec spec = { .kind = FERRY_READABLE, .descriptors = &whole, .n_descriptors = 1 };
        struct timing t;
        char path[128];

        region_create(p->a.client, MIB, &at_a);
        region_create(p->b.client, MIB, &at_b);
        move_simple(p->a.client, p->b.client, FERRY_READABLE, &at_a, &at_b, MIB, &t);
        whole.region = at_a.info.id;
        bench_check(p->a.client, ferry_create_operation(p->a.client, &spec, &waiting), "create an operation");
        http_open(parked, p->a.url);
        (void)snprintf(path, sizeof(path), "/v1/operations/%s?wait_ms=60000", waiting.id);
        http_send(parked, "GET", path, NULL);
        ferry_operation_clear(&waiting);
}

void bench_idle(void)
{
        enum { QUIET_MS = 1000, IDLE_MS = 5000 };
        unsigned n = rounds(1, 3);
        struct http parked[2];
        struct pair pairs[2];

        for (int network = 0; network < 2; network++)
                pair_start(&pairs[network], network, NULL);
        for (unsigned i = 0; i < n; i++) {
                uint64_t before[2];

                begin_round("round %u of %u", i + 1, n);
                for (int network = 0; network < 2; network++)
                        make_idle(&pairs[network], &parked[network]);
                (void)poll(NULL, 0, QUIET_MS);
                for (int j = 0; j < 2; j++)
                        before[j] = process_cpu_ns(pairs[j].a.pid) + process_cpu_ns(pairs[j].b.pid);
                (void)poll(NULL, 0, IDLE_MS);
                for (int j = 0; j < 2; j++) {
                        uint64_t after = process_cpu_ns(pairs[j].a.pid) + process_cpu_ns(pairs[j].b.pid);

                        sample("ms", (double)(after - before[j]) / 1e6, "idle.%s.cpu", side_names[j]);
                        http_close(&parked[j]);
                }
        }
        for (int network = 1; network >= 0; network--)
                pair_stop(&pairs[network]);
}

/* ---- at the start ---- */

void bench_start(void)
{
        enum { LATER = 21 };
        unsigned n = rounds(5, 21);
        bool told = false;

        for (unsigned i = 0; i < n; i++) {
                begin_round("round %u of %u", i + 1, n);
                for (int network = 0; network < 2; network++) {
                        const char *side = side_names[network];
                        struct raw_timing t;
                        double later[LATER];
                        struct pair p;
                        struct raw r;

                        pair_start(&p, network, NULL);
                        sample("ms", p.a.start_s * 1e3, "start.%s.ready", side);
                        sample("ms", p.b.start_s * 1e3, "start.%s.ready", side);
                        sample("MiB", (double)process_resident_bytes(p.a.pid) / (double)MIB, "start.%s.resident", side);
                        sample("MiB", (double)process_anonymous_bytes(p.a.pid) / (double)MIB, "start.%s.own", side);
                        raw_open(&r, &p, 4 * KIB);
                        raw_cycle(&r, &t);
                        sample("us", t.transfer_s * 1e6, "start.%s.first", side);
                        told = t.connect_s >= 0;
                        if (told)
                                sample("us", t.connect_s * 1e6, "start.%s.connect", side);
                        for (int j = 0; j < LATER; j++) {
                                raw_cycle(&r, &t);
                                later[j] = t.transfer_s;
                        }
                        raw_close(&r);
                        sample("us", median(later, LATER) * 1e6, "start.%s.later", side);
                        pair_stop(&p);
                }
        }
        if (!told)
                note("start: operations do not tell connect_us here: left out");
}

/* ---- references of the references ---- */

/* GB/s that ucx_perftest measured, or 0 when it would not run. The last line's sixth column is MB/s (of 2^20), overall.
 */
static double perftest_rate(const char *test, const char *tls, uint64_t size, unsigned n)
{
        char size_text[32], n_text[16];
        const char *const server[] = { "ucx_perftest", "-p", "13337", NULL };
        const char *const client[] = { "ucx_perftest", "127.0.0.1", "-p",   "13337", "-t", test, "-s",
                                       size_text,      "-n",        n_text, "-w",    "4",  "-f", NULL };
        double overall = 0;
        char *text, *last;

        (void)snprintf(size_text, sizeof(size_text), "%llu", (unsigned long long)size);
        (void)snprintf(n_text, sizeof(n_text), "%u", n);
        (void)setenv("UCX_TLS", tls, 1);
        (void)setenv("UCX_WARN_UNUSED_ENV_VARS", "n", 1);
        text = command_run(server, client);
        (void)unsetenv("UCX_TLS");
        last = text ? strrchr(text, '|') : NULL; /* the frame of the heads, which -f prints, too */
        last = last ? strchr(last, '\n') : text;
        last = last && strchr(last, '+') ? strchr(strchr(last, '+'), '\n') : last;
        if (last)
                (void)sscanf(last, "%*f %*f %*f %*f %*f %lf", &overall);
        free(text);
        return overall * (double)MIB / 1e9;
}

static double iperf_rate(void)
{
        static const char *const server[] = { "iperf3", "-s", "-B", "127.0.0.1", NULL };
        static const char *const client[] = { "iperf3", "-c", "127.0.0.1", "-t", "1", "-J", NULL };
        static const char mark[] = "\"bits_per_second\":";
        char *text = command_run(server, client), *found = text ? strstr(text, "\"sum_received\"") : NULL;
        double rate;

        found = found ? strstr(found, mark) : NULL;
        rate = found ? strtod(found + strlen(mark), NULL) / 8e9 : 0;
        free(text);
        return rate;
}

static void sample_rate(double rate, const char *series)
{
        if (rate > 0)
                sample("GB/s", rate, "%s", series);
}

void bench_references(void)
{
        enum { SIZE = 256 << 20 };
        const char *const tcp[] = { "tcp", "268435456", NULL };
        struct reference ours_tcp, ours_get;
        bool perftest = command_exists("ucx_perftest"), iperf = command_exists("iperf3");
        unsigned n = rounds(1, 7);

        if (!perftest)
                note("ucx_perftest (package ucx-utils) is not installed: left out");
        if (!iperf)
                note("iperf3 is not installed: left out");
        if (perftest && perftest_rate("ucp_am_bw", "tcp", MIB, 10) <= 0) {
                note("ucx_perftest listens on every address and was left out: no network namespace could be made");
                perftest = iperf = false;
        }
        reference_start(&ours_tcp, "ref_rendezvous", tcp);
        reference_start(&ours_get, "ref_get", tcp);
        for (int i = 0; i < 2; i++) {
                (void)reference_run(&ours_tcp, SIZE);
                (void)reference_run(&ours_get, SIZE);
        }
        for (unsigned i = 0; i < n; i++) {
                begin_round("round %u of %u", i + 1, n);
                sample("GB/s", SIZE / reference_run(&ours_tcp, SIZE) / 1e9, "references.tcp");
                if (perftest)
                        sample_rate(perftest_rate("ucp_am_bw", "tcp", MIB, 256), "references.perftest.tcp");
                sample("GB/s", SIZE / reference_run(&ours_get, SIZE) / 1e9, "references.get");
                if (perftest)
                        sample_rate(perftest_rate("ucp_get", "tcp", SIZE, 3), "references.perftest.get");
                if (iperf)
                        sample_rate(iperf_rate(), "references.iperf3");
        }
        reference_stop(&ours_get);
        reference_stop(&ours_tcp);
}
