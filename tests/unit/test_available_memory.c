/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/available_memory.h"

#include "file_tree.h"

#define KIB UINT64_C(1024)

static struct available_memory_paths paths;

/* A file of a control group. */
static void put_group(const char *group, const char *name, const char *text)
{
        put(text_format("mnt%s/%s", group, name), "%s\n", text);
}

static int setup(void **state)
{
        if (tree_make() < 0)
                return -1;
        paths = (struct available_memory_paths){ .meminfo = text_format("%s/meminfo", root),
                                                 .overcommit = text_format("%s/overcommit", root),
                                                 .cgroup = text_format("%s/cgroup", root),
                                                 .mountinfo = text_format("%s/mountinfo", root) };
        put("meminfo", "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    600 kB\nSwapFree: 50 kB\n");
        return 0;
}

static struct available_memory look(void)
{
        struct available_memory memory;

        available_memory_read(&paths, &memory);
        return memory;
}

/* Version 2, mounted with this root; the process is in this group. */
static void version_2(const char *mount_root, const char *group)
{
        put("cgroup", "0::%s\n", group);
        put("mountinfo",
            "22 1 0:20 / / rw - ext4 /dev/sda rw\n"
            "30 22 0:26 %s %s/mnt rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n",
            mount_root, root);
}

static void version_1(const char *mount_root, const char *group)
{
        put("cgroup", "5:cpu,cpuacct:/elsewhere\n4:memory:%s\n0::/\n", group);
        put("mountinfo",
            "29 22 0:25 / %s/other rw - cgroup cgroup rw,cpu,cpuacct\n"
            "30 22 0:26 %s %s/mnt rw - cgroup cgroup rw,memory\n",
            root, mount_root, root);
}

static void assert_total(uint64_t total, const char *limit)
{
        struct available_memory memory = look();

        assert_int_equal(memory.total, total);
        assert_string_equal(memory.total_limit, limit);
}

static void assert_left(uint64_t left, const char *limit)
{
        struct available_memory memory = look();

        assert_int_equal(memory.available, left);
        assert_string_equal(memory.available_limit, limit);
}

TEST_WITH(without_control_groups_the_machine_counts, setup, tree_drop)
{
        assert_total(1000 * KIB, "the machine's memory");
        assert_left(650 * KIB, "the machine's memory");
}

TEST_WITH(the_commit_limit_counts_where_the_kernel_keeps_to_it, setup, tree_drop)
{
        static const char limit[] = "the machine's commit limit (vm.overcommit_memory is 2)";

        put("meminfo", "MemTotal: 1000 kB\nMemAvailable: 600 kB\nCommitLimit: 500 kB\nCommitted_AS: 180 kB\n");
        put("overcommit", "2\n");
        assert_total(500 * KIB, limit);
        assert_left(320 * KIB, limit);
        put("meminfo", "MemTotal: 1000 kB\nMemAvailable: 600 kB\nCommitLimit: 500 kB\nCommitted_AS: 700 kB\n");
        assert_left(0, limit);
        put("overcommit", "0\n");
        assert_total(1000 * KIB, "the machine's memory");
        assert_left(600 * KIB, "the machine's memory");
}

TEST_WITH(without_anything_nothing_is_known, setup, tree_drop)
{
        static const struct available_memory_paths nowhere = { "/nowhere/a", "/nowhere/b", "/nowhere/c", "/nowhere/d" };
        struct available_memory memory;

        available_memory_read(&nowhere, &memory);
        assert_int_equal(memory.total, UINT64_MAX);
        assert_int_equal(memory.available, UINT64_MAX);
        assert_string_equal(memory.available_limit, "");
}

TEST_WITH(the_system_has_some, setup, tree_drop)
{
        struct available_memory memory;

        available_memory_read(NULL, &memory);
        assert_true(memory.total > 0 && memory.total < UINT64_MAX);
        assert_true(memory.available <= memory.total + (UINT64_C(1) << 50));
}

