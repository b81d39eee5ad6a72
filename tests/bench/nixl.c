/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "bench.h"

/*
 * Beside NIXL between two processes of this host, its UCX backend as it comes: from making the operation to both ends
 * knowing of its end. 4 KiB between programs that have their worker inside, as NIXL has its agent; 256 MiB through
 * REST.
 */

enum { SMALL = 4096, BULK = 256 << 20, REPEATS = 100 };

static void measure_small(struct reference *program, const char *series)
{
        double seconds[REPEATS];

        for (int i = 0; i < REPEATS; i++)
                seconds[i] = reference_run(program, SMALL);
        sample("us", median(seconds, REPEATS) * 1e6, "nixl.small.%s", series);
}

static void measure(struct reference *nixl, struct reference *inside, struct pair *pair)
{
        unsigned n = rounds(3, 15);
        struct region at_a, at_b;
        struct timing t;

        region_create(pair->a.client, BULK, &at_a);
        region_create(pair->b.client, BULK, &at_b);
        for (unsigned i = 0; i <= n; i++) {
                double theirs = reference_run(nixl, BULK);

                move_simple(pair->a.client, pair->b.client, FERRY_READABLE, &at_a, &at_b, BULK, &t);
                if (i == 0) /* connects */
                        continue;
                begin_round("round %u of %u", i, n);
                sample("GB/s", gigabytes_per_second(BULK, theirs), "nixl.bulk.theirs");
                sample("GB/s", gigabytes_per_second(BULK, t.cycle_s), "nixl.bulk.ours");
                measure_small(nixl, "theirs");
                measure_small(inside, "ours");
        }
}

void bench_nixl(void)
{
        struct reference nixl, inside;
        struct pair pair;
        char text[32];

        (void)snprintf(text, sizeof(text), "%d", BULK);
        reference_start(&nixl, "ref_nixl", (const char *const[]){ text, NULL });
        if (strcmp(reference_line(&nixl), "ready") != 0) {
                note("nixl: the wheel nixl does not start for python3: left out");
                reference_stop(&nixl);
                return;
        }
        reference_start(&inside, "sim_inside", NULL);
        pair_start(&pair, false, NULL);
        measure(&nixl, &inside, &pair);
        pair_stop(&pair);
        reference_stop(&inside);
        reference_stop(&nixl);
}
