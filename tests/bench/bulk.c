/* SPDX-License-Identifier: Apache-2.0 */

#include "bench.h"

/* Throughput. Everything is on reused connections and regions, and each sample stands beside its reference's. */

static const char *const side_names[] = { "local", "network" };
static const char *const wire_names[] = { "posix", "tcp" };
static const enum ferry_kind passives[] = { FERRY_READABLE, FERRY_WRITABLE };
static const char *const direction_names[] = { "read", "write" };

enum { WARM_UPS = 2 };

/* Two workers, a region each, and what they are compared with. */
struct bulk {
        const char *side;
        struct pair pair;
        struct region at_a, at_b;
        struct reference rendezvous, other; /* other: memcpy beside the local side, get beside the network side */
        const char *wire, *other_name;
};

static void bulk_open(struct bulk *b, bool network, uint64_t size)
{
        char text[32];

        (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)size);
        b->side = side_names[network];
        b->wire = wire_names[network];
        b->other_name = network ? "get" : "memcpy";
        pair_start(&b->pair, network, NULL);
        region_create(b->pair.a.client, size, &b->at_a);
        region_create(b->pair.b.client, size, &b->at_b);
        reference_start(&b->rendezvous, "ref_rendezvous", (const char *const[]){ b->wire, text, NULL });
        if (network)
                reference_start(&b->other, "ref_get", (const char *const[]){ b->wire, text, NULL });
        else
                reference_start(&b->other, "ref_memcpy", (const char *const[]){ text, NULL });
}

static void bulk_close(struct bulk *b)
{
        reference_stop(&b->other);
        reference_stop(&b->rendezvous);
        pair_stop(&b->pair);
}

static double bulk_cycle(struct bulk *b, int direction, uint64_t size)
{
        struct timing t;

        move_simple(b->pair.a.client, b->pair.b.client, passives[direction], &b->at_a, &b->at_b, size, &t);
        return t.cycle_s;
}

enum { KINDS = 4 }; /* read, write, rendezvous, the other reference */

static void bulk_sample(struct bulk *b, unsigned kind, uint64_t size)
{
        if (kind < 2)
                sample("GB/s", gigabytes_per_second(size, bulk_cycle(b, (int)kind, size)), "bulk.%s.%s", b->side,
                       direction_names[kind]);
        else if (kind == 2)
                sample("GB/s", gigabytes_per_second(size, reference_run(&b->rendezvous, size)), "bulk.rendezvous.%s",
                       b->wire);
        else
                sample("GB/s", gigabytes_per_second(size, reference_run(&b->other, size)), "bulk.%s", b->other_name);
}

enum { GROUP = 6 }; /* rounds between new processes */

static void bulk_group(unsigned first, unsigned end, unsigned n)
{
        enum { SIZE = 256 << 20 };
        struct bulk sides[2];

        for (int network = 0; network < 2; network++) {
                struct bulk *b = &sides[network];

                bulk_open(b, network, SIZE);
                for (int i = 0; i < WARM_UPS; i++) {
                        (void)bulk_cycle(b, 0, SIZE);
                        (void)bulk_cycle(b, 1, SIZE);
                        (void)reference_run(&b->rendezvous, SIZE);
                        (void)reference_run(&b->other, SIZE);
                }
        }
        for (unsigned i = first; i < end; i++) {
                begin_round("round %u of %u", i + 1, n);
                for (unsigned j = 0; j < 2 * KINDS; j++) /* each kind is behind each other as often */
                        bulk_sample(&sides[j / KINDS], (i + j) % KINDS, SIZE);
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
        double seconds[4][32];

        repeats = repeats < 1 ? 1 : repeats > 32 ? 32 : repeats;
        for (unsigned i = 0; i < repeats; i++) {
                seconds[0][i] = bulk_cycle(b, 0, size);
                seconds[1][i] = bulk_cycle(b, 1, size);
                seconds[2][i] = reference_run(&b->rendezvous, size);
                seconds[3][i] = reference_run(&b->other, size);
        }
        for (int d = 0; d < 2; d++)
                sample("GB/s", gigabytes_per_second(size, median(seconds[d], repeats)), "sizes.%s.%s.%llu", b->side,
                       direction_names[d], (unsigned long long)size);
        sample("GB/s", gigabytes_per_second(size, median(seconds[2], repeats)), "sizes.rendezvous.%s.%llu", b->wire,
               (unsigned long long)size);
        sample("GB/s", gigabytes_per_second(size, median(seconds[3], repeats)), "sizes.%s.%llu", b->other_name,
               (unsigned long long)size);
}

void bench_sizes(void)
{
        /* Six mappings of the largest size are there at once. */
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
