/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "steps.h"

/* --local DIR: where it can be, and what a directory that cannot be used is told. */

enum { NOBODY = 65534 };

static const char *below(const struct shared_scene *s, const char *name)
{
        return text_format("%s/%s", s->path, name);
}

/* One line of the log names the directory and what to do; another one is the daemon's last. */
static void assert_told(const char *errors, const char *directory, const char *advice)
{
        const char *named = text_format("directory=%s ", directory);
        const char *line = strstr(errors, "level=error");
        size_t lines = 0;

        for (const char *c = errors; (c = strchr(c, '\n')); c++)
                lines++;
        if (lines != 2 || !line || !strstr(line, named) || !strstr(line, advice))
                print_error("no \"%s\" of %s in:\n%s\n", advice, directory, errors);
        assert_int_equal(lines, 2);
        if (!line) /* gcc does not know that a failed assertion does not return */
                fail();
        assert_non_null(strstr(line, named));
        assert_non_null(strstr(line, advice));
        assert_null(strstr(line + 1, "level="));
        assert_non_null(strstr(line, "\nferryd: the data plane could not be started: "));
}

static void assert_refused(const char *directory, const char *advice)
{
        const char *output, *errors;

        assert_int_equal(ferryd_run(STRINGS("--listen", "127.0.0.1:0", "--local", directory), &output, &errors), 1);
        assert_string_equal(output, "");
        assert_told(errors, directory, advice);
}

WITH_SHARED(a_symbolic_link_is_refused)
{
        const char *link = below(s, "link"), *target = below(s, "own");

        assert_int_equal(mkdir(target, 0700), 0);
        assert_int_equal(symlink(target, link), 0);
        assert_refused(link, "it is a symbolic link or not a directory");
        assert_int_equal(unlink(link), 0);
        assert_int_equal(symlink("nowhere", link), 0);
        assert_refused(link, "it is a symbolic link or not a directory");
}

WITH_SHARED(what_is_no_directory_is_refused)
{
        const char *file = below(s, "file");
        FILE *f = fopen(file, "wxe");

        assert_non_null(f);
        (void)fclose(f);
        assert_refused(file, "it is a symbolic link or not a directory");
}

WITH_SHARED(another_users_is_refused)
{
        const char *others = below(s, "others");

        if (geteuid() == 0) {
                assert_int_equal(mkdir(others, 0700), 0);
                assert_int_equal(chown(others, NOBODY, NOBODY), 0);
                assert_refused(others, "another user owns it");
        } else {
                assert_refused("/usr", "another user owns it");
        }
}

WITH_SHARED(one_that_others_may_enter_is_refused)
{
        static const mode_t modes[] = { 0701, 0710, 0740, 0755, 01777 };
        const char *open = below(s, "open");

        assert_int_equal(mkdir(open, 0700), 0);
        for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
                assert_int_equal(chmod(open, modes[i]), 0);
                assert_refused(open, "other users can access it: chmod 0700");
        }
}

/* Root may write wherever the file system lets it. */
WITH_SHARED(one_that_is_not_writable_is_refused)
{
        const char *script, *output, *errors, *closed = below(s, "closed");
        int status;

        assert_int_equal(mkdir(closed, 0700), 0);
        if (geteuid() != 0) {
                assert_int_equal(chmod(closed, 0500), 0);
                assert_refused(closed, "it is not writable");
        } else {
                script = text_format("mount -t tmpfs -o ro,mode=700 none %s || exit 77\n"
                                     "exec \"$FERRYD\" --listen 127.0.0.1:0 --local %s",
                                     closed, closed);
                status = command_run(STRINGS("unshare", "--mount", "/bin/sh", "-c", script), NULL, &output, &errors);
                if (status == 1 && strstr(errors, "unshare:"))
                        status = 77;
                if (status != 77) {
                        assert_int_equal(status, 1);
                        assert_string_equal(output, "");
                        assert_told(errors, closed, "mount a writable directory there, or --local off");
                }
        }
}

WITH_SHARED(one_that_cannot_be_made_is_refused)
{
        const char *deep = below(s, "no/such");

        assert_refused(deep, "create it with mode 0700");
}

/* It is made for this user alone, whatever the umask; a long path will do as well. */
WITH_SHARED(it_is_made_where_there_is_none)
{
        char name[161] = "";
        struct stat status;

        for (int i = 0; i < 2; i++) {
                const char *directory;
                mode_t mask;

                memset(name, 'd', i == 0 ? 1 : sizeof(name) - 1);
                directory = below(s, name);
                mask = umask(0);
                pair_start_with(&s->pair, false, STRINGS("--local", directory));
                (void)umask(mask);
                assert_int_equal(lstat(directory, &status), 0);
                assert_int_equal(status.st_mode, S_IFDIR | 0700);
                assert_int_equal(worker_files(&s->pair.a), 0);
                pair_assert_serving(&s->pair);
                pair_stop(&s->pair);
                assert_int_equal(rmdir(directory), 0); /* nothing is left in it */
        }
}

/* What is in the directory; -1: it is not there. */
static int count_files(const char *directory)
{
        DIR *d = opendir(directory);
        int n = 0;

        if (!d)
                return -1;
        for (const struct dirent *entry; (entry = readdir(d));)
                n += entry->d_name[0] != '.';
        (void)closedir(d);
        return n;
}

/* A worker that is killed as soon as something happens in the directory; how many of the events have been is chance. */
static void kill_at_event(const char *directory, uint32_t event)
{
        int watch = inotify_init1(IN_CLOEXEC);
        char buffer[sizeof(struct inotify_event) + NAME_MAX + 1];
        pid_t pid;

        assert_true(watch >= 0 && inotify_add_watch(watch, directory, event) >= 0);
        pid = fork();
        if (pid == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                (void)execl(getenv("FERRYD"), "ferryd", "--listen", "127.0.0.1:0", "--log-level", "error", "--local",
                            directory, NULL);
                _exit(127);
        }
        assert_true(read(watch, buffer, sizeof(buffer)) > 0);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        (void)close(watch);
}

WITH_SHARED(one_killed_while_it_starts_leaves_a_socket_at_most_and_the_next_removes_it)
{
        static const uint32_t events[] = { IN_CREATE, IN_ATTRIB, IN_MOVED_TO };
        const char *directory = below(s, "local");
        struct worker w;

        assert_int_equal(mkdir(directory, 0700), 0);
        for (int i = 0; i < 9; i++) {
                kill_at_event(directory, events[i % 3]);
                assert_int_equal(count_files(directory), 1);
                worker_start(&w, "next", (const char *const[]){ "--local", directory, NULL });
                assert_int_equal(count_files(directory), 1);
                worker_stop(&w);
                assert_int_equal(count_files(directory), 0);
        }
}

/* What a worker leaves that dies after it has bound its socket and before it listens. */
WITH_SHARED(a_socket_that_never_listened_is_removed)
{
        const char *directory = below(s, "local");
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        struct worker w;

        assert_int_equal(mkdir(directory, 0700), 0);
        (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/0123456789abcdef.new", directory);
        assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
        (void)close(fd);
        worker_start(&w, "next", (const char *const[]){ "--local", directory, NULL });
        assert_int_equal(count_files(directory), 1);
        worker_stop(&w);
        assert_int_equal(count_files(directory), 0);
}
