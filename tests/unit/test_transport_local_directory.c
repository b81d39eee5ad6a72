/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"
#include "local_fixture.h"
#include "moved_clock.h"

/* The directory of a worker's socket, and which sockets are found in it. */

enum { OTHER_USER = 65534, TEXT = 512, TIMEOUT_MS = 20000 };

static char path[LOCAL_PATH_SIZE];
static int descriptors;

static int setup(void **state)
{
        int r = fixture_setup(state);

        (void)snprintf(path, sizeof(path), "%s/d", fixture_directory);
        descriptors = count_descriptors();
        return r;
}

static int teardown(void **state)
{
        (void)rmdir(path);
        (void)unlink(path);
        assert_int_equal(count_descriptors(), descriptors);
        return fixture_teardown(state);
}

static bool accept_any(void *context, struct link *link)
{
        (void)context;
        (void)link;
        return true;
}

static void ignore_end(void *context, struct link *link)
{
        (void)context;
        link_free(link);
}

static void ignore_room(void *context, struct link *link)
{
        (void)context;
        (void)link;
}

static int open_in(const char *directory, uint64_t epoch, struct transport **ret_transport)
{
        const struct transport_handlers handlers = { .accepted = accept_any, .ended = ignore_end, .room = ignore_room };
        struct local_config config = { .epoch = epoch, .directory = directory };

        return local_transport_new(&config, &handlers, 0, ret_transport);
}

static void socket_path(const char *directory, uint64_t epoch, char text[TEXT])
{
        (void)snprintf(text, TEXT, "%s/%016llx.sock", directory, (unsigned long long)epoch);
}

static int n_swept, n_renames;

int __real_renameat(int from, const char *name, int to, const char *other);
int __wrap_renameat(int from, const char *name, int to, const char *other);

/* Another worker's sweep comes first, so often. */
int __wrap_renameat(int from, const char *name, int to, const char *other)
{
        if (n_renames++ < n_swept)
                assert_int_equal(unlinkat(from, name, 0), 0);
        return __real_renameat(from, name, to, other);
}

TEST_WITH(a_start_survives_the_sweeps_of_other_workers, setup, teardown)
{
        struct transport *transport;
        char name[TEXT];

        n_swept = 3;
        n_renames = 0;
        assert_int_equal(open_in(path, 0xabc, &transport), 0);
        assert_int_equal(n_renames, n_swept + 1);
        n_swept = 0;
        socket_path(path, 0xabc, name);
        assert_int_equal(access(name, F_OK), 0);
        transport->ops->free(transport);
}

/* Where XDG_RUNTIME_DIR is of no use. */
static void assert_auto_is_the_users(void)
{
        struct transport *transport;
        char expected[TEXT];
        struct stat st;

        (void)snprintf(expected, sizeof(expected), "/run/user/%lu", (unsigned long)geteuid());
        if (stat(expected, &st) == 0 && st.st_uid == geteuid())
                (void)strcat(expected, "/ferry");
        else
                (void)snprintf(expected, sizeof(expected), "/tmp/ferry-%lu", (unsigned long)geteuid());
        assert_int_equal(open_in("auto", 1, &transport), 0);
        assert_string_equal(local_transport_directory(transport), expected);
        transport->ops->free(transport);
}

static bool auto_is(const char *expected)
{
        struct transport *transport;
        bool same;

        if (open_in("auto", 1, &transport) < 0)
                return false;
        same = strcmp(local_transport_directory(transport), expected) == 0;
        transport->ops->free(transport);
        return same;
}

/* Whether a start in the default directory fails for the file system, and the log says what to do. */
static bool read_only_is_explained(void)
{
        struct transport *transport;
        char said[4096] = "";
        int ends[2], r;

        if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0 || dup2(ends[1], STDERR_FILENO) < 0)
                return false;
        r = open_in("auto", 1, &transport);
        return read(ends[0], said, sizeof(said) - 1) > 0 && r == -EROFS &&
               strstr(said, "mount a writable directory there, or --local off");
}

enum { SKIPPED = 77 };

