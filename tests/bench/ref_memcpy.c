/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ref_memory.h"

/* memcpy between two memories as regions are: no copy between processes of one machine is faster in one thread. */

int main(int argc, char **argv)
{
        size_t size_max = argc == 2 ? strtoull(argv[1], NULL, 10) : 0, size;
        volatile uint8_t sink;
        uint8_t *from = ref_memory_new(size_max, 0x5a), *to = ref_memory_new(size_max, 0);
        char line[64];

        if (!from || !to)
                return EXIT_FAILURE;
        while (fgets(line, sizeof(line), stdin)) {
                struct timespec start, end;

                size = strtoull(line, NULL, 10);
                if (size == 0 || size > size_max)
                        return EXIT_FAILURE;
                (void)clock_gettime(CLOCK_MONOTONIC, &start);
                memcpy(to, from, size);
                sink = to[size - 1]; /* the copy has a reader */
                (void)sink;
                (void)clock_gettime(CLOCK_MONOTONIC, &end);
                (void)printf("%.9f\n",
                             (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9);
                (void)fflush(stdout);
        }
        return EXIT_SUCCESS;
}
