/* SPDX-License-Identifier: Apache-2.0 */
/* Where the ferry command writes, on file systems that the test makes up. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "content.h"
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
