/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"

/* Times of small things. A sample is the median of a round's repeats. */

static const char *const side_names[] = { "local", "network" };

/* ---- three calls ---- */

static double livez_seconds(struct ferry *f)
{
        uint64_t start = now_ns();

        bench_check(f, ferry_get_livez(f), "GET /livez");
        return seconds_since(start);
}

static double raw_livez_seconds(struct http *h)
{
        uint64_t start = now_ns();

        http_call(h, "GET", "/livez", NULL, 200);
        return seconds_since(start);
}

/* The metadata object in an answer; keys and strings in it have no braces. */
static void take_metadata(const struct http *h, char *ret_text, size_t size)
{
        static const char mark[] = "\"metadata\":";
        const char *from = strstr(h->body, mark), *to;
        int depth = 0;

        if (!from)
                bench_fail("no metadata in %.200s", h->body);
        from += strlen(mark);
        for (to = from; *to; to++) {
                depth += *to == '{' ? 1 : *to == '}' ? -1 : 0;
                if (depth == 0)
                        break;
        }
        if ((size_t)(to + 2 - from) > size)
                bench_fail("large metadata");
        (void)snprintf(ret_text, size, "%.*s", (int)(to + 1 - from), from);
}

/* Creates a readable of all of region; ret_body is what the other worker is to be told to read it. */
static void raw_offer(struct http *a, const struct region *at_a, const struct region *at_b, char ret_id[FERRY_ID_SIZE],
                      char *ret_body, size_t size)
{
        char body[256], metadata[2048];

        (void)snprintf(body, sizeof(body), "{\"kind\":\"readable\",\"descriptors\":[{\"region\":\"%s\"}]}",
                       at_a->info.id);
        http_call(a, "POST", "/v1/operations?include=metadata", body, 201);
        http_take_id(a, ret_id);
        take_metadata(a, metadata, sizeof(metadata));
        (void)snprintf(ret_body, size,
                       "{\"kind\":\"read\",\"descriptors\":[{\"region\":\"%s\"}],\"remote_metadata\":%s}",
                       at_b->info.id, metadata);
}

static void assert_complete(const struct http *h)
{
        if (!strstr(h->body, "\"COMPLETE\""))
                bench_fail("not complete: %.500s", h->body);
}

static double raw_cycle_seconds(struct http *a, struct http *b, const struct region *at_a, const struct region *at_b)
{
        char id[FERRY_ID_SIZE], body[4096], path[128];
        uint64_t start = now_ns();

        raw_offer(a, at_a, at_b, id, body, sizeof(body));
        http_call(b, "POST", "/v1/operations", body, 201);
        assert_complete(b);
        (void)snprintf(path, sizeof(path), "/v1/operations/%s?wait_ms=60000", id);
        http_call(a, "GET", path, NULL, 200);
        assert_complete(a);
        return seconds_since(start);
}

static void small_round(struct pair *p, struct http *a, struct http *b, const struct region *at_a,
                        const struct region *at_b, const char *side)
{
        enum { N = 100 };
        double livez[2 * N], cycle[N], transfer[N], raw_livez[2 * N], raw_cycle[N];

        for (int i = 0; i < N; i++) {
                struct timing t;

                livez[2 * i] = livez_seconds(p->a.client);
                livez[2 * i + 1] = livez_seconds(p->b.client);
                move_simple(p->a.client, p->b.client, FERRY_READABLE, at_a, at_b, 4 * KIB, &t);
                cycle[i] = t.cycle_s;
                transfer[i] = t.transfer_s;
                raw_livez[2 * i] = raw_livez_seconds(a);
                raw_livez[2 * i + 1] = raw_livez_seconds(b);
                raw_cycle[i] = raw_cycle_seconds(a, b, at_a, at_b);
        }
        sample("us", median(livez, 2 * N) * 1e6, "small.%s.livez", side);
        sample("us", median(cycle, N) * 1e6, "small.%s.cycle", side);
        sample("us", median(transfer, N) * 1e6, "small.%s.transfer", side);
        sample("us", median(raw_livez, 2 * N) * 1e6, "small.%s.raw_livez", side);
        sample("us", median(raw_cycle, N) * 1e6, "small.%s.raw_cycle", side);
}

static void small_pair(bool network)
{
        struct region at_a, at_b;
        struct http a, b;
        struct timing t;
        struct pair p;

        pair_start(&p, network, NULL);
        region_create(p.a.client, 4 * KIB, &at_a);
        region_create(p.b.client, 4 * KIB, &at_b);
        http_open(&a, p.a.url);
        http_open(&b, p.b.url);
        b.prefer_wait = true;
        for (int i = 0; i < 100; i++)
                move_simple(p.a.client, p.b.client, FERRY_READABLE, &at_a, &at_b, 4 * KIB, &t);
        for (int i = 0; i < 3; i++)
                small_round(&p, &a, &b, &at_a, &at_b, side_names[network]);
        http_close(&a);
        http_close(&b);
        pair_stop(&p);
}

/*
 * Which threads share a processor decides much about times of this size, and stays as it fell when the workers started:
 * so new ones are started again and again.
 */
