/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

/* Nowhere to write to: the ready line must arrive, logs need not. */

static const char *run_shell(const char *script, int *ret_status)
{
        static char errors[16384];
        const char *text;

        *ret_status = command_run(STRINGS("/bin/sh", "-c", script), NULL, NULL, &text);
        (void)snprintf(errors, sizeof(errors), "%s", text);
        return errors;
}

TEST(a_ready_line_that_cannot_be_written_ends_the_worker)
{
        const char *errors;
        int status;

        errors = run_shell("exec \"$FERRYD\" --listen 127.0.0.1:0 >/dev/full", &status);
        assert_int_equal(status, 1);
        assert_non_null(strstr(errors, "ferryd: the ready line could not be written: No space left on device"));
        errors = run_shell("exec \"$FERRYD\" --listen 127.0.0.1:0 >&-", &status);
        assert_int_equal(status, 1);
        assert_non_null(strstr(errors, "standard output is closed"));
        errors = run_shell("exec \"$FERRYD\" --help >/dev/full", &status);
        assert_int_equal(status, 1);
        assert_non_null(strstr(errors, "standard output cannot be written"));
}

/* Runs a script that ends as ferryd, which the harness cannot start by itself; moves bytes to and from it. */
static void serve_by(const char *script)
{
        char line[1024] = "";
        struct worker w = { .out = -1, .name = "w" }, other;
        int pipe_fds[2], status;
        pid_t parent = getpid();
        FILE *f;

        assert_int_equal(pipe(pipe_fds), 0);
        w.pid = fork();
        if (w.pid == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (getppid() != parent)
                        _exit(127);
                (void)dup2(pipe_fds[1], 1);
                (void)close(pipe_fds[0]);
                (void)close(pipe_fds[1]);
                execl("/bin/sh", "sh", "-c", script, (char *)NULL);
                _exit(127);
        }
        (void)close(pipe_fds[1]);
        f = fdopen(pipe_fds[0], "re");
        assert_non_null(f);
        assert_non_null(fgets(line, sizeof(line), f));
        assert_int_equal(sscanf(line, "{\"event\":\"ready\",\"http\":[\"%159[^\"]", w.url), 1);
        worker_connect(&w, NULL, NULL);
        for (int i = 0; i < 100; i++)
                assert_problem(&w, "GET", "/v1/regions/rgn_0000000000000001", NULL, 404, "not-found", NULL);
        worker_start(&other, "other", NULL);
        pair_assert_serving(&(struct pair){ .a = w, .b = other });
        pair_assert_serving(&(struct pair){ .a = other, .b = w });
        worker_stop(&other);
        assert_int_equal(kill(w.pid, SIGTERM), 0);
        assert_int_equal(waitpid(w.pid, &status, 0), w.pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
        assert_null(fgets(line, sizeof(line), f));
        (void)fclose(f);
        assert_int_equal(worker_files(&w), 0);
        w.client = ferry_free(w.client);
}

TEST(logs_that_cannot_be_written_do_not_end_the_worker)
{
        serve_by("exec \"$FERRYD\" --listen 127.0.0.1:0 --log-level debug 2>/dev/full");
        serve_by("exec \"$FERRYD\" --listen 127.0.0.1:0 --log-level debug 2>&-");
}

/* In a container, 64 MiB of it are usual. None is needed. */
TEST(a_worker_needs_no_shared_memory_file_system)
{
        int status;

        (void)run_shell("exec unshare -rm mount -t tmpfs none /dev/shm", &status);
        if (status != 0)
                skip();
        serve_by("exec unshare -rm sh -c 'mount -t tmpfs -o size=64k none /dev/shm && "
                 "exec \"$FERRYD\" --listen 127.0.0.1:0'");
        serve_by("exec unshare -rm sh -c 'mount -t tmpfs -o ro none /dev/shm && "
                 "exec \"$FERRYD\" --listen 127.0.0.1:0'");
}
