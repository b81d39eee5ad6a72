/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/processors.h"
#include "base/thread.h"
#include "base/util.h"

/* System resources of a process: processors, threads, conditions, and what a fork leaves behind. Any thread. */

/* ---- processors ---- */

/* The processors on which this thread may run. */
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

/* Whether a list such as "cpu,cpuacct" has the controller cpu. */
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

/* ---- threads ---- */

int thread_new(const char *name, void *(*run)(void *context), void *context, pthread_t *ret_thread)
{
        char text[16]; /* the kernel refuses a longer name */
        sigset_t all, before;
        pthread_t thread;
        int r;

        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        r = -pthread_create(&thread, NULL, run, context);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (r < 0)
                return r;
        (void)snprintf(text, sizeof(text), "%s", name);
        (void)pthread_setname_np(thread, text);
        *ret_thread = thread;
        return 0;
}

void condition_init(pthread_cond_t *condition)
{
        pthread_condattr_t attributes;

        (void)pthread_condattr_init(&attributes);
        (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        (void)pthread_cond_init(condition, &attributes);
        (void)pthread_condattr_destroy(&attributes);
}

bool condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t deadline_us)
{
        const struct timespec until = { .tv_sec = (time_t)(deadline_us / 1000000),
                                        .tv_nsec = (long)(deadline_us % 1000000) * 1000 };

        if (deadline_us == UINT64_MAX)
                return pthread_cond_wait(condition, lock) == 0;
        return pthread_cond_timedwait(condition, lock, &until) != ETIMEDOUT;
}

/* ---- forks ---- */

enum { WORD_BITS = 64, FDS_MAX = 1 << 16 /* higher descriptors stay open in a child */ };

static atomic_uint generation;
static _Atomic uint64_t private_fds[FDS_MAX / WORD_BITS]; /* bit fd % 64 of word fd / 64 */

/* Must be async-signal-safe: other threads of the parent may have held any lock. */
static void in_child(void)
{
        atomic_fetch_add(&generation, 1);
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(private_fds); i++)
                for (uint64_t bits = atomic_exchange(&private_fds[i], 0); bits; bits &= bits - 1)
                        (void)close((int)i * WORD_BITS + __builtin_ctzll(bits));
}

static void watch(void)
{
        (void)pthread_atfork(NULL, NULL, in_child);
}

static void watch_once(void)
{
        static pthread_once_t watched = PTHREAD_ONCE_INIT;

        (void)pthread_once(&watched, watch);
}

unsigned fork_generation(void)
{
        watch_once();
        return atomic_load_explicit(&generation, memory_order_relaxed);
}

void fork_private(int fd)
{
        watch_once();
        if (fd < FDS_MAX)
                atomic_fetch_or(&private_fds[fd / WORD_BITS], UINT64_C(1) << (fd % WORD_BITS));
}

int fork_private_close(int fd)
{
        if (fd < 0)
                return 0;
        if (fd < FDS_MAX)
                atomic_fetch_and(&private_fds[fd / WORD_BITS], ~(UINT64_C(1) << (fd % WORD_BITS)));
        return close(fd);
}
