/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

/* Many pieces: of one transfer, and as many transfers of one batch. Bodies are written beforehand. */

/* ---- one transfer of many pieces, with gaps, so that neighbours cannot be merged ---- */

enum { FEW = 1000, MANY = 65536 };

/* A list of n descriptors of size bytes each, every other slice of the region. For free(). */
static char *list_text(const struct ferry_region *region, size_t n, size_t size)
{
        char *text = NULL;
        size_t text_size;
        FILE *out = open_memstream(&text, &text_size);

        for (size_t i = 0; i < n; i++)
                (void)fprintf(out, "%s{\"region\":\"%s\",\"offset\":%zu,\"size\":%zu}", i ? "," : "", region->id,
                              i * 2 * size, size);
        (void)fclose(out);
        return text;
}

/* The same as blocks of one descriptor. */
static char *blocks_text(const struct ferry_region *region, size_t n, size_t size)
{
        char *text = NULL;
        size_t text_size;
        FILE *out = open_memstream(&text, &text_size);

        (void)fprintf(out, "{\"region\":\"%s\",\"size\":%zu,\"blocks\":", region->id, size);
        for (size_t i = 0; i < n; i++)
                (void)fprintf(out, "%c%zu", i ? ',' : '[', i * 2);
        (void)fputs("]}", out);
        (void)fclose(out);
        return text;
}

static struct timing scatter_move(struct raw *r, const struct pair *p, size_t n, size_t size,
                                  char *(*text)(const struct ferry_region *region, size_t n, size_t size))
{
        char *from = text(&p->at_a, n, size), *to = text(&p->at_b, n, size);
        struct timing timing;

        raw_describe(r, from, to);
        timing = raw_move(r);
        free(from);
        free(to);
        return timing;
}

/* Creates a readable of n descriptors and deletes it: the first call's seconds. */
static double create_seconds(struct raw *r, const struct pair *p, size_t n)
{
        char *list = list_text(&p->at_a, n, 4 * KIB), path[128], id[FERRY_ID_SIZE];
        uint64_t start;
        double seconds;

        raw_describe(r, list, "");
        start = now_ns();
        http_call(&r->a, "POST", "/v1/operations", r->offer, 201);
        seconds = seconds_since(start);
        http_take_id(&r->a, id);
        (void)snprintf(path, sizeof(path), "/v1/operations/%s", id);
        http_call(&r->a, "DELETE", path, NULL, 204);
        free(list);
        return seconds;
}

static void scatter_side(bool network)
{
        const char *side = transport_names[network];
        size_t n = quick_or_full(7, 31), n_many = quick_or_full(2, 9);
        struct pair p;
        struct raw r;

        pair_start(&p, network, NULL, 2 * MANY * 4 * KIB);
        raw_open(&r, p.a.url, p.b.url);
        (void)create_seconds(&r, &p, MANY); /* a warm-up: the heap grows */
        (void)pair_move(&p, FERRY_READABLE, p.at_a.size);
        for (size_t i = 0; i < n; i++) {
                double one_s, many_s;

                begin_round("%s, 1,000 of 16 KiB, round %zu of %zu", side, i + 1, n);
                one_s = scatter_move(&r, &p, 1, 16 * MIB, list_text).transfer_s;
                many_s = scatter_move(&r, &p, FEW, 16 * KIB, list_text).transfer_s;
                sample("GB/s", gigabytes_per_second(16 * MIB, one_s), "scatter.%s.one", side);
                sample("GB/s", gigabytes_per_second(FEW * 16 * KIB, many_s), "scatter.%s.1000", side);
        }
        for (size_t i = 0; i < n_many; i++) {
                struct timing blocks;

                begin_round("%s, 65,536 of 4 KiB, round %zu of %zu", side, i + 1, n_many);
                if (!network)
                        sample("ms", create_seconds(&r, &p, MANY) * 1e3, "scatter.create");
                blocks = scatter_move(&r, &p, MANY, 4 * KIB, blocks_text);
                sample("GB/s", gigabytes_per_second(256 * MIB, blocks.cycle_s), "scatter.%s.blocks.cycle", side);
                sample("GB/s", gigabytes_per_second(256 * MIB, blocks.transfer_s), "scatter.%s.blocks.bytes", side);
        }
        raw_close(&r);
        pair_stop(&p);
}

void bench_scatter(void)
{
        for (int network = 0; network < 2; network++)
                scatter_side(network);
}

/* ---- 64 reads of 4 KiB, created by one batch that waits for them ---- */

enum { BATCH = 64, PIECE = 4 << 10 };

/* Offers the pieces: the body of a batch that reads them. For free(). */
static char *batch_prepare(struct pair *p)
{
        char *body;
        size_t size;
        FILE *out = open_memstream(&body, &size);

        if (!out)
                bench_fail("out of memory");
        for (unsigned i = 0; i < BATCH; i++) {
                const struct ferry_descriptor from = { .region = p->at_a.id, .offset = i * PIECE, .size = PIECE };
                struct ferry_operation_spec spec = {
                        .kind = FERRY_READABLE, .descriptors = &from, .n_descriptors = 1, .include_metadata = true
                };
                struct ferry_operation o;

                bench_check(p->a.client, ferry_create_operation(p->a.client, &spec, &o), "offer a piece");
                (void)fprintf(out,
                              "%s{\"kind\":\"read\",\"descriptors\":[{\"region\":\"%s\",\"offset\":%u,\"size\":%u}],"
                              "\"remote_metadata\":%s}",
                              i ? "," : "{\"operations\":[", p->at_b.id, i * PIECE, PIECE, o.metadata);
                ferry_operation_clear(&o);
        }
        (void)fputs("]}", out);
        (void)fclose(out);
        return body;
}

/* Seconds. */
static double batch_run(struct http *h, const char *body)
{
        uint64_t start = now_ns();
        double seconds;
        unsigned n = 0;

        http_call(h, "POST", "/v1/operations/batch", body, 200);
        seconds = seconds_since(start);
        for (const char *at = h->body; (at = strstr(at, "\"COMPLETE\"")); at++)
                n++;
        if (n != BATCH)
                bench_fail("%u of %u are complete: %.500s", n, (unsigned)BATCH, h->body);
        return seconds;
}

void bench_batch(void)
{
        size_t n = quick_or_full(25, 101);
        struct http h;
        struct pair p;

        pair_start(&p, false, NULL, BATCH * PIECE);
        http_open(&h, p.b.url);
        h.prefer_wait = true;
        for (size_t i = 0; i <= n; i++) {
                char *body = batch_prepare(&p);
                double seconds;

                begin_round("round %zu of %zu", i, n);
                seconds = batch_run(&h, body);
                if (i > 0) /* the first one connects */
                        sample("ms", seconds * 1e3, "batch.one");
                free(body);
        }
        http_close(&h);
        pair_stop(&p);
}
