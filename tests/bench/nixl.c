/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

/*
 * Beside NIXL between two processes of this host, as it comes, and with UCX's shared memory, which it does not take
 * otherwise: from making the operation to both ends knowing of its end. Both ends of NIXL poll meanwhile. 4 KiB between
 * programs that have their worker inside, as NIXL has its agent; 256 MiB through REST.
 */

enum { SMALL = 4096, BULK = 256 << 20, REPEATS = 100, WAYS = 2 };

static const struct {
        const char *series, *variable; /* set to "y"; NULL = none */
} ways[WAYS] = { { "theirs", NULL }, { "theirs_shm", "UCX_POSIX_ERROR_HANDLING" } };

static void measure_small(struct reference *program, const char *series)
{
        double seconds[REPEATS];

        for (int i = 0; i < REPEATS; i++)
                seconds[i] = reference_run(program, SMALL);
        sample("us", median(seconds, REPEATS) * 1e6, "nixl.small.%s", series);
}

static void measure(struct reference nixl[WAYS], struct reference *inside, struct pair *pair)
{
        unsigned n = rounds(3, 15);
        struct region at_a, at_b;
        struct timing t;

        region_create(pair->a.client, BULK, &at_a);
        region_create(pair->b.client, BULK, &at_b);
        for (unsigned i = 0; i <= n; i++) {
                double theirs[WAYS];

                for (int way = 0; way < WAYS; way++)
                        theirs[way] = reference_run(&nixl[way], BULK);
                move_simple(pair->a.client, pair->b.client, FERRY_READABLE, &at_a, &at_b, BULK, &t);
                if (i == 0) /* connects */
                        continue;
                begin_round("round %u of %u", i, n);
                sample("GB/s", gigabytes_per_second(BULK, t.cycle_s), "nixl.bulk.ours");
                measure_small(inside, "ours");
                for (int way = 0; way < WAYS; way++) {
                        sample("GB/s", gigabytes_per_second(BULK, theirs[way]), "nixl.bulk.%s", ways[way].series);
                        measure_small(&nixl[way], ways[way].series);
                }
        }
}

/* false: the wheel is not there. */
static bool start(struct reference nixl[WAYS])
{
        char text[32];

        (void)snprintf(text, sizeof(text), "%d", BULK);
        for (int way = 0; way < WAYS; way++) {
                if (ways[way].variable)
                        (void)setenv(ways[way].variable, "y", true);
                reference_start(&nixl[way], "ref_nixl", (const char *const[]){ text, NULL });
                if (ways[way].variable)
                        (void)unsetenv(ways[way].variable);
                if (strcmp(reference_line(&nixl[way]), "ready") == 0)
                        continue;
                for (; way >= 0; way--)
                        reference_stop(&nixl[way]);
                return false;
        }
        return true;
}

void bench_nixl(void)
{
        struct reference nixl[WAYS], inside;
        struct pair pair;

        if (!start(nixl)) {
                note("nixl: the wheel nixl does not start for python3: left out");
                return;
        }
        reference_start(&inside, "sim_inside", NULL);
        pair_start(&pair, false, NULL);
        measure(nixl, &inside, &pair);
        pair_stop(&pair);
        reference_stop(&inside);
        for (int way = 0; way < WAYS; way++)
                reference_stop(&nixl[way]);
}
