/* SPDX-License-Identifier: Apache-2.0 */
#include "mapping.h"

#include <linux/magic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "cli.h"

/* Newer than Debian 12's headers. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

enum { HUGE = 2 << 20, MAPPING_MIN = 8 * HUGE, MAPPING_PIECE = 64 * HUGE /* bytes between two checks for signals */ };

/* Maps at a multiple of HUGE, which huge pages require. NULL on failure. */
static char *mapping_place(int fd, size_t size)
{
        char *start = mmap(NULL, size + HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (start == MAP_FAILED)
                return NULL;
        size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (size + page - 1) / page * page;
        size_t before = -(uintptr_t)start % HUGE, after = size + HUGE - before - whole;
        char *map = mmap(start + before, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
        if (map == MAP_FAILED) {
                munmap(start, size + HUGE);
                return NULL;
        }
        if (before)
                munmap(start, before);
        if (after)
                munmap(map + whole, after);
        return map;
}

/* MADV_COLLAPSE makes huge pages of ranges that have a page. It fails where an access would raise SIGBUS. */
static bool mapping_collapse(char *map, size_t size)
{
        for (size_t i = 0; i < size; i += HUGE)
                if (madvise(map + i, 1, MADV_POPULATE_WRITE) < 0)
                        return false;
        return size == 0 || madvise(map, size, MADV_COLLAPSE) == 0;
}

static bool mapping_fill(char *map, size_t size)
{
        for (size_t done = 0, piece; done < size; done += piece) {
                piece = size - done < MAPPING_PIECE ? size - done : MAPPING_PIECE;
                if (signals_caught() || !mapping_collapse(map + done, piece / HUGE * HUGE) ||
                    madvise(map + done, piece, MADV_POPULATE_WRITE) < 0)
                        return false;
        }
        return true;
}

void *mapping_new(int fd, size_t size)
{
        struct statfs system;
        if (size < MAPPING_MIN || size > SIZE_MAX - HUGE || fstatfs(fd, &system) < 0 || system.f_type != TMPFS_MAGIC ||
            ftruncate(fd, (off_t)size) < 0)
                return NULL;
        char *map = mapping_place(fd, size);
        if (map && !mapping_fill(map, size)) {
                munmap(map, size);
                map = NULL;
        }
        return map;
}