/* In a process of its own, whose /run is its own; returns the exit status. */
static int look_below_run(void)
{
        const char *user = text_format("/run/user/%lu", (unsigned long)geteuid());

        if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("none", "/run", "tmpfs", 0, "mode=0755") < 0)
                return SKIPPED;
        (void)unsetenv("XDG_RUNTIME_DIR");
        if (!auto_is(text_format("/tmp/ferry-%lu", (unsigned long)geteuid())))
                return 1;
        if (mkdir("/run/user", 0755) < 0 || mkdir(user, 0700) < 0 || !auto_is(text_format("%s/ferry", user)))
                return 2;
        if (mount("none", "/run", NULL, MS_REMOUNT | MS_RDONLY, NULL) < 0 || !read_only_is_explained())
                return 3;
        if (mount("none", "/run", NULL, MS_REMOUNT, NULL) < 0 || rmdir(text_format("%s/ferry", user)) < 0 ||
            mount("none", "/run", NULL, MS_REMOUNT | MS_RDONLY, NULL) < 0 || !read_only_is_explained())
                return 4;
        if (mount("none", "/run", NULL, MS_REMOUNT, NULL) < 0 || chown(user, OTHER_USER, OTHER_USER) < 0 ||
            !auto_is(text_format("/tmp/ferry-%lu", (unsigned long)geteuid())))
                return 5;
        return 0;
}

TEST_WITH(auto_is_below_run_where_the_user_has_a_directory_there, setup, teardown)
{
        pid_t child = fork();
        int status;

        if (child == 0)
                _exit(look_below_run());
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == SKIPPED)
                skip();
        assert_int_equal(WEXITSTATUS(status), 0);
}

TEST_WITH(auto_is_the_users_runtime_directory, setup, teardown)
{
        struct transport *transport;
        char expected[TEXT];

        assert_int_equal(setenv("XDG_RUNTIME_DIR", fixture_directory, 1), 0);
        assert_int_equal(open_in("auto", 1, &transport), 0);
        (void)snprintf(expected, sizeof(expected), "%s/ferry", fixture_directory);
        assert_string_equal(local_transport_directory(transport), expected);
        transport->ops->free(transport);
        assert_int_equal(rmdir(expected), 0);
        assert_int_equal(unsetenv("XDG_RUNTIME_DIR"), 0);
        assert_auto_is_the_users();
}

TEST_WITH(auto_is_no_runtime_directory_of_others, setup, teardown)
{
        (void)close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        FOR_EACH_TEXT (runtime, "", "d", "/nonexistent/directory", path) {
                assert_int_equal(setenv("XDG_RUNTIME_DIR", runtime, 1), 0);
                assert_auto_is_the_users();
        }
        assert_int_equal(unlink(path), 0);
        if (geteuid() == 0) {
                assert_int_equal(mkdir(path, 0755), 0);
                assert_int_equal(chown(path, OTHER_USER, OTHER_USER), 0);
                assert_auto_is_the_users();
        }
        assert_int_equal(unsetenv("XDG_RUNTIME_DIR"), 0);
}

TEST_WITH(a_path_beyond_the_limit_is_refused, setup, teardown)
{
        struct transport *transport;
        char endless[LOCAL_PATH_SIZE + 1] = { 0 };

        memset(endless, 'x', sizeof(endless) - 1);
        assert_int_equal(open_in(endless, 1, &transport), -ENAMETOOLONG);
}

/* A socket whose owner is no more. */
static void leave_stale(const char *name)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        assert_true(strlen(name) < sizeof(address.sun_path));
        memcpy(address.sun_path, name, strlen(name));
        assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        (void)close(fd);
}

static int connect_error(struct transport *transport, uint64_t epoch)
{
        struct transport_peer peer = { .epoch = epoch };
        int error = 0;

        assert_null(transport->ops->connect(transport, &peer, &error));
        return error;
}

TEST_WITH(the_socket_of_a_dead_worker_is_removed, setup, teardown)
{
        struct transport *transport, *next;
        char name[TEXT];

        assert_int_equal(open_in(path, 1, &transport), 0);
        assert_int_equal(connect_error(transport, 5), -ENOENT);
        socket_path(path, 5, name);
        leave_stale(name);
        assert_int_equal(connect_error(transport, 5), -ENOENT);
        assert_int_equal(access(name, F_OK), -1);
        /* Also by the next worker that starts. */
        leave_stale(name);
        assert_int_equal(open_in(path, 2, &next), 0);
        assert_int_equal(access(name, F_OK), -1);
        socket_path(path, 1, name);
        assert_int_equal(access(name, F_OK), 0);
        next->ops->free(next);
        transport->ops->free(transport);
}

