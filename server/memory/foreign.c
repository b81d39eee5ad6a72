/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/util.h"
#include "memory/gpu.h"
#include "region_internal.h"

/*
 * Host memory that the embedding program owns, and what the kernel tells of it. The program may unmap it, or truncate
 * the file behind it, at any moment, also while this worker copies: then an access raises SIGBUS. So memory that is not
 * steady is a space whose bytes the kernel copies (struct foreign); a copy of what is gone fails with -ENXIO, -EROFS or
 * -ENODATA.
 *
 * Thread: any. A struct foreign lives as long as its region; a thread's window as long as the thread.
 */

/* ---- what the kernel knows of memory ---- */

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

#define MAPS_FILE "/proc/self/maps"

/* One mapping. */
struct mapped {
        uint64_t start, end;
        bool readable, writable;
        uint64_t inode; /* 0 = no file is behind it */
        dev_t device;
        char name[PATH_MAX + 16]; /* of the file; "" = not known */
};

/* ---- by a query: linux/fs.h of 6.11, which older headers lack ---- */

struct query {
        uint64_t size, flags, address;
        uint64_t start, end, vma_flags, page_size, offset, inode;
        uint32_t major, minor, name_size, build_id_size;
        uint64_t name, build_id;
};

#define QUERY _IOWR('f', 17, struct query)

enum { QUERY_READABLE = 1, QUERY_WRITABLE = 2, QUERY_COVERING_OR_NEXT = 16 };

/* The descriptor, or -errno. */
static int maps_open(struct maps *maps)
{
        int none = 0, fd = atomic_load(&maps->fd);

        if (fd > 0)
                return fd;
        fd = open(MAPS_FILE, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        fork_private(fd); /* it would tell a child of its parent's memory */
        if (atomic_compare_exchange_strong(&maps->fd, &none, fd))
                return fd;
        fork_private_close(fd);
        return none;
}

void maps_clear(struct maps *maps)
{
        int fd = atomic_exchange(&maps->fd, 0);

        if (fd > 0)
                fork_private_close(fd);
}

/* Finds the mapping that has the address, or the next one. 0; -ENOENT: none; other -errno: the kernel has no such
 * query. */
static int query_next(int fd, uint64_t address, struct mapped *ret_mapped)
{
        struct query q = { .size = sizeof(q), .flags = QUERY_COVERING_OR_NEXT, .address = address };

        if (ioctl(fd, QUERY, &q) < 0)
                return -errno;
        *ret_mapped->name = '\0';
        if (q.inode) { /* the name takes longer, and has no meaning otherwise */
                q = (struct query){ .size = sizeof(q),
                                    .flags = QUERY_COVERING_OR_NEXT,
                                    .address = address,
                                    .name_size = PATH_MAX,
                                    .name = (uintptr_t)ret_mapped->name };
                if (ioctl(fd, QUERY, &q) < 0)
                        return -errno;
        }
        ret_mapped->start = q.start;
        ret_mapped->end = q.end;
        ret_mapped->readable = q.vma_flags & QUERY_READABLE;
        ret_mapped->writable = q.vma_flags & QUERY_WRITABLE;
        ret_mapped->inode = q.inode;
        ret_mapped->device = makedev(q.major, q.minor);
        return 0;
}

/* ---- by reading ---- */

/* "7f00-7f10 rw-p 00000000 00:01 42    /name" */
static bool parse_rest(const char *rest, struct mapped *ret_mapped)
{
        unsigned long inode;
        unsigned major, minor;
        char flags[5];
        int name = 0;

        if (sscanf(rest, " %4s %*x %x:%x %lu %n", flags, &major, &minor, &inode, &name) < 4 || !name)
                return false;
        ret_mapped->readable = flags[0] == 'r';
        ret_mapped->writable = flags[1] == 'w';
        ret_mapped->inode = inode;
        ret_mapped->device = makedev(major, minor);
        (void)snprintf(ret_mapped->name, sizeof(ret_mapped->name), "%s", rest + name);
        ret_mapped->name[strcspn(ret_mapped->name, "\n")] = '\0';
        return true;
}

/*
 * Finds in file, which is read on from where it is, the first mapping that ends beyond the address. Returns 0; -ENOENT:
 * none; -EIO: the line is not as expected.
 */
static int read_next(FILE *file, uint64_t address, struct mapped *ret_mapped)
{
        FERRY_CLEANUP(cleanup_free) char *line = NULL;
        size_t room = 0;
        char *rest;

        while (getline(&line, &room, file) > 0) {
                ret_mapped->start = strtoull(line, &rest, 16);
                ret_mapped->end = *rest == '-' ? strtoull(rest + 1, &rest, 16) : 0;
                if (ret_mapped->end > address)
                        return parse_rest(rest, ret_mapped) ? 0 : -EIO;
        }
        return -ENOENT;
}

/* ---- what the mappings are ---- */

static dev_t kernel_files;

/* The kernel's own tmpfs has the files of shared memory without a name: memfds, MAP_SHARED | MAP_ANONYMOUS, shmget. */
static void find_kernel_files(void)
{
        FERRY_CLEANUP(cleanup_close) int fd = memfd_create("ferry-device", MFD_CLOEXEC);
        struct stat st;

        if (fd >= 0 && fstat(fd, &st) == 0)
                kernel_files = st.st_dev;
}

static bool is_character_device(const struct mapped *mapped)
{
        struct stat st;

        return stat(mapped->name, &st) == 0 && S_ISCHR(st.st_mode) && st.st_ino == mapped->inode &&
               st.st_dev == mapped->device;
}

/* Huge pages are there once they are populated: they are not swapped. */
static bool has_huge_pages(uint64_t start, uint64_t end)
{
        uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

        start -= start % page;
        return madvise((void *)(uintptr_t)start, (size_t)(end - start), MADV_POPULATE_READ) == 0;
}

/*
 * Whether no access to [start, end) can raise SIGBUS. No program can truncate the files of the kernel's own tmpfs but
 * memfds, or a character device, which the memory of drivers is, as pinned memory of CUDA.
 */
static bool is_steady(const struct mapped *mapped, uint64_t start, uint64_t end)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;

        if (!mapped->inode)
                return true;
        (void)pthread_once(&once, find_kernel_files);
        if (kernel_files && mapped->device == kernel_files)
                return strncmp(mapped->name, "/memfd:", strlen("/memfd:")) != 0;
        if (strncmp(mapped->name, "/anon_hugepage", strlen("/anon_hugepage")) == 0)
                return has_huge_pages(start, end);
        return is_character_device(mapped);
}

