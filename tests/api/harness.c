/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scene.h"

/* ---- the directory of the local sockets ---- */

static char runtime_directory[] = "/tmp/ferry-run-XXXXXX";
static pid_t runtime_owner; /* a child that ends must not remove it */

/* Removes what a worker that was killed has left. */
static void remove_sockets(const char *directory)
{
        DIR *d = opendir(directory);

        for (struct dirent *e; d && (e = readdir(d));)
                if (e->d_name[0] != '.' && unlinkat(dirfd(d), e->d_name, 0) < 0)
                        (void)unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
        if (d)
                (void)closedir(d);
        (void)rmdir(directory);
}

static void remove_runtime_directory(void)
{
        if (getpid() != runtime_owner)
                return;
        remove_sockets(worker_directory());
        (void)rmdir(runtime_directory);
}

/* The workers of each test process find each other, and nobody else's. */
__attribute__((constructor)) static void make_runtime_directory(void)
{
        if (!mkdtemp(runtime_directory) || setenv("XDG_RUNTIME_DIR", runtime_directory, 1) != 0) {
                perror("no directory for the workers' sockets");
                _exit(1);
        }
        runtime_owner = getpid();
        (void)atexit(remove_runtime_directory);
}

const char *worker_directory(void)
{
        static char path[sizeof(runtime_directory) + sizeof("/ferry")];

        (void)snprintf(path, sizeof(path), "%s/ferry", runtime_directory);
        return path;
}

/* ---- processes ---- */

static const char *ferryd_path(void)
{
        const char *path = getenv("FERRYD");

        assert_non_null(path);
        return path;
}

static struct {
        const int *fds;
        size_t n;
} passed;

void worker_pass(const int *fds, size_t n)
{
        passed.fds = fds;
        passed.n = n;
}

/* In the child: the descriptors from 3 on, and what sd_listen_fds(3) looks for. */
static void pass_sockets(void)
{
        enum { ABOVE = 500 };
        char text[24];

        for (size_t i = 0; i < passed.n; i++)
                (void)dup2(passed.fds[i], ABOVE + (int)i);
        for (size_t i = 0; i < passed.n; i++)
                (void)dup2(ABOVE + (int)i, 3 + (int)i);
        (void)snprintf(text, sizeof(text), "%zu", passed.n);
        (void)setenv("LISTEN_FDS", text, 1);
        (void)snprintf(text, sizeof(text), "%ld", (long)getpid());
        (void)setenv("LISTEN_PID", text, 1);
}

/* In the child: dies with its parent, and runs ferryd with the given descriptors. */
static void exec_ferryd(pid_t parent, const char *const *arguments, int out, int errors)
{
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(127);
        (void)dup2(open("/dev/null", O_RDONLY), 0);
        (void)dup2(out, 1);
        (void)dup2(errors, 2);
        if (passed.n)
                pass_sockets();
        (void)close_range(3 + (unsigned)passed.n, ~0U, 0);
        execv(ferryd_path(), (char *const *)arguments);
        _exit(127);
}

static size_t copy_flags(const char **arguments, size_t n, size_t max, const char *const *flags)
{
        for (; flags && *flags; flags++) {
                assert_true(n + 1 < max);
                arguments[n++] = *flags;
        }
        arguments[n] = NULL;
        return n;
}

static const char *read_line(int fd)
{
        char *line = calloc(1, 4096);
        size_t n = 0;
        uint64_t deadline = now_ms() + WAIT_MS;

        while (n < 4095 && (n == 0 || line[n - 1] != '\n')) {
                struct pollfd p = { .fd = fd, .events = POLLIN };

                if (poll(&p, 1, (int)(deadline > now_ms() ? deadline - now_ms() : 0)) <= 0 ||
                    read(fd, line + n, 1) != 1)
                        break;
                n++;
        }
        return text_keep(line);
}

static void take_ready_line(struct worker *w)
{
        const char *line = read_line(w->out);
        struct json_object *ready = json_tokener_parse(line), *value;

        if (!ready) {
                const char *log = worker_log(w);

                print_error("no ready line but \"%s\"; log:\n%s\n", line, log);
        }
        assert_non_null(ready);
        (void)snprintf(w->ready, sizeof(w->ready), "%s", line);
        assert_true(json_object_object_get_ex(ready, "event", &value));
        assert_string_equal(json_object_get_string(value), "ready");
        assert_true(json_object_object_get_ex(ready, "pid", &value));
        assert_int_equal(json_object_get_int(value), w->pid);
        assert_true(json_object_object_get_ex(ready, "http", &value));
        (void)snprintf(w->url, sizeof(w->url), "%s", json_object_get_string(json_object_array_get_idx(value, 0)));
        if (json_object_object_get_ex(ready, "data", &value))
                (void)snprintf(w->data, sizeof(w->data), "%s", json_object_get_string(value));
        json_object_put(ready);
}

