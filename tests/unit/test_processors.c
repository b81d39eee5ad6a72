/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/processors.h"
#include "unit.h"

/* How many processors a process may use, in a tree of control groups as the kernel shows it. */

static char root[] = "/tmp/ferry-processors-XXXXXX";

static void put(const char *name, const char *text)
{
        FILE *file = fopen(text_format("%s/%s", root, name), "we");

        assert_non_null(file);
        assert_true(fputs(text, file) >= 0);
        fclose(file);
}

static int setup(void **state)
{
        strcpy(root + strlen(root) - 6, "XXXXXX");
        if (!mkdtemp(root))
                return -1;
        (void)mkdir(text_format("%s/outer", root), 0700);
        (void)mkdir(text_format("%s/outer/inner", root), 0700);
        put("group", "0::/outer/inner\n");
        return 0;
}

static int teardown(void **state)
{
        static const char *const names[] = { "group",
                                             "cpu.max",
                                             "outer/cpu.max",
                                             "outer/inner/cpu.max",
                                             "outer/cpu.cfs_quota_us",
                                             "outer/cpu.cfs_period_us" };

        for (size_t i = 0; i < UNIT_COUNT(names); i++)
                (void)unlink(text_format("%s/%s", root, names[i]));
        (void)rmdir(text_format("%s/outer/inner", root));
        (void)rmdir(text_format("%s/outer", root));
        return rmdir(root);
}

static unsigned allowed(void)
{
        return processors_of_group(text_format("%s/group", root), root);
}

TEST_WITH(a_quota_counts_as_the_processors_that_it_fills_rounded_up, setup, teardown)
{
        static const struct {
                const char *text;
                unsigned n;
        } rows[] = { { "max 100000\n", UINT_MAX }, { "50000 100000\n", 1 },  { "100000 100000\n", 1 },
                     { "100001 100000\n", 2 },     { "400000 100000\n", 4 }, { "rubbish\n", UINT_MAX } };

        assert_int_equal(allowed(), UINT_MAX);
        for (size_t i = 0; i < UNIT_COUNT(rows); i++) {
                put("outer/inner/cpu.max", test_row(rows[i].text));
                assert_int_equal(allowed(), rows[i].n);
        }
}

TEST_WITH(the_smallest_quota_of_the_group_and_those_above_it_counts, setup, teardown)
{
        put("outer/inner/cpu.max", "800000 100000\n");
        put("outer/cpu.max", "200000 100000\n");
        assert_int_equal(allowed(), 2);
        put("cpu.max", "100000 100000\n");
        assert_int_equal(allowed(), 1);
}

TEST_WITH(groups_of_version_1_count_as_well, setup, teardown)
{
        put("group", "5:memory:/\n4:cpu,cpuacct:/outer\n0::/\n");
        put("outer/cpu.cfs_quota_us", "-1\n");
        put("outer/cpu.cfs_period_us", "100000\n");
        assert_int_equal(allowed(), UINT_MAX);
        put("outer/cpu.cfs_quota_us", "300000\n");
        assert_int_equal(allowed(), 3);
}

TEST(no_more_processors_are_allowed_than_the_affinity_has)
{
        cpu_set_t before, one;
        int cpu = 0;

        assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
        while (!CPU_ISSET(cpu, &before))
                cpu++;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        assert_in_range(processors_allowed(), 1, CPU_COUNT(&before));
        assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
        assert_int_equal(processors_allowed(), 1);
        assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}
