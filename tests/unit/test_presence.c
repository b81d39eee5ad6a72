/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/presence.h"
#include "base/util.h"

/*
 * Each test draws epochs of its own and asserts about them alone: other workers of this user may run on the machine,
 * and one that starts may reap what is dead here at any time.
 */

static const char address[] = "an address \0 with a zero";

struct worker {
        pid_t pid;
        uint64_t epoch;
        int talk; /* its end of a socket pair; the worker ends when ours is closed */
};

/* A process that has a presence file, and does nothing until it is told to end. */
static struct worker worker_start(int (*prepare)(int talk))
{
        struct worker worker = { .epoch = random_id() };
        int pipes[2][2];
        assert_int_equal(pipe2(pipes[0], O_CLOEXEC) | pipe2(pipes[1], O_CLOEXEC), 0);
        worker.pid = fork();
        assert_true(worker.pid >= 0);
        if (worker.pid == 0) {
                struct presence *presence = NULL;
                char c = '\0';
                close(pipes[0][1]);
                bool ready = (!prepare || prepare(pipes[1][1]) == 0) &&
                             presence_new(worker.epoch, address, sizeof(address), &presence) == 0;
                (void)!write(pipes[1][1], ready ? "y" : "n", 1);
                (void)!read(pipes[0][0], &c, 1);
                presence_free(presence);
                _exit(0);
        }
        close(pipes[0][0]);
        close(pipes[1][1]);
        char answer = '\0';
        assert_int_equal(read(pipes[1][0], &answer, 1), 1);
        close(pipes[1][0]);
        worker.talk = pipes[0][1];
        if (answer != 'y') {
                kill(worker.pid, SIGKILL);
                waitpid(worker.pid, NULL, 0);
                close(worker.talk);
                worker.pid = 0;
        }
        return worker;
}

static void worker_kill(struct worker *worker)
{
        kill(worker->pid, SIGKILL);
        waitpid(worker->pid, NULL, 0);
        close(worker->talk);
}

static void worker_end(struct worker *worker)
{
        close(worker->talk);
        waitpid(worker->pid, NULL, 0);
}

static bool exists(uint64_t epoch, const char *suffix)
{
        char path[PRESENCE_PATH_SIZE];
        struct stat st;
        presence_path(epoch, suffix, path);
        return lstat(path, &st) == 0;
}

static void touch(uint64_t epoch, const char *suffix)
{
        char path[PRESENCE_PATH_SIZE];
        presence_path(epoch, suffix, path);
        int fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        close(fd);
}

static void discard(uint64_t epoch, const char *suffix)
{
        char path[PRESENCE_PATH_SIZE];
        presence_path(epoch, suffix, path);
        unlink(path);
}

/* Puts bytes where a presence file would be, locked as by a live worker. The fd holds the lock. */
static int forge(uint64_t epoch, const void *data, size_t size)
{
        char path[PRESENCE_PATH_SIZE];
        presence_path(epoch, NULL, path);
        int fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
        assert_int_equal(write(fd, data, size), size);
        return fd;
}

static int lookup(uint64_t epoch)
{
        struct presence_peer peer = { .pidfd = -1 };
        int r = presence_lookup(epoch, &peer);
        if (r == 0)
                presence_peer_clear(&peer);
        return r;
}

static bool is_dead(uint64_t epoch)
{
        int r = lookup(epoch);
        return r == -ESRCH || (r == -ENOENT && !exists(epoch, NULL));
}

static void paths_are_named_by_epoch_and_suffix(void **state)
{
        char path[PRESENCE_PATH_SIZE];
        presence_path(0xabc, NULL, path);
        assert_string_equal(path, "/dev/shm/ferry-0000000000000abc");
        presence_path(UINT64_MAX, "rgn_0123456789abcdef", path);
        assert_string_equal(path, "/dev/shm/ferry-ffffffffffffffff-rgn_0123456789abcdef");
}

static void live_worker_is_found_with_its_address_and_a_pidfd(void **state)
{
        struct worker worker = worker_start(NULL);
        struct presence_peer peer;
        assert_int_equal(presence_lookup(worker.epoch, &peer), 0);
        assert_int_equal(peer.pid, worker.pid);
        assert_int_equal(peer.size, sizeof(address));
        assert_memory_equal(peer.address, address, sizeof(address));
        struct pollfd poll_fd = { .fd = peer.pidfd, .events = POLLIN };
        assert_int_equal(poll(&poll_fd, 1, 0), 0);
        worker_kill(&worker);
        assert_int_equal(poll(&poll_fd, 1, 10000), 1);
        presence_peer_clear(&peer);
        assert_int_equal(peer.pidfd, -1);
        assert_null(peer.address);
        discard(worker.epoch, NULL);
}

