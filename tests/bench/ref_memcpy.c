/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* memcpy between two mapped files of /dev/shm: no copy between processes of one machine is faster in one thread. */

static void *map(size_t size, int value)
{
        char path[] = "/dev/shm/ferry-bench-XXXXXX";
        int fd = mkostemp(path, O_CLOEXEC);
        void *memory;

        (void)unlink(path);
        if (fd < 0 || posix_fallocate(fd, 0, (off_t)size) != 0)
                exit(EXIT_FAILURE);
        memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
        if (memory == MAP_FAILED)
                exit(EXIT_FAILURE);
        (void)close(fd);
        return memset(memory, value, size);
}

int main(int argc, char **argv)
{
        size_t size_max = argc == 2 ? strtoull(argv[1], NULL, 10) : 0, size;
        volatile uint8_t sink;
        uint8_t *from = map(size_max, 0x5a), *to = map(size_max, 0);
        char line[64];

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
