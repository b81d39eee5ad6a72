/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wire.h"

/* Regions where the system gives less memory than they need. */

enum { MIB = 1 << 20 };

static void assert_refused_by(struct worker *w, const char *body, const char *limit, bool lasting)
{
        struct raw_answer answer = raw_exchange(w, json_request("/v1/regions", "", body));

        if (!strstr(answer.body, limit))
                print_error("%s\n", answer.body);
        assert_non_null(strstr(answer.body, limit));
        (lasting ? answer_assert_lasting : answer_assert_problem)(&answer, 507, "limit-reached");
}

ON_WORKER(the_limit_that_refuses_is_named, "--memory-limit", "4096T")
{
        assert_refused_by(w, "{\"size\":9007199254740991}", "--memory-limit is 4503599627370496", true);
        assert_refused_by(w, "{\"size\":4503599627370496}", "bytes are needed, and ", false);
        worker_await_metric(w, "ferry_regions", 0);
        worker_await_metric(w, "ferry_region_bytes", 0);
        worker_assert_serving(w);
}

/* A limit of the process, which no wait changes. */
ON_WORKER(a_region_beyond_the_file_size_limit_is_refused_for_good)
{
        const struct rlimit limit = { MIB, RLIM_INFINITY };
        struct ferry_region region;

        assert_int_equal(prlimit(w->pid, RLIMIT_FSIZE, &limit, NULL), 0);
        assert_refused_by(w, "{\"size\":1048577}", "RLIMIT_FSIZE, ulimit -f) is 1048576", true);
        assert_refused_by(w, "{\"size\":268435456}", "RLIMIT_FSIZE, ulimit -f) is 1048576", true); /* by a maker */
        assert_int_equal(ferry_create_region(w->client, &(struct ferry_region_spec){ .size = MIB }, &region), 0);
}

static bool write_file(const char *path, const char *text)
{
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

        if (fd >= 0)
                (void)close(fd);
        return ok;
}

/* The directory of a new control group with this memory limit; false: the system does not let us. */
static bool group_make(const char *limit, char path[128], const char **ret_name)
{
        static const struct {
                const char *root, *file, *name;
        } versions[] = {
                { "/sys/fs/cgroup", "memory.max", "memory.max" },
                { "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.limit_in_bytes" },
        };
        char file[192];

        for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
                (void)snprintf(path, 128, "%s/ferry-test-%d", versions[i].root, (int)getpid());
                if (mkdir(path, 0700) != 0)
                        continue;
                (void)snprintf(file, sizeof(file), "%s/%s", path, versions[i].file);
                *ret_name = versions[i].name;
                if (write_file(file, limit))
                        return true;
                (void)rmdir(path);
        }
        return false;
}

static bool group_enter(const char *path, pid_t pid)
{
        return write_file(text_format("%s/cgroup.procs", path), text_format("%d", (int)pid));
}

/* Where the kernel would kill the worker. */
WITH_WORKER(a_full_control_group_is_refused_and_kills_nobody)
{
        char path[128];
        const char *name = NULL;

        if (!group_make("536870912", path, &name))
                skip();
        worker_start(w, "w", NULL);
        if (!group_enter(path, w->pid)) {
                worker_clean(w);
                (void)rmdir(path);
                skip();
        }
        assert_refused_by(w, "{\"size\":536870912}", name, false);
        const char *id = region_make(w, 256 * MIB, 0);
        assert_refused_by(w, "{\"size\":268435456}", name, false);
        region_assert_pattern(w, id, 0, 255 * MIB, MIB);
        region_drop(w, id);
        id = region_make(w, 256 * MIB, 0);
        worker_stop(w);
        (void)rmdir(path);
}

/* From here on this process and its workers see a /dev/shm of their own. false: the system does not let us. */
static bool small_shared_memory(const char *options)
{
        char users[32], groups[32];

        if (geteuid() != 0) {
                (void)snprintf(users, sizeof(users), "0 %u 1", (unsigned)geteuid());
                (void)snprintf(groups, sizeof(groups), "0 %u 1", (unsigned)getegid());
                /* A tmpfs refuses files of a group without a mapping (EOVERFLOW). */
                if (unshare(CLONE_NEWUSER) != 0 || !write_file("/proc/self/uid_map", users) ||
                    !write_file("/proc/self/setgroups", "deny") || !write_file("/proc/self/gid_map", groups))
                        return false;
        }
        return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
               mount("tmpfs", "/dev/shm", "tmpfs", 0, options) == 0;
}

/* A container's usual 64 MiB. The last test of this file: what it mounts stays until the process ends. */
WITH_WORKER(a_region_takes_nothing_of_shared_memory)
{
        if (!small_shared_memory("size=64m"))
                skip();
        worker_start(w, "w", NULL);
        const char *id = region_make(w, 128 * MIB, 1);
        region_assert_pattern(w, id, 1, 0, 128 * MIB);
}
