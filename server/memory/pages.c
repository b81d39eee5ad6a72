/* SPDX-License-Identifier: Apache-2.0 */
#include "region_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ferry/encoding.h>
#include <ferry/mapping.h>

#include "base/util.h"

/*
 * Pages: the memory of a region, a memfd with all its pages present and mapped once. Growing and shrinking are sealed
 * off from the start, so that no access can raise SIGBUS, in this process or in one that maps the file. Pages are made
 * by MADV_POPULATE_WRITE, which fails where a first touch would kill the process, in steps.
 *
 * Thread: any; the owner of the struct keeps others away. Several threads may fill parts of one memory.
 */

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

/*
 * Makes the file. Its name shows in /proc; older kernels do not know MFD_NOEXEC_SEAL. Returns a descriptor or -errno.
 */
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
        r = ferry_map(fd, size, &address);
        if (r < 0)
                return r;
        *ret_pages = (struct pages){ .fd = steal_fd(&fd), .address = address, .size = size };
        return 0;
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

/* Makes the pages of one step. Returns 0; -ENOSPC: memory is used up; other -errno. */
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

/*
 * Two threads make 12 GB/s of huge pages, instead of 4 GB/s of ordinary pages; freeing them takes 3 ms a GiB instead of
 * 110. A call waits for the worker thread of every processor, whatever its size, but does not lock the memory map: so
 * the ranges are large.
 */
int pages_fill(const struct pages *pages, size_t offset, size_t size, atomic_bool *huge)
{
        const size_t whole = size / FERRY_HUGE_PAGE * FERRY_HUGE_PAGE;

        if (whole && atomic_load(huge) && !ferry_map_huge((uint8_t *)pages->address + offset, whole))
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
