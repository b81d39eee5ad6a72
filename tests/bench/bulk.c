/* SPDX-License-Identifier: Apache-2.0 */

#include "bench.h"

/* Throughput. Everything is on reused connections and regions, and each sample stands beside its reference's. */

static const char *const side_names[] = { "local", "network" };
static const enum ferry_kind passives[] = { FERRY_READABLE, FERRY_WRITABLE };
static const char *const direction_names[] = { "read", "write" };

/* By the side. */
static const unsigned reference_counts[] = { 1, 2 };
static const char *const reference_names[2][2] = { { "memcpy" }, { "rendezvous.tcp", "get" } };

enum { WARM_UPS = 2, KINDS_MAX = 4 /* read, write, references */ };

/* Two workers, a region each, and what they are compared with. */
struct bulk {
        bool network;
        const char *side;
        struct pair pair;
        struct region at_a, at_b;
        unsigned n_references;
        struct reference references[2]; /* memcpy; rendezvous, get */
};

static void bulk_open(struct bulk *b, bool network, uint64_t size)
{
        char text[32];

        (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)size);
        b->side = side_names[network];
        b->network = network;
        b->n_references = reference_counts[network];
        pair_start(&b->pair, network, NULL);
        region_create(b->pair.a.client, size, &b->at_a);
        region_create(b->pair.b.client, size, &b->at_b);
        if (network) {
                reference_start(&b->references[0], "ref_rendezvous", (const char *const[]){ "tcp", text, NULL });
                reference_start(&b->references[1], "ref_get", (const char *const[]){ "tcp", text, NULL });
        } else {
                reference_start(&b->references[0], "ref_memcpy", (const char *const[]){ text, NULL });
        }
}

static void bulk_close(struct bulk *b)
{
        for (unsigned i = b->n_references; i-- > 0;)
                reference_stop(&b->references[i]);
        pair_stop(&b->pair);
}

static unsigned bulk_kinds(const struct bulk *b)
{
        return 2 + b->n_references;
}

/* Seconds of a cycle, or of a reference. */
static double bulk_run(struct bulk *b, unsigned kind, uint64_t size)
{
        struct timing t;

        if (kind >= 2)
                return reference_run(&b->references[kind - 2], size);
        move_simple(b->pair.a.client, b->pair.b.client, passives[kind], &b->at_a, &b->at_b, size, &t);
        return t.cycle_s;
}

/* "local.read", "memcpy" */
static const char *bulk_name(const struct bulk *b, unsigned kind)
{
        static char name[32];

        if (kind >= 2)
                return reference_names[b->network][kind - 2];
        (void)snprintf(name, sizeof(name), "%s.%s", b->side, direction_names[kind]);
        return name;
}

enum { GROUP = 6 }; /* rounds between new processes */

static void bulk_group(unsigned first, unsigned end, unsigned n)
{
        enum { SIZE = 256 << 20 };
        struct bulk sides[2];

        for (int network = 0; network < 2; network++) {
                struct bulk *b = &sides[network];

                bulk_open(b, network, SIZE);
                for (unsigned i = 0; i < WARM_UPS * bulk_kinds(b); i++)
                        (void)bulk_run(b, i % bulk_kinds(b), SIZE);
        }
        for (unsigned i = first; i < end; i++) {
                begin_round("round %u of %u", i + 1, n);
                for (int network = 0; network < 2; network++) {
                        struct bulk *b = &sides[network];

                        for (unsigned j = 0; j < bulk_kinds(b); j++) { /* each kind is behind each other as often */
                                unsigned kind = (i + j) % bulk_kinds(b);

                                sample("GB/s", gigabytes_per_second(SIZE, bulk_run(b, kind, SIZE)), "bulk.%s",
                                       bulk_name(b, kind));
                        }
                }
        }
        bulk_close(&sides[1]);
        bulk_close(&sides[0]);
}

/* Where the memory came to lie makes a tenth and more, for Ferry and its references alike: so new processes now and
 * then. */
void bench_bulk(void)
{
        unsigned n = rounds(6, 60);

        for (unsigned first = 0; first < n; first += GROUP)
                bulk_group(first, first + GROUP < n ? first + GROUP : n, n);
}

/* ---- over size ---- */

static void size_run(struct bulk *b, uint64_t size)
{
        unsigned repeats = (unsigned)(256 * MIB / size);
        double seconds[KINDS_MAX][32];

        repeats = repeats < 1 ? 1 : repeats > 32 ? 32 : repeats;
        for (unsigned i = 0; i < repeats; i++)
                for (unsigned kind = 0; kind < bulk_kinds(b); kind++)
                        seconds[kind][i] = bulk_run(b, kind, size);
        for (unsigned kind = 0; kind < bulk_kinds(b); kind++)
                sample("GB/s", gigabytes_per_second(size, median(seconds[kind], repeats)), "sizes.%s.%llu",
                       bulk_name(b, kind), (unsigned long long)size);
}

void bench_sizes(void)
{
        /* Four memories of the largest size are there at once, on the network transport six. */
        uint64_t size_max = !bench_full ? 64 * MIB : memory_available() > 12 * GIB ? GIB : 256 * MIB;
        unsigned n = rounds(1, 5);

        if (bench_full && size_max < GIB)
                note("sizes end at 256 MiB: less than 12 GiB of memory are free");
        for (int network = 0; network < 2; network++) {
                struct bulk b;

                bulk_open(&b, network, size_max);
                size_run(&b, size_max < GIB ? size_max : GIB / 4);
                for (unsigned i = 0; i < n; i++) {
                        begin_round("%s, round %u of %u", b.side, i + 1, n);
                        for (uint64_t size = 4 * KIB; size <= size_max; size *= 4)
                                size_run(&b, size);
                }
                bulk_close(&b);
        }
}
