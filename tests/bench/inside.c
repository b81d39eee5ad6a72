/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

/* 4 KiB between two programs that have their workers inside: no HTTP, from create to both ends seen. */

enum { REPEATS = 200 };

static void measure(struct reference *program, const char *series)
{
        double seconds[REPEATS];

        for (int i = 0; i < REPEATS; i++)
                seconds[i] = reference_run(program, 0);
        sample("us", median(seconds, REPEATS) * 1e6, "inside.%s", series);
}

void bench_inside(void)
{
        static const char *const python[] = { FERRY_PYTHON_MODULE, FERRY_WORKER_LIBRARY, NULL };
        struct reference c, asyncio;
        unsigned n = rounds(5, 21);

        reference_start(&c, "sim_inside", NULL);
        reference_start(&asyncio, "sim_asyncio", python);
        (void)reference_run(&asyncio, 0); /* connects */
        for (unsigned i = 0; i < n; i++) {
                begin_round("round %u of %u", i + 1, n);
                measure(&c, "c");
                measure(&asyncio, "asyncio");
        }
        reference_stop(&asyncio);
        reference_stop(&c);
}