static void file_is_private_whatever_the_umask(void **state)
{
        mode_t before = umask(0277);
        uint64_t epoch = random_id();
        struct presence *presence;
        assert_int_equal(presence_new(epoch, address, sizeof(address), &presence), 0);
        umask(before);
        char path[PRESENCE_PATH_SIZE];
        struct stat st;
        presence_path(epoch, NULL, path);
        assert_int_equal(lstat(path, &st), 0);
        assert_int_equal(st.st_mode, S_IFREG | 0600);
        assert_int_equal(lookup(epoch), 0);
        presence_free(presence);
}

static void free_removes_the_file(void **state)
{
        struct worker worker = worker_start(NULL);
        assert_true(exists(worker.epoch, NULL));
        worker_end(&worker);
        assert_false(exists(worker.epoch, NULL));
        assert_int_equal(lookup(worker.epoch), -ENOENT);
        assert_null(presence_free(NULL));
}

static void killed_worker_is_dead_though_its_file_is_there(void **state)
{
        struct worker worker = worker_start(NULL);
        worker_kill(&worker);
        assert_true(is_dead(worker.epoch));
        discard(worker.epoch, NULL);
}

static void program_started_by_a_worker_does_not_keep_it_alive(void **state)
{
        uint64_t epoch = random_id();
        int child_pipe[2], echo[2];
        assert_int_equal(pipe(child_pipe) | pipe(echo), 0);
        pid_t pid = fork();
        if (pid == 0) {
                struct presence *presence;
                if (presence_new(epoch, address, sizeof(address), &presence) != 0)
                        _exit(1);
                if (fork() == 0) {
                        dup2(child_pipe[0], STDIN_FILENO);
                        dup2(echo[1], STDOUT_FILENO);
                        close(child_pipe[1]);
                        execlp("cat", "cat", "-u", (char *)NULL);
                        _exit(1);
                }
                for (;;)
                        pause();
        }
        char c;
        assert_int_equal(write(child_pipe[1], "x", 1), 1);
        assert_int_equal(read(echo[0], &c, 1), 1);
        assert_int_equal(lookup(epoch), 0);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        assert_true(is_dead(epoch));
        presence_reap();
        assert_false(exists(epoch, NULL));
        close(child_pipe[1]);
        close(echo[1]);
        assert_int_equal(read(echo[0], &c, 1), 0);
        close(child_pipe[0]);
        close(echo[0]);
        discard(epoch, NULL);
}

static void epoch_in_use_is_refused(void **state)
{
        struct worker worker = worker_start(NULL);
        struct presence *presence = NULL;
        assert_int_equal(presence_new(worker.epoch, address, sizeof(address), &presence), -EEXIST);
        assert_null(presence);
        assert_int_equal(lookup(worker.epoch), 0);
        worker_end(&worker);
}

static void worker_without_a_local_side_is_not_found_but_not_reaped(void **state)
{
        uint64_t epoch = random_id();
        struct presence *presence;
        assert_int_equal(presence_new(epoch, NULL, 0, &presence), 0);
        assert_int_equal(lookup(epoch), -ENOENT);
        presence_reap();
        assert_true(exists(epoch, NULL));
        presence_free(presence);
}

static void address_beyond_the_limit_is_refused(void **state)
{
        static char large[64 * 1024 + 1];
        struct presence *presence = NULL;
        uint64_t epoch = random_id();
        assert_int_equal(presence_new(epoch, large, sizeof(large), &presence), -EMSGSIZE);
        assert_int_equal(presence_new(epoch, large, sizeof(large) - 1, &presence), 0);
        struct presence_peer peer;
        assert_int_equal(presence_lookup(epoch, &peer), 0);
        assert_int_equal(peer.size, sizeof(large) - 1);
        presence_peer_clear(&peer);
        presence_free(presence);
}

/* The content of a presence file that this process makes for the epoch. Returns its size. */
static size_t genuine_content(uint64_t epoch, unsigned char *data, size_t size)
{
        struct presence *presence;
        char path[PRESENCE_PATH_SIZE];
        presence_path(epoch, NULL, path);
        assert_int_equal(presence_new(epoch, address, sizeof(address), &presence), 0);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = read(fd, data, size);
        close(fd);
        presence_free(presence);
        assert_true(n > (ssize_t)sizeof(address));
        return (size_t)n;
}

