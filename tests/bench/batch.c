/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

/* 64 reads of 4 KiB: created by one batch and waited for by one call, beside two calls for each. */

enum { BATCH = 64, PIECE = 4 << 10, ID_ROOM = 32 };

static const char *const side_names[] = { "local", "network" };

/* The body of each read, and that of a batch of all. */
struct reads {
        char *one[BATCH], *all;
};

static void reads_prepare(struct pair *p, const struct region *at_a, const struct region *at_b, struct reads *ret_reads)
{
        size_t size;
        FILE *all = open_memstream(&ret_reads->all, &size);

        if (!all)
                bench_fail("out of memory");
        for (unsigned i = 0; i < BATCH; i++) {
                const struct ferry_descriptor from = { at_a->info.id, i * PIECE, PIECE };
                struct ferry_operation_spec spec = {
                        .kind = FERRY_READABLE, .descriptors = &from, .n_descriptors = 1, .include_metadata = true
                };
                struct ferry_operation o;

                bench_check(p->a.client, ferry_create_operation(p->a.client, &spec, &o),
                            "create the passive operation");
                if (asprintf(&ret_reads->one[i],
                             "{\"kind\":\"read\",\"descriptors\":[{\"region\":\"%s\",\"offset\":%u,\"size\":%u}],"
                             "\"remote_metadata\":%s}",
                             at_b->info.id, i * PIECE, PIECE, o.metadata) < 0)
                        bench_fail("out of memory");
                (void)fprintf(all, "%s%s", i ? "," : "{\"operations\":[", ret_reads->one[i]);
                ferry_operation_clear(&o);
        }
        (void)fputs("]}", all);
        (void)fclose(all);
}

static void reads_clear(struct reads *reads)
{
        for (unsigned i = 0; i < BATCH; i++)
                free(reads->one[i]);
        free(reads->all);
}

static void assert_all_complete(const struct http *h)
{
        unsigned n = 0;

        for (const char *at = h->body; (at = strstr(at, "\"COMPLETE\"")); at++)
                n++;
        if (n != BATCH)
                bench_fail("%u of %u are complete: %.500s", n, (unsigned)BATCH, h->body);
}

/* "/v1/operations?ids=…" of the operations in an answer. */
static void take_ids(const struct http *h, char path[64 + BATCH * ID_ROOM])
{
        static const char mark[] = "\"id\":\"";
        char *to = stpcpy(path, "/v1/operations?ids=");
        unsigned n = 0;

        for (const char *at = h->body; (at = strstr(at, mark)); n++) {
                at += strlen(mark);
                to += snprintf(to, ID_ROOM, "%s%.*s", n ? "," : "", (int)strcspn(at, "\""), at);
        }
        if (n != BATCH)
                bench_fail("%u of %u were made: %.500s", n, (unsigned)BATCH, h->body);
        (void)stpcpy(to, "&wait_ms=30000");
}

/* Milliseconds of two calls for all. */
static double batch_run(struct http *h, const struct reads *reads)
{
        char path[64 + BATCH * ID_ROOM];
        uint64_t start = now_ns();

        http_call(h, "POST", "/v1/operations/batch", reads->all, 200);
        take_ids(h, path);
        http_call(h, "GET", path, NULL, 200);
        start = now_ns() - start;
        assert_all_complete(h);
        return (double)start / 1e6;
}

/* Milliseconds of one call for all, which waits. */
static double batch_run_waiting(struct http *h, const struct reads *reads)
{
        uint64_t start;

        h->prefer_wait = true;
        start = now_ns();
        http_call(h, "POST", "/v1/operations/batch", reads->all, 200);
        start = now_ns() - start;
        h->prefer_wait = false;
        assert_all_complete(h);
        return (double)start / 1e6;
}

/* Milliseconds of two calls for each. */
static double each_run(struct http *h, const struct reads *reads)
{
        char ids[BATCH][FERRY_ID_SIZE], path[128];
        uint64_t start = now_ns();

        for (unsigned i = 0; i < BATCH; i++) {
                http_call(h, "POST", "/v1/operations", reads->one[i], 201);
                http_take_id(h, ids[i]);
        }
        for (unsigned i = 0; i < BATCH; i++) {
                (void)snprintf(path, sizeof(path), "/v1/operations/%.*s?wait_ms=30000", FERRY_ID_SIZE, ids[i]);
                http_call(h, "GET", path, NULL, 200);
                if (!strstr(h->body, "\"COMPLETE\""))
                        bench_fail("not complete: %.500s", h->body);
        }
        return (double)(now_ns() - start) / 1e6;
}

void bench_batch(void)
{
        static const struct {
                const char *name;
                double (*run)(struct http *h, const struct reads *reads);
        } ways[] = { { "each", each_run }, { "two", batch_run }, { "one", batch_run_waiting } };
        unsigned n = rounds(25, 101);

        for (int network = 0; network < 2; network++) {
                struct region at_a, at_b;
                struct http h;
                struct pair p;

                pair_start(&p, network, NULL);
                http_open(&h, p.b.url);
                region_create(p.a.client, BATCH * PIECE, &at_a);
                region_create(p.b.client, BATCH * PIECE, &at_b);
                for (unsigned i = 0; i <= n; i++) {
                        begin_round("%s, round %u of %u", side_names[network], i, n);
                        for (unsigned way = 0; way < 3; way++) {
                                struct reads reads;
                                double ms;

                                reads_prepare(&p, &at_a, &at_b, &reads);
                                ms = ways[way].run(&h, &reads);
                                if (i > 0) /* the first one connects */
                                        sample("ms", ms, "batch.%s.%s", side_names[network], ways[way].name);
                                reads_clear(&reads);
                        }
                }
                http_close(&h);
                pair_stop(&p);
        }
}