/* Adds what the mapping says of [at, end) to the facts. Returns where it ends; end = the facts are complete. */
static uint64_t facts_add(struct maps_facts *facts, const struct mapped *mapped, uint64_t at, uint64_t end)
{
        uint64_t part_end = mapped->end < end ? mapped->end : end;

        if (mapped->start > at || !mapped->readable) {
                *facts = (struct maps_facts){ 0 };
                return end;
        }
        facts->writable &= mapped->writable;
        if (facts->steady)
                facts->steady = is_steady(mapped, at, part_end);
        return part_end;
}

void maps_look(struct maps *maps, const void *address, size_t size, struct maps_facts *ret_facts)
{
        FERRY_CLEANUP(cleanup_file) FILE *file = NULL;
        uint64_t at = (uintptr_t)address, end = at + size;
        int fd = maps_open(maps), r = 0;
        bool told = fd >= 0;
        struct mapped mapped;

        *ret_facts = (struct maps_facts){ .mapped = true, .writable = true, .steady = true };
        while (told && r == 0 && at < end) {
                r = file ? read_next(file, at, &mapped) : query_next(fd, at, &mapped);
                if (r == 0) {
                        at = facts_add(ret_facts, &mapped, at, end);
                } else if (r != -ENOENT) {
                        told = !file && (file = fopen(MAPS_FILE, "re"));
                        r = 0;
                }
        }
        if (!told || r < 0)
                *ret_facts = (struct maps_facts){ .writable = !told };
}

/* ---- the memory of the program ---- */

_Static_assert((int)SPACE_NO_GPU >= (int)GPU_MAX, "no GPU has the number");

/*
 * Copies go through the window of the thread, a memfd that is mapped: pwrite() reads foreign memory, and pread() writes
 * it, and both fail with EFAULT where an access by the process would raise SIGBUS or SIGSEGV. They are ordinary system
 * calls, which every container allows; process_vm_readv() is not.
 */
enum { WINDOW = 256 << 10 /* bytes; stays in the processor's caches */ };

struct foreign {
        struct space space;
        struct maps *maps; /* the table's */
};

/* ---- windows ---- */

static pthread_key_t window_key;

/* The destructor of the key: runs as the thread ends. */
static void window_free(void *context)
{
        pages_free(context);
        free(context);
}

static void make_key(void)
{
        (void)pthread_key_create(&window_key, window_free);
}