/* Waits for an event of the transport or its deadline, and runs it then. */
static void await_transport(struct transport *transport)
{
        struct pollfd event = { .fd = transport->fd, .events = POLLIN };
        uint64_t now_us = clock_now_us(), due_us = transport->ops->deadline(transport);
        bool due = due_us != UINT64_MAX;
        int wait_ms = due && due_us <= now_us ? 0 : due ? (int)((due_us - now_us) / 1000 + 1) : TIMEOUT_MS;

        assert_true(poll(&event, 1, wait_ms) > 0 || due);
        (void)transport->ops->progress(transport);
}

TEST_WITH(a_socket_that_was_removed_is_made_again, setup, teardown)
{
        for (int whole = 0; whole < 2; whole++) {
                struct transport *transport, *other;
                char name[TEXT];
                struct stat st;
                int error = 0;

                assert_int_equal(open_in(path, 1, &transport), 0);
                socket_path(path, 1, name);
                for (int i = 0; i < 2; i++) { /* more than once */
                        assert_int_equal(unlink(name), 0);
                        if (whole)
                                assert_int_equal(rmdir(path), 0);
                        await_transport(transport); /* the removal */
                        while (access(name, F_OK) != 0)
                                await_transport(transport);
                        assert_int_equal(stat(name, &st), 0);
                        assert_int_equal(st.st_mode & 07777, 0600);
                        assert_int_equal(stat(path, &st), 0);
                        assert_int_equal(st.st_mode & 07777, 0700);
                }
                assert_int_equal(open_in(path, 2, &other), 0);
                assert_non_null(other->ops->connect(other, &(struct transport_peer){ .epoch = 1 }, &error));
                other->ops->free(other);
                transport->ops->free(transport);
                assert_int_equal(access(name, F_OK), -1);
        }
}

/* A child of this process has what it inherited open as long as it lives. */
TEST_WITH(a_socket_that_is_made_again_after_a_fork_leaves_the_worker_asleep, setup, teardown)
{
        struct transport *transport;
        char name[TEXT], byte;
        int ends[2];
        pid_t child;

        assert_int_equal(open_in(path, 1, &transport), 0);
        socket_path(path, 1, name);
        assert_int_equal(pipe(ends), 0);
        child = fork();
        assert_true(child >= 0);
        if (child == 0) {
                (void)close(ends[1]);
                _exit((int)read(ends[0], &byte, 1));
        }
        (void)close(ends[0]);
        assert_int_equal(unlink(name), 0);
        await_transport(transport); /* the removal */
        while (access(name, F_OK) != 0)
                await_transport(transport);
        (void)transport->ops->progress(transport);
        assert_int_equal(poll(&(struct pollfd){ .fd = transport->fd, .events = POLLIN }, 1, 0), 0);
        (void)close(ends[1]);
        assert_int_equal(waitpid(child, NULL, 0), child);
        transport->ops->free(transport);
}

/* The process is about to exit, and may take its time. */
TEST_WITH(a_socket_that_the_program_has_removed_is_not_made_again, setup, teardown)
{
        for (int early = 0; early < 2; early++) {
                struct transport *transport;
                char name[TEXT];

                assert_int_equal(open_in(path, 1, &transport), 0);
                socket_path(path, 1, name);
                if (early) {
                        assert_int_equal(unlink(name), 0);
                        await_transport(transport); /* it is to be made again */
                }
                local_transport_unlink(transport);
                await_transport(transport); /* the removal, or the time to make it again */
                assert_true(transport->ops->deadline(transport) == UINT64_MAX);
                assert_int_equal(access(name, F_OK), -1);
                transport->ops->free(transport);
        }
}

/* Lets the time pass until the transport's next deadline, so often. */
static void skip_to_deadline(struct transport *transport, int times)
{
        while (times-- > 0) {
                uint64_t due_us = transport->ops->deadline(transport), now_us = clock_now_us();

                assert_true(due_us < now_us + 10 * UINT64_C(1000000));
                later_us += due_us > now_us ? due_us - now_us : 0;
                (void)transport->ops->progress(transport);
        }
}

/* What stands in the way of the directory, and is taken away later. */
static void block_by_a_link(void)
{
        assert_int_equal(symlink(fixture_directory, path), 0);
}