TEST_WITH(the_own_group_limits, setup, tree_drop)
{
        version_2("/", "/a/b");
        put_group("/a/b", "memory.max", "409600");
        put_group("/a/b", "memory.current", "309600");
        put_group("/a/b", "memory.stat", "anon 1\nfile 9999\ninactive_file 1000\nactive_file 200\n");
        put_group("/a", "memory.max", "max");
        assert_total(409600, "memory.max of the worker's control group");
        assert_left(101200, "memory.max of the worker's control group");

        version_1("/", "/a/b");
        put_group("/a/b", "memory.limit_in_bytes", "409601");
        put_group("/a/b", "memory.usage_in_bytes", "309600");
        put_group("/a/b", "memory.stat", "inactive_file 7\ntotal_inactive_file 1000\ntotal_active_file 200\n");
        put_group("/a", "memory.limit_in_bytes", "9223372036854771712");
        assert_total(409601, "memory.limit_in_bytes of the worker's control group");
        assert_left(101201, "memory.limit_in_bytes of the worker's control group");
}

TEST_WITH(the_tightest_group_above_limits, setup, tree_drop)
{
        version_2("/", "/a/b/c");
        put_group("/a/b/c", "memory.max", "800000");
        put_group("/a/b/c", "memory.current", "1000");
        put_group("/a", "memory.max", "700000");
        put_group("/a", "memory.current", "699000");
        assert_total(700000, "memory.max of a control group above the worker's");
        assert_left(1000, "memory.max of a control group above the worker's");
        put_group("", "memory.max", "600000");
        assert_total(600000, "memory.max of a control group above the worker's");
}

/* Docker without a namespace of control groups: the mount shows the container's group as its root. */
TEST_WITH(a_container_sees_its_group_as_the_root, setup, tree_drop)
{
        version_1("/docker/0123", "/docker/0123");
        put_group("", "memory.limit_in_bytes", "500000");
        put_group("", "memory.usage_in_bytes", "100000");
        assert_total(500000, "memory.limit_in_bytes of the worker's control group");
        version_1("/docker/0123", "/docker/0123/inner");
        put_group("/inner", "memory.limit_in_bytes", "400000");
        assert_total(400000, "memory.limit_in_bytes of the worker's control group");
        version_2("/", "/../outside");
        put_group("", "memory.max", "300000");
        assert_total(300000, "memory.max of the worker's control group");
}

TEST_WITH(more_than_allowed_is_no_room, setup, tree_drop)
{
        version_2("/", "/a");
        put_group("/a", "memory.max", "1000");
        put_group("/a", "memory.current", "5000");
        assert_left(0, "memory.max of the worker's control group");
}

TEST_WITH(blanks_in_the_mount_are_understood, setup, tree_drop)
{
        char from[128], to[128];

        snprintf(from, sizeof(from), "%s/mnt", root);
        snprintf(to, sizeof(to), "%s/m t", root);
        put_group("/a", "memory.max", "4321");
        assert_int_equal(rename(from, to), 0);
        put("cgroup", "0::/a\n");
        put("mountinfo", "30 22 0:26 / %s/m\\040t rw - cgroup2 none rw\n", root);
        assert_total(4321, "memory.max of the worker's control group");
}

TEST_WITH(nonsense_limits_nothing, setup, tree_drop)
{
        put("cgroup", "garbage\n:\n0:\n0::%05000d\n", 1);
        put("mountinfo", "garbage\n - cgroup2 x y\n1 2 3 / %s/mnt rw - cgroup2\n", root);
        assert_total(1000 * KIB, "the machine's memory");
        version_2("/", "/a");
        put_group("/a", "memory.max", "-5");
        assert_total(1000 * KIB, "the machine's memory");
        put_group("/a", "memory.max", "99999999999999999999999");
        assert_total(1000 * KIB, "the machine's memory");
}
