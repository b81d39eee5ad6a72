/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "worker_fixture.h"

/* What a worker and its libraries do to the process of an embedding program, and to the processes that it starts. */

enum { SIZE = 1 << 20 };

#define WORKER_WITH_BOTH() WORKER("listen", "127.0.0.1:0", "data-listen", "127.0.0.1:0")

/* Moves bytes from one worker to the other, whose metadata is fetched from a URL. */
static void move(struct ferry_worker *from, struct ferry_worker *to)
{
        static char source[SIZE], target[SIZE];
        struct ferry_worker_operation *offer = create_on(from, FERRY_READABLE, source, SIZE, NULL), *read;
        char url[256];

        (void)snprintf(url, sizeof(url), "%s/v1/operations/%s/metadata", ferry_worker_url(from, 0),
                       ferry_worker_operation_id(offer));
        read = create_on(to, FERRY_READ, target, SIZE, url);
        if (ferry_worker_operation_wait(read, -1) != 0)
                fail_msg("%s", ferry_worker_error());
        (void)ferry_worker_operation_free(read);
        (void)ferry_worker_operation_free(offer);
}

/*
 * Whether it is one of the pair by which libcurl (7.88) wakes itself, which nobody else can reach or close on exec: a
 * socket that has no name and is connected to this process.
 */
static bool is_of_curl(int fd)
{
        struct sockaddr_storage name;
        struct ucred peer;
        socklen_t length = sizeof(name), size = sizeof(peer);

        return getsockname(fd, (struct sockaddr *)&name, &length) == 0 && name.ss_family == AF_UNIX &&
               length == sizeof(sa_family_t) && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
               peer.pid == getpid();
}

/* Fails the test if a program that is started now would inherit a descriptor; before: those that were open earlier. */
static void assert_nothing_is_inherited(const bool before[], size_t n)
{
        for (size_t fd = 0; fd < n; fd++) {
                char path[64], target[128] = "";
                int flags = fcntl((int)fd, F_GETFD);

                if (flags < 0 || before[fd] || flags & FD_CLOEXEC || is_of_curl((int)fd))
                        continue;
                (void)snprintf(path, sizeof(path), "/proc/self/fd/%zu", fd);
                assert_true(readlink(path, target, sizeof(target) - 1) > 0);
                fail_msg("a program that is started inherits %zu, %s", fd, target);
        }
}

/* ---- before UCX is loaded, which does not survive a fork ---- */

/* In a child. Exits with 0 if all is well. */
static void start_on_a_host_with_the_longest_name(void)
{
        char name[HOST_NAME_MAX];
        struct ferry_worker *worker = NULL;

        memset(name, 'a', sizeof(name));
        if ((unshare(CLONE_NEWUTS) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWUTS) < 0) ||
            sethostname(name, sizeof(name)) < 0)
                _exit(77);
        if (WORKER_NEW(&worker, "listen", "127.0.0.1:0", "name", "w") != 0)
                _exit(1);
        (void)ferry_worker_free(worker);
        _exit(WORKER_NEW(&worker, "data-listen", "127.0.0.1:0", "name", "w") != 0 &&
                              strstr(ferry_worker_error(), "64 characters")
                      ? 0
                      : 2);
}

TEST(a_worker_without_the_network_loads_neither_ucx_nor_libibverbs)
{
        struct ferry_worker *worker = NULL;

        assert_int_equal(WORKER_NEW(&worker, "listen", "127.0.0.1:0"), 0);
        assert_null(dlopen("libucp.so.0", RTLD_NOW | RTLD_NOLOAD));
        assert_null(dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD));
        (void)ferry_worker_free(worker);
}

TEST(the_longest_host_name_costs_the_network_alone)
{
        int status;
        pid_t child = fork();

        if (child == 0)
                start_on_a_host_with_the_longest_name();
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
                skip();
        assert_int_equal(status, 0);
}

/* A program with a worker, and its child. */
struct program {
        pid_t pid;
        int ready[2]; /* the program writes the worker's ready line */
        int hold[2];  /* the child ends when the writing end is closed */
};

static void start_child(const struct program *p, bool spawns)
{
        posix_spawn_file_actions_t actions;
        pid_t child;
        char end;

        if (!spawns && (child = fork()) == 0) {
                (void)close(p->hold[1]);
                (void)close(p->ready[1]);
                _exit(read(p->hold[0], &end, 1) == 0 ? 0 : 1);
        }
        if (!spawns)
                return;
        (void)posix_spawn_file_actions_init(&actions);
        (void)posix_spawn_file_actions_adddup2(&actions, p->hold[0], STDIN_FILENO);
        if (posix_spawn(&child, "/bin/cat", &actions, NULL, (char *[]){ "cat", NULL }, environ) != 0)
                _exit(1);
        (void)posix_spawn_file_actions_destroy(&actions);
}

