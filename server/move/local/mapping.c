/* SPDX-License-Identifier: Apache-2.0 */
#include "mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/util.h"

/*
 * Memfds: made here, sealed, sent to peers read-only; and those of peers, checked before they are mapped. A file that
 * can shrink, or has huge pages, of which the system can run short, would raise SIGBUS in a copy, so it is refused.
 * Thread: any, but that the count of a struct memfd is the progress thread's.
 */

/* Takes over fd, also on failure. NULL when memory is short. */
static struct memfd *memfd_of(int fd)
{
        struct memfd *memfd = malloc(sizeof(*memfd));

        if (!memfd) {
                (void)close(fd);
                return NULL;
        }
        *memfd = (struct memfd){ .fd = fd, .users = 1 };
        return memfd;
}

struct memfd *memfd_hold(struct memfd *memfd)
{
        memfd->users++;
        return memfd;
}

struct memfd *memfd_drop(struct memfd *memfd)
{
        if (memfd && --memfd->users == 0) {
                (void)close(memfd->fd);
                free(memfd);
        }
        return NULL;
}

/* F_SEAL_FUTURE_WRITE (Linux 5.1) keeps this mapping writable, and forbids any other. */
static int fill(int fd, size_t size, void **ret_address)
{
        void *address;
        int r;

        if (fallocate(fd, 0, 0, (off_t)size) < 0)
                return -errno;
        address = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (address == MAP_FAILED)
                return -errno;
        if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) < 0) {
                r = -errno;
                (void)munmap(address, size);
                return r;
        }
        *ret_address = address;
        return 0;
}

int memfd_new(const char *name, size_t size, void **ret_address, struct memfd **ret_memfd)
{
        FERRY_CLEANUP(cleanup_close) int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
        void *address = NULL;
        int r = fd < 0 ? -errno : fill(fd, size, &address);

        if (r < 0)
                return r;
        *ret_memfd = memfd_of(steal_fd(&fd));
        if (!*ret_memfd) {
                (void)munmap(address, size);
                return -ENOMEM;
        }
        *ret_address = address;
        return 0;
}

static bool has_ordinary_pages(int fd)
{
        struct statfs fs;

        return fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
}

static bool cannot_shrink(int fd)
{
        int seals = fcntl(fd, F_GET_SEALS);

        return seals >= 0 && (seals & F_SEAL_SHRINK);
}

int memfd_open(int fd, struct memfd **ret_memfd)
{
        char path[40];
        int opened;

        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        opened = open(path, O_RDONLY | O_CLOEXEC);
        if (opened < 0)
                return -errno;
        *ret_memfd = memfd_of(opened);
        return *ret_memfd ? 0 : -ENOMEM;
}

int memfd_map(int fd, uint64_t size, void **ret_address)
{
        struct stat st;
        void *address;

        if (!cannot_shrink(fd) || !has_ordinary_pages(fd))
                return -EBADMSG;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (st.st_uid != geteuid() || size == 0 || st.st_size <= 0 || (uint64_t)st.st_size < size)
                return -EBADMSG;
        address = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fd, 0);
        if (address == MAP_FAILED)
                return -errno;
        *ret_address = address;
        return 0;
}

/* ---- unmapping ---- */

enum { UNMAP_STEP = 64 << 20 /* bytes; between two steps other threads can map and unmap */ };

/*
 * Unpinning may wait for the device. Unmapping or closing takes as long as 0.2 s for each GiB where the peer has died,
 * since the last one that has a memory frees it. So the progress thread must do none of these.
 */

static void unmap(const struct gpu_pin *range)
{
        uint8_t *address = (uint8_t *)(uintptr_t)range->address;

        for (size_t done = 0; done < range->size; done += UNMAP_STEP)
                (void)munmap(address + done, range->size - done < UNMAP_STEP ? range->size - done : UNMAP_STEP);
}

static void unpin_run(void *context)
{
        struct gpu_pin *range = context;

        gpu_pin_end(range);
        unmap(range);
        free(range);
}

/*
 * A short range without a pin is unmapped at once: a task would cost more. So is one that memory is too short to hand
 * over.
 */
void unmap_range(struct gpu_pin *range, struct pool_user *tasks)
{
        struct pool_devices devices = { .one = gpu_is_pinned(range) ? 1 + range->gpu : 0 };
        struct gpu_pin *copy = devices.one || range->size > UNMAP_STEP ? malloc(sizeof(*copy)) : NULL;

        if (copy) {
                gpu_pin_move(copy, range);
                pool_run(tasks, POOL_WORK, devices, unpin_run, copy);
                return;
        }
        gpu_pin_end(range);
        unmap(range);
}