/* As when another lookup or a reaper asks at the same moment; the pid in the file is one that lives. */
static void shared_lock_of_another_who_asks_is_not_taken_for_the_owners(void **state)
{
        uint64_t epoch = random_id();
        unsigned char data[512];
        size_t size = genuine_content(epoch, data, sizeof(data));
        int fd = forge(epoch, data, size);
        assert_int_equal(lookup(epoch), 0);
        assert_int_equal(flock(fd, LOCK_SH | LOCK_NB), 0);
        assert_true(is_dead(epoch));
        presence_reap();
        assert_false(exists(epoch, NULL));
        close(fd);
}

static void file_changed_in_any_byte_or_cut_is_malformed(void **state)
{
        uint64_t epoch = random_id();
        unsigned char data[512];
        ssize_t size = (ssize_t)genuine_content(epoch, data, sizeof(data));
        int fd = forge(epoch, data, (size_t)size);
        assert_int_equal(lookup(epoch), 0);
        for (ssize_t i = 0; i < size; i++) {
                unsigned char changed = data[i] ^ 0x10;
                assert_int_equal(pwrite(fd, &changed, 1, i), 1);
                assert_int_equal(lookup(epoch), -EBADMSG);
                assert_int_equal(pwrite(fd, &data[i], 1, i), 1);
        }
        assert_int_equal(lookup(epoch), 0);
        assert_int_equal(pwrite(fd, "x", 1, size), 1);
        assert_int_equal(lookup(epoch), -EBADMSG);
        for (ssize_t i = size - 1; i >= 0; i--) {
                assert_int_equal(ftruncate(fd, i), 0);
                assert_int_equal(lookup(epoch), -EBADMSG);
        }
        close(fd);
        discard(epoch, NULL);

        /* A whole file of another epoch. */
        uint64_t other = random_id();
        fd = forge(other, data, (size_t)size);
        assert_int_equal(lookup(other), -EBADMSG);
        close(fd);
        discard(other, NULL);
}

static void what_is_not_a_private_regular_file_of_ours_is_refused(void **state)
{
        uint64_t epoch = random_id();
        char path[PRESENCE_PATH_SIZE];
        presence_path(epoch, NULL, path);

        char target[] = "/tmp/ferry-presence-XXXXXX";
        int held = mkstemp(target);
        assert_int_equal(flock(held, LOCK_EX | LOCK_NB), 0);
        assert_int_equal(symlink(target, path), 0);
        assert_int_equal(lookup(epoch), -EACCES);
        close(held);
        unlink(target);
        unlink(path);

        assert_int_equal(mkfifo(path, 0600), 0);
        assert_int_equal(lookup(epoch), -EACCES);
        unlink(path);

        assert_int_equal(mkdir(path, 0700), 0);
        assert_int_equal(lookup(epoch), -EACCES);
        rmdir(path);

        int fd = forge(epoch, address, sizeof(address));
        assert_int_equal(lookup(epoch), -EBADMSG);
        assert_int_equal(fchmod(fd, 0644), 0);
        assert_int_equal(lookup(epoch), -EACCES);
        assert_int_equal(fchmod(fd, 0600), 0);
        if (fchown(fd, 65534, 65534) == 0)
                assert_int_equal(lookup(epoch), -EACCES);
        close(fd);
        unlink(path);
}

static int leave_network_namespace(int talk)
{
        return unshare(CLONE_NEWNET);
}

static void worker_in_another_network_namespace_is_not_on_this_host(void **state)
{
        struct worker worker = worker_start(leave_network_namespace);
        if (worker.pid == 0)
                skip();
        assert_int_equal(lookup(worker.epoch), -EXDEV);
        worker_end(&worker);
}

static void *look_often(void *argument)
{
        const struct worker *worker = argument;
        bool dead = worker->talk < 0;
        intptr_t wrong = 0;
        for (int i = 0; i < 300; i++) {
                wrong += dead ? !is_dead(worker->epoch) : lookup(worker->epoch) != 0;
                if (!dead && i % 10 == 0)
                        presence_reap();
        }
        return (void *)wrong;
}

