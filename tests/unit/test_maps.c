/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#include "base/util.h"
#include "region_internal.h"

#include "unit.h"

/* What is known of memory, by the kernel's query and, as before Linux 6.11, by reading /proc/self/maps. */

static bool kernel_is_old, no_proc;

int __real_ioctl(int fd, unsigned long request, void *argument);
int __wrap_ioctl(int fd, unsigned long request, void *argument);
int __wrap_ioctl(int fd, unsigned long request, void *argument)
{
        if (!kernel_is_old)
                return __real_ioctl(fd, request, argument);
        errno = ENOTTY;
        return -1;
}

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
        va_list list;
        int mode;

        va_start(list, flags);
        mode = va_arg(list, int);
        va_end(list);
        if (!no_proc)
                return __real_open64(path, flags, mode);
        errno = ENOENT;
        return -1;
}

/* What open() is where it is fortified and has no mode. */
int __real___open64_2(const char *path, int flags);
int __wrap___open64_2(const char *path, int flags);
int __wrap___open64_2(const char *path, int flags)
{
        return no_proc ? __wrap_open64(path, flags, 0) : __real___open64_2(path, flags);
}

static size_t page;

static char *map(size_t pages, int protection, int flags, int fd)
{
        char *address = mmap(NULL, pages * page, protection, flags, fd, 0);

        assert_ptr_not_equal(address, MAP_FAILED);
        return address;
}

static int file(void)
{
        int fd = memfd_create("program", MFD_CLOEXEC);

        assert_int_equal(ftruncate(fd, (off_t)(4 * page)), 0);
        return fd;
}

static void assert_facts(const void *address, size_t size, bool mapped, bool writable, bool steady)
{
        FOR_EACH (int, old, 0, 1) {
                struct maps maps = { 0 };
                struct maps_facts facts;

                kernel_is_old = old;
                maps_look(&maps, address, size, &facts);
                assert_int_equal(facts.mapped, mapped);
                assert_int_equal(facts.writable, writable);
                assert_int_equal(facts.steady, steady);
                maps_clear(&maps);
        }
}

static int setup(void **state)
{
        page = (size_t)sysconf(_SC_PAGESIZE);
        return 0;
}

TEST_WITH(memory_without_a_file_is_steady, setup, NULL)
{
        enum { RW = PROT_READ | PROT_WRITE };
        char on_the_stack[100], *heap = malloc(100), *long_heap = malloc(8 << 20);
        char *private = map(4, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1),
             *shared = map(4, RW, MAP_SHARED | MAP_ANONYMOUS, -1);
        int zeros = open("/dev/zero", O_RDWR | O_CLOEXEC), id = shmget(IPC_PRIVATE, 4 * page, 0600);
        char *private_zeros = map(4, RW, MAP_PRIVATE, zeros), *shared_zeros = map(4, RW, MAP_SHARED, zeros);
        char *segment = shmat(id, NULL, 0);

        assert_int_equal(shmctl(id, IPC_RMID, NULL), 0);
        assert_facts(on_the_stack, sizeof(on_the_stack), true, true, true);
        assert_facts(heap, 100, true, true, true);
        assert_facts(long_heap, 8 << 20, true, true, true);
        assert_facts(private + 1, 3 * page, true, true, true);
        assert_facts(shared, 4 * page, true, true, true);
        assert_facts(private_zeros, 4 * page, true, true, true);
        assert_facts(shared_zeros, 4 * page, true, true, true);
        assert_facts(segment, 4 * page, true, true, true);
        assert_int_equal(mprotect(private + 2 * page, page, PROT_READ), 0);
        assert_facts(private, 2 * page, true, true, true);
        assert_facts(private, 4 * page, true, false, true); /* of several mappings */
        free(heap);
        free(long_heap);
        (void)close(zeros);
        (void)shmdt(segment);
}

TEST_WITH(memory_of_a_file_is_not_steady, setup, NULL)
{
        FERRY_CLEANUP(cleanup_close) int fd = file();
        char *shared = map(4, PROT_READ | PROT_WRITE, MAP_SHARED, fd), *private = map(4, PROT_READ, MAP_PRIVATE, fd);
        char *both = map(4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

        assert_facts(shared, 4 * page, true, true, false);
        assert_facts(private + 5, 1, true, false, false);
        assert_ptr_equal(mmap(both + 2 * page, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0),
                         both + 2 * page);
        assert_facts(both, 4 * page, true, true, false);
        assert_facts(both, 2 * page, true, true, true);
        assert_facts((void *)(uintptr_t)setup, 1, true, false, false); /* of this program's file */
}

TEST_WITH(memory_with_a_hole_is_not_mapped, setup, NULL)
{
        char *memory = map(4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

        assert_int_equal(munmap(memory + page, page), 0);
        assert_int_equal(mprotect(memory + 3 * page, page, PROT_NONE), 0);
        assert_facts(memory, page, true, true, true);
        assert_facts(memory, 3 * page, false, false, false);
        assert_facts(memory + page, 1, false, false, false);
        assert_facts(memory + 2 * page, 2 * page, false, false, false);
        assert_facts((void *)(UINTPTR_MAX - page), page, false, false, false);
}

/* A copy finds out. */
TEST_WITH(without_proc_nothing_is_known, setup, NULL)
{
        no_proc = true;
        assert_facts(&page, sizeof(page), false, true, false);
        no_proc = false;
}
