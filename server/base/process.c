/* SPDX-License-Identifier: Apache-2.0 */
#include "base/processors.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"

static unsigned in_affinity(void)
{
        cpu_set_t set;
        long n;

        if (sched_getaffinity(0, sizeof(set), &set) == 0)
                return (unsigned)CPU_COUNT(&set);
        n = sysconf(_SC_NPROCESSORS_ONLN); /* more processors than the set has room for */
        return n > 0 ? (unsigned)n : 1;
}

/* "QUOTA PERIOD" of microseconds, or "max PERIOD"; version 1 has a file each, and -1 for max. */
static unsigned quota_of(const char *directory)
{
        char path[2 * PATH_MAX + 32];
        long long quota = -1, period = 0;

        (void)snprintf(path, sizeof(path), "%s/cpu.max", directory);
        FERRY_CLEANUP(cleanup_file) FILE *file = fopen(path, "re");
        if (file) {
                if (fscanf(file, "%lld %lld", &quota, &period) != 2)
                        return UINT_MAX;
        } else {
                (void)snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", directory);
                FERRY_CLEANUP(cleanup_file) FILE *quotas = fopen(path, "re");
                (void)snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", directory);
                FERRY_CLEANUP(cleanup_file) FILE *periods = fopen(path, "re");

                if (!quotas || !periods || fscanf(quotas, "%lld", &quota) != 1 || fscanf(periods, "%lld", &period) != 1)
                        return UINT_MAX;
        }
        if (quota <= 0 || period <= 0 || (quota - 1) / period >= UINT_MAX)
                return UINT_MAX;
        return (unsigned)((quota - 1) / period + 1);
}

static bool has_cpu(char *controllers)
{
        char *rest;

        for (char *name = strtok_r(controllers, ",", &rest); name; name = strtok_r(NULL, ",", &rest))
                if (strcmp(name, "cpu") == 0)
                        return true;
        return false;
}

/* The group in "0::PATH", or in "ID:…,cpu,…:PATH" of version 1. false: there is none. */
static bool find_group(const char *group_file, char group[PATH_MAX])
{
        FERRY_CLEANUP(cleanup_file) FILE *file = fopen(group_file, "re");
        char line[PATH_MAX + 128], controllers[128];
        bool found = false;

        while (file && fgets(line, sizeof(line), file)) {
                const char *path = strchr(line, '/');

                if (!path)
                        continue;
                if (sscanf(line, "%*u:%127[^:]:", controllers) == 1 ? has_cpu(controllers) : !found) {
                        (void)snprintf(group, PATH_MAX, "%.*s", (int)strcspn(path, "\n"), path);
                        found = true;
                }
        }
        return found;
}

unsigned processors_of_group(const char *group_file, const char *root)
{
        char group[PATH_MAX], directory[2 * PATH_MAX];
        unsigned least = UINT_MAX, n;

        if (!find_group(group_file, group))
                return least;
        /* In a container the mount shows its own group as the root. */
        for (char *slash = group + strlen(group); slash; slash = strrchr(group, '/')) {
                *slash = '\0';
                if ((size_t)snprintf(directory, sizeof(directory), "%s%s", root, group) < PATH_MAX) {
                        n = quota_of(directory);
                        least = n < least ? n : least;
                }
        }
        return least;
}

unsigned processors_allowed(void)
{
        static const char *const roots[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/cpu" };
        unsigned least = in_affinity();

        for (size_t i = 0; i < FERRY_ARRAY_SIZE(roots); i++)
                least = (unsigned)at_most(least, processors_of_group("/proc/self/cgroup", roots[i]));
        return (unsigned)at_least(least, 1);
}