static void look_from_threads(struct worker *worker)
{
        pthread_t threads[4];
        for (size_t i = 0; i < 4; i++)
                pthread_create(&threads[i], NULL, look_often, worker);
        for (size_t i = 0; i < 4; i++) {
                void *wrong;
                pthread_join(threads[i], &wrong);
                assert_int_equal((intptr_t)wrong, 0);
        }
}

static void lookups_and_reapers_at_once_do_not_mislead_each_other(void **state)
{
        struct worker worker = worker_start(NULL);
        look_from_threads(&worker);
        worker_kill(&worker);
        worker.talk = -1;
        look_from_threads(&worker);
        discard(worker.epoch, NULL);
}

static void reap_takes_the_files_of_the_dead_and_spares_the_living(void **state)
{
        struct worker dead = worker_start(NULL), alive = worker_start(NULL);
        uint64_t orphan = random_id();
        touch(dead.epoch, "rgn_1");
        touch(dead.epoch, "rgn_2");
        touch(alive.epoch, "rgn_1");
        touch(orphan, "rgn_1");
        worker_kill(&dead);
        presence_reap();
        assert_false(exists(dead.epoch, NULL) || exists(dead.epoch, "rgn_1") || exists(dead.epoch, "rgn_2"));
        assert_false(exists(orphan, "rgn_1"));
        assert_true(exists(alive.epoch, NULL) && exists(alive.epoch, "rgn_1"));
        discard(alive.epoch, "rgn_1");
        worker_end(&alive);
}

static void reap_spares_what_is_not_named_or_owned_as_ours(void **state)
{
        char names[4][PRESENCE_PATH_SIZE + 8];
        char path[PRESENCE_PATH_SIZE];
        presence_path(random_id() | UINT64_C(0xf) << 60, NULL, path);
        snprintf(names[0], sizeof(names[0]), "%s.x", path);
        snprintf(names[1], sizeof(names[1]), "%s0", path);
        snprintf(names[2], sizeof(names[2]), "%.*s", (int)strlen(path) - 1, path);
        snprintf(names[3], sizeof(names[3]), "%.*sG", (int)strlen(path) - 1, path);
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(names); i++)
                close(open(names[i], O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
        uint64_t epoch = random_id();
        char link[PRESENCE_PATH_SIZE], foreign[PRESENCE_PATH_SIZE];
        presence_path(epoch, "link", link);
        presence_path(epoch, "foreign", foreign);
        assert_int_equal(symlink(names[0], link), 0);
        /* It gets its name when it is another's already: who reaps elsewhere must not see it as ours first. */
        char elsewhere[PRESENCE_PATH_SIZE + 8];
        snprintf(elsewhere, sizeof(elsewhere), "%s.y", path);
        close(open(elsewhere, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
        bool is_foreign = chown(elsewhere, 65534, 65534) == 0;
        assert_int_equal(rename(elsewhere, foreign), 0);

        presence_reap();
        struct stat st;
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(names); i++) {
                assert_int_equal(lstat(names[i], &st), 0);
                unlink(names[i]);
        }
        assert_int_equal(lstat(link, &st), 0);
        assert_int_equal(lstat(foreign, &st) == 0, is_foreign);
        unlink(link);
        unlink(foreign);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(paths_are_named_by_epoch_and_suffix),
                cmocka_unit_test(live_worker_is_found_with_its_address_and_a_pidfd),
                cmocka_unit_test(file_is_private_whatever_the_umask),
                cmocka_unit_test(free_removes_the_file),
                cmocka_unit_test(killed_worker_is_dead_though_its_file_is_there),
                cmocka_unit_test(program_started_by_a_worker_does_not_keep_it_alive),
                cmocka_unit_test(epoch_in_use_is_refused),
                cmocka_unit_test(worker_without_a_local_side_is_not_found_but_not_reaped),
                cmocka_unit_test(address_beyond_the_limit_is_refused),
                cmocka_unit_test(shared_lock_of_another_who_asks_is_not_taken_for_the_owners),
                cmocka_unit_test(file_changed_in_any_byte_or_cut_is_malformed),
                cmocka_unit_test(what_is_not_a_private_regular_file_of_ours_is_refused),
                cmocka_unit_test(worker_in_another_network_namespace_is_not_on_this_host),
                cmocka_unit_test(lookups_and_reapers_at_once_do_not_mislead_each_other),
                cmocka_unit_test(reap_takes_the_files_of_the_dead_and_spares_the_living),
                cmocka_unit_test(reap_spares_what_is_not_named_or_owned_as_ours),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
