/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

/*
 * 4 KiB between two programs that have their workers inside: no HTTP, from create to both ends seen. New programs for
 * each round: where the scheduler put their threads decides, and stays as it is until they end.
 */

enum { REPEATS = 200 };

static void measure(const char *name, const char *const *arguments, const char *series)
{
        struct reference program;
        double seconds[REPEATS];

        reference_start(&program, name, arguments);
        (void)reference_run(&program, 0); /* connects */
        for (int i = 0; i < REPEATS; i++)
                seconds[i] = reference_run(&program, 0);
        reference_stop(&program);
        sample("us", median(seconds, REPEATS) * 1e6, "inside.%s", series);
}

void bench_inside(void)
{
        static const char *const python[] = { FERRY_PYTHON_MODULE, FERRY_WORKER_LIBRARY, NULL };
        unsigned n = rounds(5, 21);

        for (unsigned i = 0; i < n; i++) {
                begin_round("round %u of %u", i + 1, n);
                measure("sim_inside", NULL, "c");
                measure("sim_asyncio", python, "asyncio");
                measure("sim_asyncio", NULL, "messages");
        }
}