static void spawn(struct worker *w, const char *name, const char *const *arguments)
{
        int out[2], errors;
        pid_t parent = getpid();

        *w = (struct worker){ .out = -1 };
        (void)snprintf(w->name, sizeof(w->name), "%s", name);
        (void)snprintf(w->log, sizeof(w->log), "/tmp/ferry-test-XXXXXX");
        errors = mkstemp(w->log);
        assert_true(errors >= 0);
        assert_int_equal(pipe2(out, O_CLOEXEC), 0);
        w->pid = fork();
        if (w->pid == 0)
                exec_ferryd(parent, arguments, out[1], errors);
        assert_true(w->pid > 0);
        (void)close(out[1]);
        (void)close(errors);
        w->out = out[0];
        worker_adopt(w);
        take_ready_line(w);
}

void worker_start(struct worker *w, const char *name, const char *const *flags)
{
        const char *arguments[64] = { ferryd_path(), "--listen", "127.0.0.1:0", "--name", name };
        struct ferry_worker_info info;

        (void)copy_flags(arguments, 5, 64, flags);
        spawn(w, name, arguments);
        assert_int_equal(ferry_new(w->url, NULL, &w->client), 0);
        assert_int_equal(ferry_get_worker(w->client, &info), 0);
        (void)snprintf(w->epoch, sizeof(w->epoch), "%.16s", info.epoch);
        ferry_worker_info_clear(&info);
}

void worker_start_plain(struct worker *w, const char *name, const char *const *flags)
{
        const char *arguments[64] = { ferryd_path(), "--name", name };

        (void)copy_flags(arguments, 3, 64, flags);
        spawn(w, name, arguments);
}

char *read_all(int fd)
{
        size_t n = 0, room = 4096;
        char *text = malloc(room);
        ssize_t r;

        while ((r = read(fd, text + n, room - n - 1)) > 0) {
                n += (size_t)r;
                if (room - n < 2048)
                        text = realloc(text, room *= 2);
        }
        text[n] = '\0';
        return text;
}