void bench_small(void)
{
        unsigned n = rounds(5, 31);

        for (unsigned i = 0; i < n; i++) {
                progress("workers %u of %u", i + 1, n);
                for (int network = 0; network < 2; network++)
                        small_pair(network);
        }
}

/* ---- from the last byte to the answer ---- */

/* Notes when a byte of a mapped region changes. Gives its core away all the time: the workers need it more. */
struct watcher {
        sem_t begin, end;
        const volatile uint8_t *byte;
        uint8_t wanted;
        bool over;
        uint64_t seen_ns;
};

static void *watcher_run(void *context)
{
        struct watcher *w = context;

        for (;;) {
                (void)sem_wait(&w->begin);
                if (w->over)
                        return NULL;
                while (*w->byte != w->wanted)
                        (void)sched_yield();
                w->seen_ns = now_ns();
                (void)sem_post(&w->end);
        }
}

/* When the first byte of each connection's answer came. */
static void note_arrivals(struct http *h[2], uint64_t ret_ns[2])
{
        struct pollfd p[2] = { { .fd = h[0]->fd, .events = POLLIN }, { .fd = h[1]->fd, .events = POLLIN } };

        for (int missing = 2; missing > 0;) {
                if (poll(p, 2, 60000) <= 0)
                        bench_fail("no answer");
                for (int i = 0; i < 2; i++) {
                        if (p[i].revents) {
                                ret_ns[i] = now_ns();
                                p[i].fd = -1;
                                p[i].revents = 0;
                                missing--;
                        }
                }
        }
}

static void wait_once(struct http *a, struct http *waiter, struct http *b, const struct region *at_a,
                      const struct region *at_b, struct watcher *w, double ret_us[3])
{
        char id[FERRY_ID_SIZE], body[4096], path[128];
        struct http *both[2] = { b, waiter };
        uint64_t arrived[2] = { 0, 0 }, posted;
        const char *duration;

        w->wanted = (uint8_t)(at_b->memory[at_b->info.size - 1] + 1);
        at_a->memory[at_a->info.size - 1] = w->wanted;
        raw_offer(a, at_a, at_b, id, body, sizeof(body));
        (void)snprintf(path, sizeof(path), "/v1/operations/%s?wait_ms=60000", id);
        http_send(waiter, "GET", path, NULL);
        (void)sem_post(&w->begin);
        posted = now_ns();
        http_send(b, "POST", "/v1/operations", body);
        note_arrivals(both, arrived);
        for (int i = 0; i < 2; i++) {
                http_receive(both[i]);
                assert_complete(both[i]);
        }
        (void)sem_wait(&w->end);
        for (int i = 0; i < 2; i++)
                ret_us[i] = ((double)arrived[i] - (double)w->seen_ns) / 1e3;
        duration = strstr(b->body, "\"duration_us\":");
        if (!duration)
                bench_fail("no duration in %.300s", b->body);
        ret_us[2] = (double)(arrived[0] - posted) / 1e3 - strtod(duration + strlen("\"duration_us\":"), NULL);
}

static void wait_pair(bool network)
{
        enum { N = 100 };
        struct region at_a, at_b;
        struct http a, waiter, b;
        struct watcher w = { .over = false };
        double active[N], passive[N], beyond[N];
        pthread_t thread;
        struct pair p;

        pair_start(&p, network, NULL);
        region_create(p.a.client, MIB, &at_a);
        region_create(p.b.client, MIB, &at_b);
        region_map(&at_a);
        region_map(&at_b);
        http_open(&a, p.a.url);
        http_open(&waiter, p.a.url);
        http_open(&b, p.b.url);
        b.prefer_wait = true;
        w.byte = &at_b.memory[MIB - 1];
        (void)sem_init(&w.begin, 0, 0);
        (void)sem_init(&w.end, 0, 0);
        if (pthread_create(&thread, NULL, watcher_run, &w) != 0)
                bench_fail("no thread");
        for (int i = 0; i < N; i++) {
                double us[3];

                wait_once(&a, &waiter, &b, &at_a, &at_b, &w, us);
                active[i] = us[0];
                passive[i] = us[1];
                beyond[i] = us[2];
        }
        sample("us", median(active, N), "wait.%s.active", side_names[network]);
        sample("us", median(passive, N), "wait.%s.passive", side_names[network]);
        sample("us", median(beyond, N), "wait.%s.beyond", side_names[network]);
        w.over = true;
        (void)sem_post(&w.begin);
        (void)pthread_join(thread, NULL);
        http_close(&a);
        http_close(&waiter);
        http_close(&b);
        pair_stop(&p);
        (void)munmap(at_a.memory, MIB);
        (void)munmap(at_b.memory, MIB);
}

void bench_wait(void)
{
        unsigned n = rounds(5, 31);

        if (sysconf(_SC_NPROCESSORS_ONLN) < 4)
                note("wait: with few processors the watcher sees the last byte late, so its figures are too small; "
                     "the POST's time beyond the transfer's duration_us holds request, creation and answer together");
        for (unsigned i = 0; i < n; i++) {
                progress("workers %u of %u", i + 1, n);
                for (int network = 0; network < 2; network++)
                        wait_pair(network);
        }
}
