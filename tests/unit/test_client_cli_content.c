/* SPDX-License-Identifier: Apache-2.0 */
/* Where the ferry command writes, on file systems and to a worker that the test makes up. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <ferry/error.h>

#include "cli.h"
#include "unit.h"

enum { BLOCK = 4096, SIZE = 100 * BLOCK };

/* The file system, and the most bytes that were to be allocated. */
static struct {
        fsblkcnt_t free, available;
        int error;
        off_t most;
} disk;

int __wrap_fstatvfs64(int fd, struct statvfs *ret_system);
int __wrap_fallocate64(int fd, int mode, off_t offset, off_t size);

int __wrap_fstatvfs64(int fd, struct statvfs *ret_system)
{
        *ret_system = (struct statvfs){
                .f_frsize = BLOCK, .f_blocks = 1000, .f_bfree = disk.free, .f_bavail = disk.available
        };
        return 0;
}

int __wrap_fallocate64(int fd, int mode, off_t offset, off_t size)
{
        disk.most = size > disk.most ? size : disk.most;
        errno = disk.error;
        return disk.error ? -1 : 0;
}

static int reserve(fsblkcnt_t free_blocks, fsblkcnt_t available, int error)
{
        char part[] = "part";
        struct content_output output = { .fd = memfd_create("file", MFD_CLOEXEC), .part = part, .file = "file" };
        assert_true(output.fd >= 0);
        disk.free = free_blocks;
        disk.available = available;
        disk.error = error;
        disk.most = 0;
        int r = content_reserve(&output, SIZE);
        close(output.fd);
        return r;
}

TEST(the_reserve_of_root_is_room)
{
        assert_int_equal(reserve(100, 0, 0), 0);
        assert_int_equal(disk.most, SIZE);
}

TEST(what_cannot_fit_is_not_allocated)
{
        assert_int_equal(reserve(99, 99, 0), -ENOSPC);
        assert_in_range(disk.most, 0, BLOCK);
}

TEST(the_allocation_decides)
{
        assert_int_equal(reserve(1000, 1000, ENOSPC), -ENOSPC);
        assert_int_equal(reserve(1000, 1000, EFBIG), -EFBIG);
}

TEST(a_file_system_that_cannot_reserve_lets_it_through)
{
        assert_int_equal(reserve(1, 1, EOPNOTSUPP), 0);
        assert_int_equal(reserve(1, 1, ENOSYS), 0);
}

/* As cp and curl refuse it, though the directory would let it be replaced. */
TEST(a_file_that_may_not_be_written_is_not_replaced)
{
        char name[] = "/tmp/ferry-test-XXXXXX";
        struct content_output output = { .fd = -1 };
        int fd = mkstemp(name);
        assert_true(fd >= 0);
        assert_int_equal(fchmod(fd, 0444), 0);
        close(fd);
        bool root = geteuid() == 0;
        assert_true(!root || (chown(name, 65534, 65534) == 0 && seteuid(65534) == 0));
        int status = content_create(name, &output);
        assert_true(!root || seteuid(0) == 0);
        unlink(name);
        assert_int_equal(status, CLI_USAGE);
        assert_int_equal(output.fd, -1);
}

/* ---- a region with idle_ms, while it is filled ---- */

enum { FILL_SIZE = 64 << 20, IDLE_MS = 4000 };

/* The worker: its clock, and what it has been asked. */
static struct {
        void *map;
        uint64_t now_ms, step_ms; /* between two looks at the clock */
        unsigned n_asked, gone_after;
} worker;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time);
void *__wrap_local_map(const char *url, const struct ferry_region *region, bool writable);
int __wrap_ferry_get_region(struct ferry *f, const char *id, struct ferry_region *ret_region);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time)
{
        worker.now_ms += worker.step_ms;
        *ret_time = (struct timespec){ .tv_sec = (time_t)(worker.now_ms / 1000),
                                       .tv_nsec = (long)(worker.now_ms % 1000) * 1000000 };
        return 0;
}

void *__wrap_local_map(const char *url, const struct ferry_region *region, bool writable)
{
        worker.map = mmap(NULL, region->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return worker.map == MAP_FAILED ? NULL : worker.map;
}

int __wrap_ferry_get_region(struct ferry *f, const char *id, struct ferry_region *ret_region)
{
        return worker.n_asked++ < worker.gone_after ? 0 : FERRY_E_NOT_FOUND;
}

/* In 8 pieces, with step_ms between them. */
static int fill(uint64_t idle_ms, uint64_t step_ms, unsigned gone_after)
{
        const struct ferry_region region = { .id = "rgn_1", .size = FILL_SIZE, .idle_ms = idle_ms };
        const struct cli_worker here = { .ferry = NULL };
        struct content_input input = { memfd_create("file", MFD_CLOEXEC), FILL_SIZE, "file" };
        worker.n_asked = 0;
        worker.step_ms = step_ms;
        worker.gone_after = gone_after;
        assert_int_equal(ftruncate(input.fd, FILL_SIZE), 0);
        int status = content_fill(&here, &region, &input);
        content_close(&input);
        return status;
}

TEST(a_region_that_is_filled_slowly_is_kept)
{
        assert_int_equal(fill(IDLE_MS, IDLE_MS / 4, 100), CLI_OK);
        assert_int_equal(worker.n_asked, 7 + 1);
        assert_int_equal(fill(IDLE_MS, 1, 100), CLI_OK);
        assert_int_equal(worker.n_asked, 1);
        assert_int_equal(fill(0, IDLE_MS, 100), CLI_OK);
        assert_int_equal(worker.n_asked, 1);
}

TEST(a_region_that_went_while_it_was_filled_is_a_failure)
{
        assert_int_equal(fill(IDLE_MS, IDLE_MS, 3), CLI_PROBLEM);
        assert_int_equal(worker.n_asked, 4);
        assert_int_equal(fill(IDLE_MS, 1, 0), CLI_PROBLEM);
}
