/* SPDX-License-Identifier: Apache-2.0 */
#include <ferry/mapping.h>

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

int ferry_map(int fd, size_t size, void **ret_address)
{
        size_t spare = size < FERRY_HUGE_PAGE ? 0 : FERRY_HUGE_PAGE, reserved;
        uint8_t *start, *address;

        if (__builtin_add_overflow(size, spare, &reserved))
                return -ENOMEM;
        start = mmap(NULL, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (start == MAP_FAILED)
                return -errno;
        address = start + (spare ? -(uintptr_t)start % FERRY_HUGE_PAGE : 0);
        if (mmap(address, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
                int r = -errno;

                (void)munmap(start, reserved);
                return r;
        }
        if (spare) {
                size_t page = (size_t)sysconf(_SC_PAGESIZE);
                uint8_t *end = address + (size + page - 1) / page * page;

                if (address > start)
                        (void)munmap(start, (size_t)(address - start));
                if (start + reserved > end)
                        (void)munmap(end, (size_t)(start + reserved - end));
        }
        *ret_address = address;
        return 0;
}

bool ferry_map_huge(void *address, size_t size)
{
        for (size_t i = 0; i < size; i += FERRY_HUGE_PAGE)
                if (madvise((uint8_t *)address + i, 1, MADV_POPULATE_WRITE) < 0)
                        return false;
        return size == 0 || madvise(address, size, MADV_COLLAPSE) == 0;
}
