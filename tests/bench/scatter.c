/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "bench.h"

/* Transfers of many pieces. */

static const char *const side_names[] = { "local", "network" };

enum { SCATTER_FEW = 1000, SCATTER_MANY = 65536 };

/* The same layout on both sides, with gaps, so that neighbours cannot be merged unless stride is size. */
static void scatter_run(struct pair *p, enum ferry_kind passive, const struct region *at_a, const struct region *at_b,
                        size_t n, uint64_t size, uint64_t stride, const char *series)
{
        struct move m = { p->a.client, p->b.client, passive, { NULL, n }, { NULL, n } };
        struct ferry_descriptor *from = slices_new(at_a, n, size, stride), *to = slices_new(at_b, n, size, stride);
        struct timing t;

        m.at_a.items = from;
        m.at_b.items = to;
        move_run(&m, &t);
        sample("GB/s", gigabytes_per_second(n * size, t.cycle_s), "%s.cycle", series);
        sample("GB/s", gigabytes_per_second(n * size, t.transfer_s), "%s.transfer", series);
        free(from);
        free(to);
}

enum form { FORM_LIST, FORM_ROW, FORM_BLOCKS };

static const char *const form_names[] = { "raw", "compact", "blocks" };

/* A regular list in one of its forms. For free(). */
static char *list_text(const struct region *region, size_t n, uint64_t size, uint64_t stride, enum form form)
{
        char *text = NULL;
        size_t text_size;
        FILE *out = open_memstream(&text, &text_size);

        if (form == FORM_ROW)
                (void)fprintf(out, "{\"region\":\"%s\",\"offset\":0,\"size\":%llu,\"count\":%zu,\"stride\":%llu}",
                              region->info.id, (unsigned long long)size, n, (unsigned long long)stride);
        if (form == FORM_BLOCKS)
                (void)fprintf(out, "{\"region\":\"%s\",\"size\":%llu,\"blocks\":", region->info.id,
                              (unsigned long long)size);
        for (size_t i = 0; form == FORM_BLOCKS && i < n; i++)
                (void)fprintf(out, "%c%llu", i ? ',' : '[', (unsigned long long)(i * stride / size));
        if (form == FORM_BLOCKS)
                (void)fputs("]}", out);
        for (size_t i = 0; form == FORM_LIST && i < n; i++)
                (void)fprintf(out, "%s{\"region\":\"%s\",\"offset\":%llu,\"size\":%llu}", i ? "," : "", region->info.id,
                              (unsigned long long)(i * stride), (unsigned long long)size);
        (void)fclose(out);
        return text;
}

/* The whole cycle with bodies written beforehand: what the workers need. */
static void scatter_raw(struct raw *r, size_t n, uint64_t size, uint64_t stride, enum form form, const char *side)
{
        char *from = list_text(&r->at_a, n, size, stride, form), *to = list_text(&r->at_b, n, size, stride, form);
        struct raw_timing t;

        raw_describe(r, from, to);
        raw_cycle(r, &t);
        sample("GB/s", gigabytes_per_second(n * size, t.cycle_s), "scatter.%s.%s%zu.cycle", side, form_names[form], n);
        sample("GB/s", gigabytes_per_second(n * size, t.transfer_s), "scatter.%s.%s%zu.transfer", side,
               form_names[form], n);
        free(from);
        free(to);
}

/* Creates a readable of n pieces and deletes it: the first call's seconds; 0 when it was refused. */
static double create_seconds(struct raw *r, size_t n, enum form form)
{
        char *list = list_text(&r->at_a, n, 4 * KIB, 8 * KIB, form), path[128];
        uint64_t start;
        double seconds;

        raw_describe(r, list, NULL);
        start = now_ns();
        http_call(&r->a, "POST", "/v1/operations", r->offer, 0);
        seconds = seconds_since(start);
        if (r->a.status == 201) {
                http_take_id(&r->a, r->id);
                (void)snprintf(path, sizeof(path), "/v1/operations/%s", r->id);
                http_call(&r->a, "DELETE", path, NULL, 204);
        } else {
                seconds = 0;
        }
        free(list);
        return seconds;
}

static void scatter_side(bool network)
{
        unsigned n = rounds(7, 31), n_many = rounds(2, 9);
        const char *side = side_names[network];
        char series[6][64];
        struct timing t;
        struct pair p;
        struct raw r;

        pair_start(&p, network, NULL);
        raw_open(&r, &p, 2 * SCATTER_MANY * 4 * KIB);
        (void)snprintf(series[0], sizeof(series[0]), "scatter.%s.one", side);
        (void)snprintf(series[1], sizeof(series[1]), "scatter.%s.1000", side);
        (void)snprintf(series[2], sizeof(series[2]), "scatter.%s.adjacent", side);
        (void)snprintf(series[3], sizeof(series[3]), "scatter.%s.whole", side);
        (void)snprintf(series[4], sizeof(series[4]), "scatter.%s.write_one", side);
        (void)snprintf(series[5], sizeof(series[5]), "scatter.%s.write_1000", side);
        if (create_seconds(&r, SCATTER_MANY, FORM_LIST) <= 0) /* a warm-up, too: the heap grows */
                bench_fail("65,536 descriptors are refused: %.300s", r.a.body);
        move_simple(p.a.client, p.b.client, FERRY_READABLE, &r.at_a, &r.at_b, r.at_a.info.size, &t);
        for (unsigned i = 0; i < n; i++) {
                begin_round("%s, 1,000 of 16 KiB, round %u of %u", side, i + 1, n);
                scatter_run(&p, FERRY_READABLE, &r.at_a, &r.at_b, 1, 16 * MIB, 16 * MIB, series[0]);
                scatter_run(&p, FERRY_READABLE, &r.at_a, &r.at_b, SCATTER_FEW, 16 * KIB, 32 * KIB, series[1]);
                scatter_raw(&r, SCATTER_FEW, 16 * KIB, 32 * KIB, FORM_ROW, side);
                scatter_run(&p, FERRY_READABLE, &r.at_a, &r.at_b, SCATTER_FEW, 16 * KIB, 16 * KIB, series[2]);
                scatter_run(&p, FERRY_WRITABLE, &r.at_a, &r.at_b, 1, 16 * MIB, 16 * MIB, series[4]);
                scatter_run(&p, FERRY_WRITABLE, &r.at_a, &r.at_b, SCATTER_FEW, 16 * KIB, 32 * KIB, series[5]);
        }
        for (unsigned i = 0; i < n_many; i++) {
                begin_round("%s, 65,536 of 4 KiB, round %u of %u", side, i + 1, n_many);
                scatter_run(&p, FERRY_READABLE, &r.at_a, &r.at_b, 1, 256 * MIB, 256 * MIB, series[3]);
                if (!network)
                        sample("ms", create_seconds(&r, SCATTER_MANY, FORM_LIST) * 1e3, "scatter.create.raw");
                if (!network)
                        sample("ms", create_seconds(&r, SCATTER_MANY, FORM_ROW) * 1e3, "scatter.create.compact");
                for (enum form form = FORM_LIST; form <= FORM_BLOCKS; form++)
                        scatter_raw(&r, SCATTER_MANY, 4 * KIB, 8 * KIB, form, side);
        }
        raw_close(&r);
        pair_stop(&p);
}

void bench_scatter(void)
{
        for (int network = 0; network < 2; network++)
                scatter_side(network);
}