/* Makes the calling thread's window. Returns 0 or -errno. */
static int window_new(struct pages **ret_window)
{
        struct pages *window = calloc(1, sizeof(*window));
        atomic_bool huge = false;
        int r = window ? pages_new(0, WINDOW, window) : -ENOMEM;

        if (r == 0) {
                r = pages_fill(window, 0, WINDOW, &huge);
                if (r == 0)
                        r = -pthread_setspecific(window_key, window);
                if (r < 0)
                        pages_free(window);
        }
        if (r < 0) {
                free(window);
                return r;
        }
        *ret_window = window;
        return 0;
}

/* The window of the calling thread, made at first use. Returns 0 or -errno. */
static int window_get(struct pages **ret_window)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;

        if (!pages_may_have(WINDOW)) /* also of a window that is there: pwrite() would raise SIGXFSZ */
                return -EFBIG;
        (void)pthread_once(&once, make_key);
        *ret_window = pthread_getspecific(window_key);
        return *ret_window ? 0 : window_new(ret_window);
}

/* ---- copies ---- */

/* Why the kernel could not copy from or into memory that begins at address. */
static int cause_of(const struct foreign *foreign, const void *address, bool store)
{
        struct maps_facts facts;

        maps_look(foreign->maps, address, 1, &facts);
        if (!facts.mapped)
                return -ENXIO;
        return store && !facts.writable ? -EROFS : -ENODATA;
}

/* Moves size bytes between the window and memory. */
static int move(const struct foreign *foreign, const struct pages *window, uint8_t *address, size_t size, bool store)
{
        for (size_t done = 0; done < size;) {
                ssize_t n = store ? pread(window->fd, address + done, size - done, (off_t)done)
                                  : pwrite(window->fd, address + done, size - done, (off_t)done);

                if (n > 0)
                        done += (size_t)n;
                else if (n == 0 || errno == EFAULT)
                        return cause_of(foreign, address + done, store);
                else if (errno != EINTR)
                        return -errno;
        }
        return 0;
}

/* Copies between the window and memory of any space, and waits for it. */
static int copy_part(const struct space_ops *ops, const struct space *space, struct pages *window, uint8_t *address,
                     size_t size, bool store)
{
        int r, finished;

        if (space && space->ops == ops)
                return move(FERRY_CONTAINER_OF(space, struct foreign, space), window, address, size, store);
        r = store ? space_copy(space, address, NULL, window->address, size)
                  : space_copy(NULL, window->address, space, address, size);
        finished = space_finish(space, NULL);
        return r < 0 ? r : finished;
}

static int foreign_copy(const struct space *to_space, void *to, const struct space *from_space, const void *from,
                        size_t size);

static int foreign_finish(const struct space *space)
{
        (void)space;
        return 0;
}

/* foreign_copy finds out. */
static int foreign_check(const struct space *space)
{
        (void)space;
        return 0;
}

static const struct space_ops foreign_ops = {
        .copy = foreign_copy, .finish = foreign_finish, .check = foreign_check, .any = true
};

static int foreign_copy(const struct space *to_space, void *to, const struct space *from_space, const void *from,
                        size_t size)
{
        struct pages *window;
        int r = window_get(&window);

        for (size_t done = 0, part; done < size && r == 0; done += part) {
                part = size - done < WINDOW ? size - done : WINDOW;
                r = copy_part(&foreign_ops, from_space, window, (uint8_t *)(uintptr_t)from + done, part, false);
                if (r == 0)
                        r = copy_part(&foreign_ops, to_space, window, (uint8_t *)to + done, part, true);
        }
        return r;
}

/* ---- life ---- */

int foreign_adopt(struct maps *maps, void *address, size_t size, const struct space **ret_space, bool *ret_read_only)
{
        struct foreign *foreign;
        struct maps_facts facts;

        maps_look(maps, address, size, &facts);
        *ret_read_only = !facts.writable;
        *ret_space = NULL;
        if (facts.mapped && facts.steady)
                return 0;
        foreign = malloc(sizeof(*foreign));
        if (!foreign)
                return -ENOMEM;
        *foreign = (struct foreign){
                .space = { .ops = &foreign_ops, .foreign = true, .only_copied = true, .device = SPACE_NO_GPU },
                .maps = maps,
        };
        *ret_space = &foreign->space;
        return 0;
}

void foreign_free(const struct space *space)
{
        if (space)
                free(FERRY_CONTAINER_OF(space, struct foreign, space));
}

/* Asks anew each time: the program may have changed the protection since. */
int foreign_check_writable(struct maps *maps, const void *address, size_t size)
{
        struct maps_facts facts;

        maps_look(maps, address, size, &facts);
        if (facts.writable)
                return 0;
        return facts.mapped ? -EROFS : -ENXIO;
}
