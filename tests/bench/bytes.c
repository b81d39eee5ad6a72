/* SPDX-License-Identifier: Apache-2.0 */

#include "bench.h"

/* The bytes alone, without the calls that ask for them. */

static const enum ferry_kind passives[] = { FERRY_READABLE, FERRY_WRITABLE };
static const char *const direction_names[] = { "read", "write" };

/* Two workers, a region each. */
struct duo {
        struct pair pair;
        struct region at_a, at_b;
};

static void duo_open(struct duo *d, bool network, const char *const *flags, uint64_t size)
{
        pair_start(&d->pair, network, flags);
        region_create(d->pair.a.client, size, &d->at_a);
        region_create(d->pair.b.client, size, &d->at_b);
}

/* Seconds of the transfer alone. */
static double duo_move(struct duo *d, int direction, uint64_t size)
{
        struct timing t;

        move_simple(d->pair.a.client, d->pair.b.client, passives[direction], &d->at_a, &d->at_b, size, &t);
        return t.transfer_s;
}

/* ---- 4 KiB on one host ---- */

enum { SMALL = 4096, SMALL_REPEATS = 400 };

/* Which threads share a processor stays as it fell when the workers started: so new ones each round. */
void bench_bytes(void)
{
        unsigned n = rounds(5, 21);
        double seconds[2][SMALL_REPEATS];

        for (unsigned i = 0; i < n; i++) {
                struct reference socket;
                struct duo d;

                begin_round("workers %u of %u", i + 1, n);
                duo_open(&d, false, NULL, SMALL);
                reference_start(&socket, "ref_socket", (const char *const[]){ "socket", "4096", NULL });
                (void)reference_run(&socket, SMALL);
                for (int j = -SMALL_REPEATS / 4; j < SMALL_REPEATS; j++) {
                        for (int direction = 0; direction < 2; direction++) {
                                double s = duo_move(&d, direction, SMALL);

                                if (j >= 0)
                                        seconds[direction][j] = s;
                        }
                }
                /* duration_us is a whole number: a mean tells more of it than a median. */
                for (int direction = 0; direction < 2; direction++)
                        sample("us", midmean(seconds[direction], SMALL_REPEATS) * 1e6, "bytes.%s",
                               direction_names[direction]);
                sample("us", reference_run(&socket, SMALL) * 1e6, "bytes.socket");
                reference_stop(&socket);
                pair_stop(&d.pair);
        }
}

/* ---- one beside another, over size ---- */

enum { REPEATS_MAX = 64 };

static unsigned repeats_of(uint64_t size)
{
        uint64_t n = 128 * MIB / size;

        return n < 1 ? 1 : n > REPEATS_MAX ? REPEATS_MAX : (unsigned)n;
}

static void sample_rate(double *seconds, unsigned repeats, uint64_t size, const char *series)
{
        sample("GB/s", gigabytes_per_second(size, median(seconds, repeats)), "%s.%llu", series,
               (unsigned long long)size);
}

/* Writes beside reads, in turn. */
void bench_writes(void)
{
        enum { WARM_UPS = 2 };
        const uint64_t size_max = 256 * MIB;
        unsigned n = rounds(4, 15);
        struct duo d;

        duo_open(&d, true, NULL, size_max);
        for (int i = 0; i < WARM_UPS; i++)
                for (int direction = 0; direction < 2; direction++)
                        (void)duo_move(&d, direction, size_max);
        for (unsigned i = 0; i < n; i++) {
                begin_round("round %u of %u", i + 1, n);
                for (uint64_t size = 64 * KIB; size <= size_max; size *= 4) {
                        unsigned repeats = repeats_of(size);
                        double seconds[2][REPEATS_MAX];

                        for (unsigned j = 0; j < 2 * repeats; j++) {
                                unsigned direction = (i + j) % 2;

                                seconds[direction][j / 2] = duo_move(&d, (int)direction, size);
                        }
                        for (int direction = 0; direction < 2; direction++)
                                sample_rate(seconds[direction], repeats, size,
                                            direction ? "writes.write" : "writes.read");
                }
        }
        pair_stop(&d.pair);
}

/* --copy-threads 2 beside none, in turn. */
void bench_threads(void)
{
        static const uint64_t sizes[] = { MIB, 16 * MIB, 256 * MIB };
        static const char *const series[2][2] = { { "threads.none.read", "threads.none.write" },
                                                  { "threads.two.read", "threads.two.write" } };
        unsigned n = rounds(4, 15);
        struct duo duos[2];

        duo_open(&duos[0], false, NULL, 256 * MIB);
        duo_open(&duos[1], false, (const char *const[]){ "--copy-threads", "2", NULL }, 256 * MIB);
        for (int which = 0; which < 2; which++)
                for (int direction = 0; direction < 2; direction++)
                        (void)duo_move(&duos[which], direction, 256 * MIB);
        for (unsigned i = 0; i < n; i++) {
                begin_round("round %u of %u", i + 1, n);
                for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
                        unsigned repeats = repeats_of(sizes[s]);
                        double seconds[2][2][REPEATS_MAX];

                        for (unsigned j = 0; j < 4 * repeats; j++) {
                                unsigned which = (i + j) % 2, direction = j / 2 % 2;

                                seconds[which][direction][j / 4] = duo_move(&duos[which], (int)direction, sizes[s]);
                        }
                        for (int k = 0; k < 4; k++)
                                sample_rate(seconds[k / 2][k % 2], repeats, sizes[s], series[k / 2][k % 2]);
                }
        }
        pair_stop(&duos[1].pair);
        pair_stop(&duos[0].pair);
}

/* ---- memory that an embedding program owns ---- */

void bench_own(void)
{
        enum { SIZE = 256 << 20, WARM_UPS = 2 };
        unsigned n = rounds(6, 30);
        struct reference memcpy_reference;
        struct region own, ordinary;
        struct worker owner, other;

        worker_start_owner(&owner, SIZE, &own);
        worker_start(&other, NULL);
        region_create(other.client, SIZE, &ordinary);
        reference_start(&memcpy_reference, "ref_memcpy", (const char *const[]){ "268435456", NULL });
        for (unsigned i = 0; i < WARM_UPS + n; i++) {
                struct timing read, write;
                double seconds;

                if (i >= WARM_UPS)
                        begin_round("round %u of %u", i - WARM_UPS + 1, n);
                seconds = reference_run(&memcpy_reference, SIZE);
                move_simple(owner.client, other.client, FERRY_READABLE, &own, &ordinary, SIZE, &read);
                move_simple(other.client, owner.client, FERRY_WRITABLE, &ordinary, &own, SIZE, &write);
                if (i < WARM_UPS)
                        continue;
                sample("GB/s", gigabytes_per_second(SIZE, seconds), "own.memcpy");
                sample("GB/s", gigabytes_per_second(SIZE, read.cycle_s), "own.read");
                sample("GB/s", gigabytes_per_second(SIZE, write.cycle_s), "own.write");
        }
        reference_stop(&memcpy_reference);
        worker_stop(&other);
        worker_stop(&owner);
}
