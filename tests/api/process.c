/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "scene.h"

/* What the system says of a worker's process, and processes that are no workers: harness.h. */

uint64_t worker_status_kb(const struct worker *w, const char *field)
{
        char path[64], line[256];
        uint64_t value = 0;
        FILE *f;

        (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)w->pid);
        f = fopen(path, "re");
        assert_non_null(f);
        while (fgets(line, sizeof(line), f))
                if (strncmp(line, field, strlen(field)) == 0 && line[strlen(field)] == ':')
                        value = strtoull(line + strlen(field) + 1, NULL, 10);
        (void)fclose(f);
        return value;
}

/* Its open files whose target begins with a text. */
static size_t count_files(const struct worker *w, const char *target)
{
        char path[64], text[PATH_MAX];
        size_t n = 0;
        DIR *d;

        (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)w->pid);
        d = opendir(path);
        assert_non_null(d);
        for (struct dirent *e; (e = readdir(d));) {
                ssize_t size = readlinkat(dirfd(d), e->d_name, text, sizeof(text)); /* of . and .., an error */

                n += size >= (ssize_t)strlen(target) && memcmp(text, target, strlen(target)) == 0;
        }
        (void)closedir(d);
        return n;
}

size_t worker_descriptors(const struct worker *w)
{
        return count_files(w, "");
}

size_t worker_sockets(const struct worker *w)
{
        return count_files(w, "socket:");
}

/* How often a thread of it went to sleep so far; 0 if it has ended. */
static uint64_t thread_wakeups(const struct worker *w, const char *thread)
{
        char path[PATH_MAX], line[256];
        uint64_t n = 0;
        FILE *f;

        (void)snprintf(path, sizeof(path), "/proc/%d/task/%s/status", (int)w->pid, thread);
        f = fopen(path, "re");
        while (f && fgets(line, sizeof(line), f))
                if (strncmp(line, "voluntary_ctxt_switches:", 24) == 0)
                        n = strtoull(line + 24, NULL, 10);
        if (f)
                (void)fclose(f);
        return n;
}

void worker_wakeups(const struct worker *w, struct wakeups *ret)
{
        char path[64];
        DIR *d;

        (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)w->pid);
        d = opendir(path);
        assert_non_null(d);
        ret->n_threads = 0;
        for (struct dirent *e; (e = readdir(d));) {
                if (e->d_name[0] == '.')
                        continue;
                assert_true(ret->n_threads < sizeof(ret->threads) / sizeof(ret->threads[0]));
                ret->threads[ret->n_threads].id = strtol(e->d_name, NULL, 10);
                ret->threads[ret->n_threads++].wakeups = thread_wakeups(w, e->d_name);
        }
        (void)closedir(d);
}

uint64_t worker_wakeups_since(const struct worker *w, const struct wakeups *before)
{
        struct wakeups now;
        uint64_t sum = before->n_threads;

        worker_wakeups(w, &now);
        for (size_t i = 0; i < now.n_threads; i++) {
                sum += now.threads[i].wakeups;
                for (size_t j = 0; j < before->n_threads; j++)
                        if (before->threads[j].id == now.threads[i].id)
                                sum -= before->threads[j].wakeups + 1;
        }
        return sum;
}

uint64_t worker_processor_ms(const struct worker *w)
{
        struct timespec time;
        clockid_t clock;

        assert_int_equal(clock_getcpuclockid(w->pid, &clock), 0);
        assert_int_equal(clock_gettime(clock, &time), 0);
        return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

static int unlinked_file(const char *content)
{
        char path[] = "/tmp/ferry-test-XXXXXX";
        int fd = mkostemp(path, O_CLOEXEC);

        assert_true(fd >= 0);
        (void)unlink(path);
        if (content) {
                assert_int_equal(write(fd, content, strlen(content)), (ssize_t)strlen(content));
                (void)lseek(fd, 0, SEEK_SET);
        }
        return fd;
}

static void hand_over(int fd, const char **ret_text)
{
        (void)lseek(fd, 0, SEEK_SET);
        if (ret_text)
                *ret_text = text_keep(read_all(fd));
        (void)close(fd);
}

int command_run(const char *const *argv, const char *input, const char **ret_output, const char **ret_errors)
{
        int in = unlinked_file(input), out = unlinked_file(NULL), errors = unlinked_file(NULL), status;
        pid_t parent = getpid(), pid = fork();

        if (pid == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (getppid() != parent)
                        _exit(127);
                (void)dup2(in, 0);
                (void)dup2(out, 1);
                (void)dup2(errors, 2);
                (void)close_range(3, ~0U, 0);
                execvp(argv[0], (char *const *)argv);
                _exit(127);
        }
        assert_true(pid > 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        (void)close(in);
        hand_over(out, ret_output);
        hand_over(errors, ret_errors);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void address_release(void *fd)
{
        (void)close((int)(intptr_t)fd);
}

const char *address_hold(void)
{
        uint16_t port;

        (void)test_keep((void *)(intptr_t)raw_hold(&port), address_release);
        return text_format("127.0.0.1:%d", port);
}

void pass_time(unsigned ms)
{
        int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
        const struct itimerspec time = { .it_value = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L } };
        uint64_t expired;

        assert_true(timer >= 0);
        assert_int_equal(timerfd_settime(timer, 0, &time, NULL), 0);
        assert_int_equal(read(timer, &expired, sizeof(expired)), sizeof(expired));
        (void)close(timer);
}

/* ---- files ---- */

void file_write(const char *path, const char *text)
{
        int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
        (void)close(fd);
}

static void file_remove(void *path)
{
        (void)unlink(path);
        free(path);
}

const char *file_make(const char *text)
{
        char *path = strdup("/tmp/ferry-test-XXXXXX");

        (void)close(mkstemp(path));
        file_write(path, text);
        return test_keep(path, file_remove);
}

const char *tls_path(const char *name)
{
        assert_non_null(getenv("FERRY_TEST_TLS"));
        return text_format("%s/%s", getenv("FERRY_TEST_TLS"), name);
}

const char *file_read(const char *path)
{
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        char *text;

        assert_true(fd >= 0);
        text = read_all(fd);
        (void)close(fd);
        return text_keep(text);
}
