/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <sched.h>

#include "base/processors.h"
#include "file_tree.h"

/* How many processors a process may use, in a tree of control groups as the kernel shows it. */

static int setup(void **state)
{
        if (tree_make() < 0)
                return -1;
        put("group", "0::/outer/inner\n");
        return 0;
}

static unsigned allowed(void)
{
        return processors_of_group(text_format("%s/group", root), root);
}

TEST_WITH(a_quota_counts_as_the_processors_that_it_fills_rounded_up, setup, tree_drop)
{
        static const struct {
                const char *text;
                unsigned n;
        } rows[] = { { "max 100000\n", UINT_MAX }, { "50000 100000\n", 1 },  { "100000 100000\n", 1 },
                     { "100001 100000\n", 2 },     { "400000 100000\n", 4 }, { "rubbish\n", UINT_MAX } };

        assert_int_equal(allowed(), UINT_MAX);
        for (size_t i = 0; i < UNIT_COUNT(rows); i++) {
                put("outer/inner/cpu.max", "%s", test_row(rows[i].text));
                assert_int_equal(allowed(), rows[i].n);
        }
}

TEST_WITH(the_smallest_quota_of_the_group_and_those_above_it_counts, setup, tree_drop)
{
        put("outer/inner/cpu.max", "800000 100000\n");
        put("outer/cpu.max", "200000 100000\n");
        assert_int_equal(allowed(), 2);
        put("cpu.max", "100000 100000\n");
        assert_int_equal(allowed(), 1);
}

TEST_WITH(groups_of_version_1_count_as_well, setup, tree_drop)
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
