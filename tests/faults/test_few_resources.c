/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ferryd_start.h"
#include "wire.h"

/* Too few files, threads or pages, and clocks that jump: the worker says so in a line and ends, or serves. */

static const char *const quiet[] = { "--listen", "127.0.0.1:0", "--name", "w", NULL };
static const char *const network[] = { "--listen", "127.0.0.1:0", "--name", "w", "--data-listen", "127.0.0.1:0", NULL };

struct limit {
        int resource;
        rlim_t value;
        uid_t user; /* 0 = as it is */
};

static void set_limit(const void *context)
{
        const struct limit *limit = context;
        const struct rlimit values = { limit->value, limit->value };

        if (setrlimit(limit->resource, &values) < 0)
                _exit(125);
        if (limit->user && (setresgid(limit->user, limit->user, limit->user) < 0 ||
                            setresuid(limit->user, limit->user, limit->user) < 0))
                _exit(125);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* which a change of user forgets */
}

/* How many starts are ready with the limits first, first + step, … below end. The last must be. */
static size_t sweep(const char *const *flags, struct limit limit, rlim_t end, rlim_t step)
{
        bool ready = false;
        size_t n = 0;

        for (; limit.value < end; limit.value += step) {
                struct ferryd_start start;

                ferryd_start(flags, set_limit, &limit, true, &start);
                ready = start.ready;
                n += ready;
                ferryd_start_clear(&start);
        }
        assert_true(ready);
        return n;
}

/* Whoever starts has kept back what serving takes. */
TEST(any_number_of_files_serves_or_is_too_few)
{
        (void)sweep(quiet, (struct limit){ RLIMIT_NOFILE, 3, 0 }, 129, sweep_step(7));
        (void)sweep(network, (struct limit){ RLIMIT_NOFILE, 3, 0 }, 258, sweep_step(51));
}

TEST(any_size_of_memory_serves_or_is_too_small)
{
        enum { MIB = 1 << 20 };

        if (SANITIZED) /* which maps terabytes */
                skip();
        (void)sweep(quiet, (struct limit){ RLIMIT_AS, 8 * MIB, 0 }, (rlim_t)1200 * MIB,
                    (rlim_t)MIB * 31 * sweep_step(4) / 4);
}

TEST(any_number_of_threads_serves_or_is_too_few)
{
        struct failing *failing;
        size_t n_ready = 0, n = 0;

        if (SANITIZED)
                skip();
        failing = failing_share(true);
        for (long at = 1; at < 16; at++, n++) {
                struct ferryd_start start;

                failing->threads_at = at;
                ferryd_start(at % 2 ? network : quiet, NULL, NULL, true, &start);
                failing->threads_at = 0;
                n_ready += start.ready;
                ferryd_start_clear(&start);
        }
        (void)failing_share(false);
        assert_in_range(n_ready, 1, n - 1);
}

/* The limit of a user's processes, which binds nobody with privileges. */
TEST(a_user_that_may_have_no_threads_is_told)
{
        const uid_t user = 61184 + (uid_t)getpid() % 4000; /* of whom nothing else runs: it would count, too */
        char directory[] = "/tmp/ferry-faults-XXXXXX";
        const char *const flags[] = { "--listen", "127.0.0.1:0", "--name", "w", "--local", directory, NULL };
        struct ferryd_start start;

        if (geteuid() != 0 || SANITIZED)
                skip();
        assert_non_null(mkdtemp(directory));
        assert_int_equal(chown(directory, user, user), 0);
        ferryd_start(flags, set_limit, &(struct limit){ RLIMIT_NPROC, 1, user }, false, &start);
        if (start.ready || !strstr(start.errors, "ferryd: ") || !strstr(start.errors, "ulimit -u"))
                fail_msg("ready: %d, %s", start.ready, start.errors);
        ferryd_start_clear(&start);
        ferryd_start(flags, set_limit, &(struct limit){ RLIMIT_NPROC, 4096, user }, true, &start);
        assert_true(start.ready);
        ferryd_start_clear(&start);
        assert_int_equal(rmdir(directory), 0); /* neither has left anything */
}

/* Standard error becomes a file that may not grow. */
static void set_full_log(const void *context)
{
        const struct rlimit none = { 0, 0 };
        int fd = memfd_create("log", MFD_CLOEXEC);

        (void)context;
        if (fd < 0 || dup2(fd, STDERR_FILENO) < 0 || setrlimit(RLIMIT_FSIZE, &none) < 0)
                _exit(125);
}

/* Where SIGXFSZ would end the worker. */
TEST(a_log_that_may_not_grow_ends_nothing)
{
#if defined(__SANITIZE_THREAD__) /* it writes a file when it starts */
        skip();
#endif
        struct ferryd_start start;

        ferryd_start(quiet, set_full_log, NULL, true, &start);
        assert_true(start.ready);
        ferryd_start_clear(&start);
}

