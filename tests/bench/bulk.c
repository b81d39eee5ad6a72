/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

/* Throughput, and the bytes alone. Everything is on reused connections and regions. */

static const enum ferry_kind passives[] = { FERRY_READABLE, FERRY_WRITABLE };

/* ---- 256 MiB, the whole cycle ---- */

enum { SIZE = 256 << 20, WARM_UPS = 2, KINDS = 3 /* read, write, reference */, GROUP = 6 /* rounds a process */ };

static const char size_text[] = "268435456";

struct bulk {
        struct pair pair;
        struct reference reference; /* memcpy; a bare rendezvous by UCX */
};

static void bulk_open(struct bulk *b, bool network)
{
        pair_start(&b->pair, network, NULL, SIZE);
        if (network)
                reference_start(&b->reference, "ref_pair", (const char *const[]){ "tcp", size_text, NULL });
        else
                reference_start(&b->reference, "ref_memory", (const char *const[]){ "copy", size_text, NULL });
}

static void bulk_close(struct bulk *b)
{
        reference_stop(&b->reference);
        pair_stop(&b->pair);
}

/* Seconds of a cycle, or of a reference. */
static double bulk_run(struct bulk *b, unsigned kind)
{
        return kind < 2 ? pair_move(&b->pair, passives[kind], SIZE).cycle_s : reference_run(&b->reference, SIZE);
}

static void bulk_group(size_t first, size_t end, size_t n)
{
        static const char *const names[KINDS] = { "read", "write", "reference" };
        struct bulk sides[2];

        for (int network = 0; network < 2; network++) {
                bulk_open(&sides[network], network);
                for (unsigned i = 0; i < WARM_UPS * KINDS; i++)
                        (void)bulk_run(&sides[network], i % KINDS);
        }
        for (size_t i = first; i < end; i++) {
                begin_round("round %zu of %zu", i + 1, n);
                for (unsigned j = 0; j < 2 * KINDS; j++) { /* each kind is behind each other as often */
                        unsigned network = j / KINDS, kind = (unsigned)(i + j) % KINDS;

                        sample("GB/s", gigabytes_per_second(SIZE, bulk_run(&sides[network], kind)), "bulk.%s.%s",
                               transport_names[network], names[kind]);
                }
        }
        bulk_close(&sides[1]);
        bulk_close(&sides[0]);
}

/* Where the memory came to lie makes a tenth and more, for Ferry and its references alike: so new processes now and
 * then. */
void bench_bulk(void)
{
        size_t n = quick_or_full(6, 60);

        for (size_t first = 0; first < n; first += GROUP)
                bulk_group(first, first + GROUP, n);
}

/* Out of memory that an embedding program owns. */
void bench_own(void)
{
        size_t n = quick_or_full(6, 30);
        struct bulk b;

        pair_start_owner(&b.pair, SIZE);
        reference_start(&b.reference, "ref_memory", (const char *const[]){ "copy", size_text, NULL });
        for (size_t i = 0; i < WARM_UPS + n; i++) {
                double memcpy_s, own_s;

                if (i >= WARM_UPS)
                        begin_round("round %zu of %zu", i - WARM_UPS + 1, n);
                memcpy_s = bulk_run(&b, 2);
                own_s = bulk_run(&b, 0);
                if (i < WARM_UPS)
                        continue;
                sample("GB/s", gigabytes_per_second(SIZE, memcpy_s), "own.memcpy");
                sample("GB/s", gigabytes_per_second(SIZE, own_s), "own.read");
        }
        bulk_close(&b);
}

/* ---- one beside another, the bytes alone ---- */

enum { REPEATS_MAX = 64 };

struct contender {
        const char *series;
        struct pair *pair;
        enum ferry_kind passive;
};

static void compare_in_turn(const struct contender contenders[2], const uint64_t sizes[2])
{
        size_t n = quick_or_full(4, 15);

        for (int i = 0; i < 2 * WARM_UPS; i++)
                (void)pair_move(contenders[i % 2].pair, contenders[i % 2].passive, SIZE);
        for (size_t i = 0; i < n; i++) {
                begin_round("round %zu of %zu", i + 1, n);
                for (int s = 0; s < 2; s++) {
                        size_t repeats = 128 * MIB / sizes[s];
                        double seconds[2][REPEATS_MAX];

                        repeats = repeats < 1 ? 1 : repeats > REPEATS_MAX ? REPEATS_MAX : repeats;
                        for (size_t j = 0; j < 2 * repeats; j++) {
                                const struct contender *c = &contenders[(i + j) % 2];

                                seconds[(i + j) % 2][j / 2] = pair_move(c->pair, c->passive, sizes[s]).transfer_s;
                        }
                        for (int c = 0; c < 2; c++)
                                sample("GB/s", gigabytes_per_second(sizes[s], median(seconds[c], repeats)), "%s.%zu",
                                       contenders[c].series, (size_t)sizes[s]);
                }
        }
}

void bench_writes(void)
{
        struct pair p;

        pair_start(&p, true, NULL, SIZE);
        compare_in_turn(
                (struct contender[]){ { "writes.read", &p, FERRY_READABLE }, { "writes.write", &p, FERRY_WRITABLE } },
                (uint64_t[]){ 64 * KIB, 16 * MIB });
        pair_stop(&p);
}

void bench_threads(void)
{
        struct pair none, two;

        pair_start(&none, false, (const char *const[]){ "--copy-threads", "0", NULL }, SIZE);
        pair_start(&two, false, (const char *const[]){ "--copy-threads", "2", NULL }, SIZE);
        compare_in_turn((struct contender[]){ { "threads.none", &none, FERRY_READABLE },
                                              { "threads.two", &two, FERRY_READABLE } },
                        (uint64_t[]){ MIB, SIZE });
        pair_stop(&two);
        pair_stop(&none);
}