/* Returns in the test's process alone. */
static void program_start(struct program *p, bool spawns)
{
        struct ferry_worker *worker = NULL;

        assert_int_equal(pipe2(p->ready, O_CLOEXEC), 0);
        assert_int_equal(pipe2(p->hold, O_CLOEXEC), 0);
        p->pid = fork();
        if (p->pid == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves none behind */
                if (WORKER_NEW(&worker, "listen", "127.0.0.1:0", "data-listen", "127.0.0.1:0") != 0)
                        _exit(1);
                start_child(p, spawns);
                (void)dprintf(p->ready[1], "%s", ferry_worker_ready_line(worker));
                (void)close(p->ready[1]);
                for (;;)
                        (void)pause();
        }
        (void)close(p->ready[1]);
        (void)close(p->hold[0]);
}

/* Kills the program, and starts a worker in its place while its child lives. */
static void assert_replaceable(struct program *p)
{
        struct ferry_worker *worker = NULL;
        char line[512] = "", http[64], data[64];
        int status;

        assert_true(read(p->ready[0], line, sizeof(line) - 1) > 0);
        assert_int_equal(sscanf(strstr(line, "http://"), "http://%63[0-9.:]", http), 1);
        assert_int_equal(sscanf(strstr(line, "\"data\":\""), "\"data\":\"%63[0-9.:]", data), 1);
        assert_int_equal(kill(p->pid, SIGKILL), 0);
        assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
        if (WORKER_NEW(&worker, "listen", http, "data-listen", data) != 0)
                fail_msg("%s", ferry_worker_error());
        move(worker, worker);
        (void)ferry_worker_free(worker);
        (void)close(p->hold[1]);
        (void)close(p->ready[0]);
}

TEST(a_worker_that_has_died_is_replaced_while_a_child_of_it_lives)
{
        struct program forks, spawns;

        program_start(&forks, false);
        program_start(&spawns, true);
        assert_replaceable(&forks);
        assert_replaceable(&spawns);
}

/* ---- with UCX ---- */

TEST(a_variable_of_ucx_that_fails_the_start_is_named)
{
        struct ferry_worker *worker = NULL;

        (void)setenv("UCX_TLS", "none-of-these", 1);
        assert_int_equal(WORKER_NEW(&worker, "data-listen", "127.0.0.1:0"), FERRY_E_INVALID_PARAMETER);
        assert_non_null(strstr(ferry_worker_error(), "UCX_TLS"));
        assert_int_equal(WORKER_NEW(&worker, "data-listen", "127.0.0.1:0", "transports", "tcp"), 0);
        worker = ferry_worker_free(worker);
        (void)unsetenv("UCX_TLS");
        (void)setenv("UCX_TCP_KEEPIDLE", "no-time", 1);
        assert_int_not_equal(WORKER_NEW(&worker, "data-listen", "127.0.0.1:0", "transports", "tcp"), 0);
        assert_non_null(strstr(ferry_worker_error(), "UCX_TCP_KEEPIDLE"));
        (void)unsetenv("UCX_TCP_KEEPIDLE");
}

TEST(a_program_that_is_started_inherits_nothing)
{
        enum { FDS = 1024 };
        struct ferry_worker *a, *b;
        bool before[FDS];

        for (int fd = 0; fd < FDS; fd++)
                before[fd] = fcntl(fd, F_GETFD) >= 0;
        a = WORKER_WITH_BOTH();
        b = WORKER_WITH_BOTH();
        assert_nothing_is_inherited(before, FDS);
        move(a, b);
        move(b, a);
        assert_nothing_is_inherited(before, FDS);
        (void)ferry_worker_free(a);
        (void)ferry_worker_free(b);
}

TEST(a_forked_child_may_have_no_network_of_its_own_beside_its_parents)
{
#if defined(__SANITIZE_THREAD__) && __GNUC__ < 13
        skip(); /* its runtime takes the child's threads for the parent's */
#endif
        struct ferry_worker *worker = WORKER_WITH_BOTH(), *other = NULL;
        int status;
        pid_t child = fork();

        if (child == 0)
                _exit(WORKER_NEW(&other, "data-listen", "127.0.0.1:0") != 0 && strstr(ferry_worker_error(), "fork")
                              ? 0
                              : 1);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        (void)ferry_worker_free(worker);
}