static void block_by_a_file(void)
{
        (void)close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

static void block_by_its_mode(void)
{
        assert_int_equal(mkdir(path, 0700), 0);
        assert_int_equal(chmod(path, 0755), 0);
}

/* As at the start, another user's link in its place is not followed. */
TEST_WITH(a_directory_that_cannot_be_made_again_is_used_once_it_can, setup, teardown)
{
        static void (*const blocks[])(void) = { block_by_a_link, block_by_a_file, block_by_its_mode };
        struct transport *transport;
        char name[TEXT];

        assert_int_equal(open_in(path, 1, &transport), 0);
        socket_path(path, 1, name);
        for (size_t i = 0; i < UNIT_COUNT(blocks); i++) {
                assert_int_equal(unlink(name), 0);
                assert_int_equal(rmdir(path), 0);
                blocks[i]();
                await_transport(transport); /* the removal */
                skip_to_deadline(transport, 3);
                assert_int_equal(access(name, F_OK), -1);
                if (rmdir(path) < 0)
                        assert_int_equal(unlink(path), 0);
                skip_to_deadline(transport, 1);
                assert_int_equal(access(name, F_OK), 0);
                assert_true(transport->ops->deadline(transport) == UINT64_MAX);
        }
        transport->ops->free(transport);
}

TEST_WITH(a_transport_that_stops_does_not_make_its_socket_again, setup, teardown)
{
        struct transport *transport;
        char name[TEXT];

        assert_int_equal(open_in(path, 1, &transport), 0);
        socket_path(path, 1, name);
        assert_int_equal(unlink(name), 0);
        assert_int_equal(rmdir(path), 0);
        block_by_a_link();
        await_transport(transport); /* the removal */
        skip_to_deadline(transport, 1);
        assert_int_equal(unlink(path), 0);
        transport->ops->shut_down(transport, 0);
        assert_true(transport->ops->deadline(transport) == UINT64_MAX);
        transport->ops->free(transport);
        assert_int_equal(access(path, F_OK), -1);
}

TEST_WITH(what_is_no_socket_is_left_alone, setup, teardown)
{
        struct transport *transport, *next;
        char name[TEXT];

        assert_int_equal(open_in(path, 1, &transport), 0);
        socket_path(path, 5, name);
        (void)close(open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        assert_true(connect_error(transport, 5) < 0);
        assert_int_equal(open_in(path, 2, &next), 0);
        assert_int_equal(access(name, F_OK), 0);
        next->ops->free(next);
        transport->ops->free(transport);
        assert_int_equal(unlink(name), 0);
}

TEST_WITH(a_process_that_ends_at_once_unlinks_its_socket, setup, teardown)
{
        struct transport *transport;
        char name[TEXT];

        assert_int_equal(open_in(path, 1, &transport), 0);
        socket_path(path, 1, name);
        local_transport_unlink(transport);
        assert_int_equal(access(name, F_OK), -1);
        local_transport_unlink(transport);
        transport->ops->free(transport);
}

TEST_WITH(another_users_worker_is_not_taken, setup, teardown)
{
        struct transport *transport;
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int ends[2], status;
        char name[TEXT], byte;
        pid_t child;

        if (geteuid() != 0)
                skip();
        assert_int_equal(open_in(path, 1, &transport), 0);
        assert_int_equal(pipe(ends), 0);
        /* One that connects, and one that listens; root lets it in here, for SO_PEERCRED to keep it out. */
        assert_int_equal(chmod(fixture_directory, 0777), 0);
        socket_path(path, 1, name);
        memcpy(address.sun_path, name, strlen(name));
        child = fork();
        if (child == 0) {
                int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0), listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);

                if (chmod(path, 0777) < 0 || chmod(name, 0777) < 0 || setgid(OTHER_USER) < 0 || setuid(OTHER_USER) < 0)
                        _exit(2);
                if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
                        _exit(3);
                socket_path(path, 9, name);
                memcpy(address.sun_path, name, strlen(name));
                if (bind(listener, (struct sockaddr *)&address, sizeof(address)) < 0 || chmod(name, 0777) < 0 ||
                    listen(listener, 1) < 0 || write(ends[1], "x", 1) != 1)
                        _exit(4);
                _exit(read(fd, &byte, 1) == 0 ? 0 : 5); /* closed before a word was said */
        }
        assert_int_equal(read(ends[0], &byte, 1), 1);
        assert_int_equal(connect_error(transport, 9), -EACCES);
        while (waitpid(child, &status, WNOHANG) == 0)
                (void)transport->ops->progress(transport);
        assert_int_equal(status, 0);
        (void)close(ends[0]);
        (void)close(ends[1]);
        socket_path(path, 9, name);
        assert_int_equal(unlink(name), 0);
        transport->ops->free(transport);
}