int ferryd_run(const char *const *flags, const char **ret_output, const char **ret_errors)
{
        const char *arguments[64] = { ferryd_path() };
        char path[] = "/tmp/ferry-test-XXXXXX";
        int out[2], errors = mkstemp(path), status;
        pid_t parent = getpid(), pid;
        const char *output;

        assert_true(errors >= 0);
        (void)unlink(path);
        (void)copy_flags(arguments, 1, 64, flags);
        assert_int_equal(pipe2(out, O_CLOEXEC), 0);
        pid = fork();
        if (pid == 0)
                exec_ferryd(parent, arguments, out[1], errors);
        assert_true(pid > 0);
        (void)close(out[1]);
        output = text_keep(read_all(out[0]));
        (void)close(out[0]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (ret_errors) {
                (void)lseek(errors, 0, SEEK_SET);
                *ret_errors = text_keep(read_all(errors));
        }
        (void)close(errors);
        if (ret_output)
                *ret_output = output;
        assert_true(WIFEXITED(status));
        return WEXITSTATUS(status);
}

void worker_expect(struct worker *w, const char *text)
{
        assert_true(w->n_expected < WORKER_EXPECTED_MAX);
        w->expected[w->n_expected++] = text;
}

const char *worker_log(const struct worker *w)
{
        int fd = open(w->log, O_RDONLY | O_CLOEXEC);
        char *text = fd < 0 ? strdup("") : read_all(fd);

        if (fd >= 0)
                (void)close(fd);
        return text_keep(text);
}

static bool is_expected(const struct worker *w, const char *line)
{
        for (size_t i = 0; i < w->n_expected; i++)
                if (strstr(line, w->expected[i]))
                        return true;
        return false;
}

void worker_assert_quiet(const struct worker *w)
{
        static const char *const alarms[] = { "level=warn", "level=error", "Sanitizer", "runtime error:" };
        char *log = strdup(worker_log(w)), *save = NULL;

        for (char *line = strtok_r(log, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
                for (size_t i = 0; i < sizeof(alarms) / sizeof(alarms[0]); i++) {
                        if (!strstr(line, alarms[i]) || is_expected(w, line))
                                continue;
                        print_error("worker %s: %s\n%s\n", w->name, line, save ? save : "");
                        fail_msg("an unexpected warning in the log of worker %s", w->name);
                }
        }
        free(log);
}

/* Names in a directory that begin with prefix and the worker's epoch. */
static size_t count_files(const struct worker *w, const char *directory, const char *prefix)
{
        size_t length = strlen(prefix), epoch = strlen(w->epoch), n = 0;
        DIR *d = opendir(directory);

        for (struct dirent *e; epoch > 0 && d && (e = readdir(d));)
                n += strncmp(e->d_name, prefix, length) == 0 && strncmp(e->d_name + length, w->epoch, epoch) == 0;
        if (d)
                (void)closedir(d);
        return n;
}

size_t worker_files(const struct worker *w)
{
        assert_int_equal(count_files(w, "/dev/shm", "ferry-"), 0);
        return count_files(w, worker_directory(), "");
}

static void forget_process(struct worker *w)
{
        worker_forget(w->pid);
        w->pid = 0;
        w->client = ferry_free(w->client);
        if (w->out >= 0)
                (void)close(w->out);
        w->out = -1;
}

int worker_reap(struct worker *w)
{
        int status;

        w->client = ferry_free(w->client);
        assert_int_equal(waitpid(w->pid, &status, 0), w->pid);
        forget_process(w);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void worker_stop(struct worker *w)
{
        int status;
        char *rest;

        w->client = ferry_free(w->client);
        assert_int_equal(kill(w->pid, SIGTERM), 0);
        rest = read_all(w->out);
        status = worker_reap(w);
        assert_string_equal(rest, "");
        free(rest);
        if (status != 0) {
                print_error("worker %s ended with status %d; log:\n", w->name, status);
                (void)fputs(worker_log(w), stderr); /* cmocka would cut it */
        }
        assert_int_equal(status, 0);
        worker_assert_quiet(w);
        assert_int_equal(worker_files(w), 0);
        (void)unlink(w->log);
        w->log[0] = '\0';
}

void worker_kill(struct worker *w)
{
        assert_int_equal(kill(w->pid, SIGKILL), 0);
        (void)worker_reap(w);
        (void)unlink(w->log);
        w->log[0] = '\0';
}

void worker_clean(struct worker *w)
{
        if (w->pid > 0) {
                (void)kill(w->pid, SIGKILL);
                (void)waitpid(w->pid, NULL, 0);
                forget_process(w);
        }
        if (w->log[0])
                (void)unlink(w->log);
        *w = (struct worker){ .out = -1 };
}

/* ---- pairs ---- */

const char *const side_names[2] = { "local", "network" };
const char *const tcp_flags[] = { "--data-listen", "127.0.0.1:0", "--local", "off", "--transports", "tcp,self", NULL };

void pair_start_with(struct pair *p, bool network, const char *const *flags)
{
        const char *all[64] = { NULL };
        size_t n = 0;

        if (network)
                n = copy_flags(all, 0, 64, tcp_flags);
        (void)copy_flags(all, n, 64, flags);
        p->network = network;
        worker_start(&p->a, "a", all);
        worker_start(&p->b, "b", all);
}

void pair_start(struct pair *p, bool network)
{
        pair_start_with(p, network, NULL);
}

void pair_start_apart(struct pair *p)
{
        pair_start_with(p, false, STRINGS("--local", "off"));
        worker_expect(&p->a, "no transport but HTTP");
        worker_expect(&p->b, "no transport but HTTP");
}

void pair_stop(struct pair *p)
{
        worker_stop(&p->b);
        worker_stop(&p->a);
}

void pair_clean(struct pair *p)
{
        worker_clean(&p->a);
        worker_clean(&p->b);
}

/* ---- raw HTTP ---- */

int raw_connect(const struct worker *w)
{
        const char *colon = strrchr(w->url, ':');

        assert_non_null(colon);
        return raw_dial((uint16_t)atoi(colon + 1));
}

int raw_begin(const struct worker *w, const char *bytes)
{
        int fd = raw_connect(w);

        raw_send(fd, bytes, strlen(bytes));
        return fd;
}

struct raw_answer raw_end(int fd)
{
        struct raw_answer answer;

        raw_receive(fd, false, &answer);
        (void)close(fd);
        return answer;
}

struct raw_answer raw_exchange(const struct worker *w, const char *request)
{
        struct raw_answer answer;
        int fd = raw_begin(w, request);

        raw_receive(fd, strncmp(request, "HEAD ", 5) == 0, &answer);
        (void)close(fd);
        return answer;
}

/* ---- problems ---- */

void assert_problem(struct worker *w, const char *method, const char *path, const char *body, int status,
                    const char *code, const char *pointer)
{
        struct ferry_exchange exchange = {
                .method = method,
                .path = path,
                .content_type = body ? "application/json" : NULL,
                .body = body,
                .size = body ? strlen(body) : 0,
                .no_status_retry = true,
        };
        struct ferry_answer answer;
        int r = ferry_exchange_perform(w->client, &exchange, &answer);
        const struct ferry_problem *problem = ferry_last_problem(w->client);

        if (answer.http_status != status || strcmp(problem->code, code) != 0)
                print_error("%s %s %.200s\n→ %d (%d) %s\n", method, path, body ? body : "", answer.http_status, r,
                            answer.body ? answer.body : ferry_last_message(w->client));
        assert_int_equal(answer.http_status, status);
        assert_string_equal(problem->code, code);
        assert_string_equal(answer.content_type, "application/problem+json");
        if (pointer)
                assert_string_equal(problem->pointer, pointer);
        ferry_answer_clear(&answer);
}
