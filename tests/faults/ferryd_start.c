/* SPDX-License-Identifier: Apache-2.0 */
#include "ferryd_start.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "steps.h"

enum { END_MS = 20000 };

struct failing *failing_share(bool on)
{
        static struct failing *shared;

        if (!on) {
                (void)unsetenv("LD_PRELOAD");
                return NULL;
        }
        if (!shared) {
                char path[] = "/tmp/ferry-failing-XXXXXX", name[64];
                int fd = mkstemp(path);

                assert_true(fd >= 0);
                assert_int_equal(ftruncate(fd, sizeof(*shared)), 0);
                shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
                assert_ptr_not_equal(shared, MAP_FAILED);
                (void)unlink(path);
                (void)snprintf(name, sizeof(name), "/proc/%ld/fd/%d", (long)getpid(), fd);
                assert_int_equal(setenv("FERRY_FAILING", name, 1), 0);
        }
        *shared = (struct failing){ .memory_fails = 1 };
        assert_non_null(getenv("FERRY_FAILING_LIBRARY"));
        assert_int_equal(setenv("LD_PRELOAD", getenv("FERRY_FAILING_LIBRARY"), 1), 0);
        return shared;
}

size_t sweep_step(size_t usual)
{
        return getenv("FERRY_SWEEP") ? 1 : usual;
}

/* All that can be read by then, or until its other end is closed. */
static void read_on(int fd, char **text, size_t *n)
{
        char piece[4096];
        ssize_t r = read(fd, piece, sizeof(piece) - 1);

        if (r <= 0)
                return;
        *text = realloc(*text, *n + (size_t)r + 1);
        memcpy(*text + *n, piece, (size_t)r);
        (*text)[ *n += (size_t)r] = '\0';
}

static bool is_open(int fd)
{
        struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

        return poll(&poll_fd, 1, 0) == 0 || !(poll_fd.revents & POLLHUP) || (poll_fd.revents & POLLIN);
}

static pid_t start(const char *const *flags, void (*prepare)(const void *context), const void *context, int out,
                   int errors)
{
        const char *arguments[64] = { getenv("FERRYD") };
        int program = open(arguments[0], O_RDONLY | O_CLOEXEC); /* another user may not reach it by its path */
        pid_t parent = getpid(), pid;
        size_t n = 1;

        for (; flags && *flags; flags++)
                arguments[n++] = *flags;
        pid = fork();
        if (pid) {
                (void)close(program);
                return pid;
        }
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(127);
        (void)dup2(out, 1);
        (void)dup2(errors, 2);
        (void)close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
        if (prepare)
                prepare(context);
        (void)fexecve(program, (char *const *)(uintptr_t)arguments, environ);
        _exit(126);
}

/* A GET of /livez of the worker whose ready line this is: whether it is answered. */
static void assert_lives(const char *ready)
{
        struct worker w = { 0 };
        const char *url = strstr(ready, "http://");

        assert_non_null(url);
        (void)snprintf(w.url, sizeof(w.url), "%.*s", (int)strcspn(url, "\""), url);
        struct raw_answer answer =
                raw_exchange(&w, "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        assert_int_equal(answer.status, 200);
}

static const char *last_line(const char *text)
{
        size_t length = strlen(text);

        while (length > 0 && text[length - 1] == '\n')
                length--;
        while (length > 0 && text[length - 1] != '\n')
                length--;
        return text + length;
}

void ferryd_start(const char *const *flags, void (*prepare)(const void *context), const void *context, bool served,
                  struct ferryd_start *ret_start)
{
        char *output = calloc(1, 1), *said = calloc(1, 1);
        size_t n_output = 0, n_said = 0;
        uint64_t until = now_ms() + END_MS;
        int out[2], errors[2], status;
        bool told = false;
        pid_t pid;

        assert_int_equal(pipe2(out, O_CLOEXEC), 0);
        assert_int_equal(pipe2(errors, O_CLOEXEC), 0);
        pid = start(flags, prepare, context, out[1], errors[1]);
        assert_true(pid > 0);
        (void)close(out[1]);
        (void)close(errors[1]);
        while (is_open(out[0]) || is_open(errors[0])) {
                struct pollfd fds[] = { { .fd = out[0], .events = POLLIN }, { .fd = errors[0], .events = POLLIN } };
                uint64_t now = now_ms();

                if (now >= until) {
                        (void)kill(pid, SIGABRT);
                        fail_msg("it hangs, ready: %s, errors: %s", output, said);
                }
                (void)poll(fds, 2, (int)(until - now));
                if (fds[0].revents & POLLIN)
                        read_on(out[0], &output, &n_output);
                if (fds[1].revents & POLLIN)
                        read_on(errors[0], &said, &n_said);
                if (told || !strchr(output, '\n'))
                        continue;
                if (served)
                        assert_lives(output);
                told = true;
                (void)kill(pid, SIGTERM);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (n_output && strncmp(output, "{\"event\":\"ready\",", 17) != 0)
                fail_msg("on standard output: %s", output);
        (void)close(out[0]);
        (void)close(errors[0]);
        if (!WIFEXITED(status) || (told && WEXITSTATUS(status)) || (!told && !strstr(last_line(said), ": ")))
                fail_msg("%s, wait status %x: %s", told ? "ready" : "not ready", (unsigned)status, said);
        if (!told)
                assert_in_range(WEXITSTATUS(status), 1, 127);
        *ret_start = (struct ferryd_start){ .ready = told, .errors = said };
        free(output);
}

void ferryd_start_clear(struct ferryd_start *start)
{
        free(start->errors);
        *start = (struct ferryd_start){ 0 };
}
