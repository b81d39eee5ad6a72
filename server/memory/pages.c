/* SPDX-License-Identifier: Apache-2.0 */
#include "region_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ferry/encoding.h>
#include <ferry/madvise.h>

#include "base/util.h"

/* Missing in Debian 12's headers, or only in the kernel's. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/*
 * A call keeps the memory map of the process locked, and other threads that map memory wait. 8 MiB take 4 ms with
 * ordinary pages.
 */
enum { STEP = 8 << 20 };

static int memfd_new(uint64_t region)
{
        char id[FERRY_ID_TEXT_SIZE], name[sizeof(FERRY_REGION_FILE) + sizeof(id)];
        int fd;

        ferry_id_format("rgn_", region, id);
        (void)snprintf(name, sizeof(name), FERRY_REGION_FILE "%s", id);
        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
        if (fd < 0 && errno == EINVAL)
                fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
        return fd < 0 ? -errno : fd;
}

bool pages_may_have(uint64_t size)
{
        struct rlimit limit;

        return getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY || size <= limit.rlim_cur;
}

/* Maps at a multiple of PAGES_HUGE, which huge pages need. */
static int map(int fd, size_t size, void **ret_address)
{
        size_t spare = size < PAGES_HUGE ? 0 : PAGES_HUGE, reserved;
        uint8_t *start, *address;

        if (__builtin_add_overflow(size, spare, &reserved))
                return -ENOMEM;
        start = mmap(NULL, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (start == MAP_FAILED)
                return -errno;
        address = start + (spare ? -(uintptr_t)start % PAGES_HUGE : 0);
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

int pages_new(uint64_t region, size_t size, struct pages *ret_pages)
{
        FERRY_CLEANUP(cleanup_close) int fd = -1;
        void *address = NULL;
        int r;

        if (!pages_may_have(size))
                return -EFBIG;
        fd = memfd_new(region);
        if (fd < 0)
                return fd;
        /* A process that gets this descriptor must not open it again for writing. */
        if (fchmod(fd, 0600) < 0 || ftruncate(fd, (off_t)size) < 0 ||
            fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0)
                return -errno;
        r = map(fd, size, &address);
        if (r < 0)
                return r;
        *ret_pages = (struct pages){ .fd = steal_fd(&fd), .address = address, .size = size };
        return 0;
}

/*
 * On most systems shmem uses no huge pages (shmem_enabled), but MADV_COLLAPSE (Linux 6.1) makes them, for ranges that
 * have a page, and not from the pool of hugetlbfs. Measured: two threads make 12 GB/s, instead of 4 GB/s of ordinary
 * pages; freeing takes 3 ms a GiB instead of 110. A call waits for the worker thread of every processor, whatever its
 * size, but does not lock the memory map: so the ranges are large.
 */
static bool huge_fill(uint8_t *address, size_t size)
{
        for (size_t i = 0; i < size; i += PAGES_HUGE)
                if (madvise(address + i, 1, MADV_POPULATE_WRITE) < 0)
                        return false;
        return madvise(address, size, MADV_COLLAPSE) == 0;
}

/* For kernels before 5.14: without allocated space the first touch could raise SIGBUS. */
static int touch(const struct pages *pages, size_t offset, size_t size)
{
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        volatile uint8_t *address = (uint8_t *)pages->address + offset;
        int r;

        do {
                r = fallocate(pages->fd, 0, (off_t)offset, (off_t)size);
        } while (r < 0 && errno == EINTR);
        if (r < 0)
                return -errno;
        for (size_t i = 0; i < size; i += page)
                address[i] = 0;
        return 0;
}

static int step_fill(const struct pages *pages, size_t offset, size_t size)
{
        uint8_t *address = (uint8_t *)pages->address + offset;

        /* Maps huge pages as such, and makes missing pages. An error where a touch would raise SIGBUS. */
        if (madvise(address, size, MADV_POPULATE_WRITE) == 0)
                return 0;
        if (errno == EINVAL)
                return touch(pages, offset, size);
        return errno == EFAULT ? -ENOSPC : -errno;
}

int pages_fill(const struct pages *pages, size_t offset, size_t size, atomic_bool *huge)
{
        const size_t whole = size / PAGES_HUGE * PAGES_HUGE;

        if (whole && atomic_load(huge) && !huge_fill((uint8_t *)pages->address + offset, whole))
                atomic_store(huge, false);
        for (size_t done = 0; done < size; done += STEP) {
                int r = step_fill(pages, offset + done, size - done < STEP ? size - done : STEP);

                if (r < 0)
                        return r;
        }
        return 0;
}

int pages_seal(const struct pages *pages, bool future_write)
{
        return fcntl(pages->fd, F_ADD_SEALS, (future_write ? F_SEAL_FUTURE_WRITE : 0) | F_SEAL_SEAL) < 0 ? -errno : 0;
}

void pages_free(struct pages *pages)
{
        if (pages->fd < 0)
                return;
        for (size_t done = 0; done < pages->size; done += STEP)
                (void)munmap((uint8_t *)pages->address + done, pages->size - done < STEP ? pages->size - done : STEP);
        (void)close(pages->fd);
        pages->fd = -1;
}