TEST(a_library_that_prints_leaves_standard_output_alone)
{
        struct ferryd_start start;

        if (SANITIZED) /* which want to be loaded first */
                skip();
        (void)failing_share(true);
        assert_int_equal(setenv("FERRY_FAILING_PRINTS", "1", 1), 0);
        ferryd_start(quiet, NULL, NULL, true, &start);
        (void)unsetenv("FERRY_FAILING_PRINTS");
        (void)failing_share(false);
        assert_true(start.ready);
        assert_non_null(strstr(start.errors, "loaded\n"));
        ferryd_start_clear(&start);
}

TEST(a_librarys_thread_takes_no_signal)
{
        struct ferryd_start start;

        if (SANITIZED)
                skip();
        (void)failing_share(true);
        assert_int_equal(setenv("FERRY_FAILING_STARTS", "1", 1), 0);
        ferryd_start(quiet, NULL, NULL, true, &start);
        (void)unsetenv("FERRY_FAILING_STARTS");
        (void)failing_share(false);
        assert_true(start.ready); /* and drained by SIGTERM, as ferryd_start sees to */
        ferryd_start_clear(&start);
}

/* ---- a group that may have so much memory ---- */

enum { GROUP_MIB = 96 };

static char group[256];

static bool group_make(void)
{
        const char *const roots[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/memory" };
        char path[300];

        for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++) {
                for (int v1 = 0; v1 < 2; v1++) {
                        int fd;

                        (void)snprintf(group, sizeof(group), "%s/ferry-test-%ld", roots[i], (long)getpid());
                        if (mkdir(group, 0755) < 0)
                                continue;
                        (void)snprintf(path, sizeof(path), "%s/%s", group, v1 ? "memory.limit_in_bytes" : "memory.max");
                        fd = open(path, O_WRONLY | O_CLOEXEC);
                        if (fd >= 0 && dprintf(fd, "%d", GROUP_MIB << 20) > 0) {
                                (void)close(fd);
                                return true;
                        }
                        if (fd >= 0)
                                (void)close(fd);
                        (void)rmdir(group);
                }
        }
        return false;
}

static void group_join(pid_t pid)
{
        int fd;
        const char *path = text_format("%s/cgroup.procs", group);

        fd = open(path, O_WRONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_true(dprintf(fd, "%ld", (long)pid) > 0);
        (void)close(fd);
}

static bool group_is_gone(void)
{
        return rmdir(group) == 0 || errno == ENOENT;
}

/* What the group has no room for is refused; its worker is not killed for it. */
WITH_WORKER(a_groups_limit_is_kept)
{
        if (!group_make())
                skip();
        worker_start(w, "w", NULL);
        group_join(w->pid);
        const char *id = region_make(w, 16 << 20, 1);
        assert_problem(w, "POST", "/v1/regions", "{\"size\":268435456}", 507, "limit-reached", NULL);
        region_assert_pattern(w, id, 1, 0, 16 << 20);
        region_drop(w, id);
        worker_stop(w);
        WAIT_UNTIL(group_is_gone());
}

/* ---- clocks ---- */

WITH_WORKER(a_days_jump_of_the_clock_ends_nothing)
{
        enum { DAY_S = 24 * 3600, SIZE = 1 << 20, HOLD_MS = 300 };
        struct failing *failing;

        if (SANITIZED)
                skip();
        failing = failing_share(true);
        worker_start(w, "w", NULL);
        for (int days = -1; days <= 1; days += 2) {
                OPERATION old, offer, active, latest;
                uint64_t before;

                failing->wall_shift_s = 0;
                const char *source = region_make(w, SIZE, 3);
                const char *target = region_make(w, SIZE, 0);
                offer_make(w, FERRY_READABLE, source, &old);
                failing->wall_shift_s = (long)days * DAY_S;
                /* A wait takes its time, no more and no less, and nothing expires. */
                before = now_ms();
                assert_int_equal(ferry_wait_operation(w->client, old.id, HOLD_MS, &latest), -ETIMEDOUT);
                assert_in_range(now_ms() - before, HOLD_MS, 20 * HOLD_MS);
                assert_int_equal(latest.status, FERRY_INITIALIZED);
                offer_make(w, FERRY_READABLE, source, &offer);
                begin_make(w, FERRY_READ, target, offer.metadata, &active);
                operation_assert_end(w, active.id, FERRY_COMPLETE, NULL);
                operation_assert_end(w, offer.id, FERRY_COMPLETE, NULL);
                region_assert_pattern(w, target, 3, 0, SIZE);
                assert_int_equal(ferry_delete_operation(w->client, old.id), 0);
                region_drop(w, source);
                region_drop(w, target);
        }
        worker_stop(w);
        (void)failing_share(false);
}
