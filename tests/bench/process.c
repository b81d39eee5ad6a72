/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "bench_internal.h"

enum { CHILDREN_MAX = 16, READY_S = 20 };

/* Also read by the signal handler; 0 = free. Workers unlink their sockets when they end by SIGTERM. */
static volatile pid_t children[CHILDREN_MAX];

void remember(pid_t pid)
{
        for (size_t i = 0; i < CHILDREN_MAX; i++) {
                if (children[i] == 0) {
                        children[i] = pid;
                        return;
                }
        }
        bench_fail("too many processes");
}

static void forget(pid_t pid)
{
        for (size_t i = 0; i < CHILDREN_MAX; i++)
                if (children[i] == pid)
                        children[i] = 0;
}

/* Async-signal-safe, as processes_end. */
static void tell_signal(int number)
{
        char text[] = "bench: a process was ended by signal 00\n";

        text[sizeof(text) - 4] = (char)('0' + number / 10 % 10);
        text[sizeof(text) - 3] = (char)('0' + number % 10);
        (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
}

int processes_end(void)
{
        int status, result = EXIT_FAILURE;

        for (size_t i = 0; i < CHILDREN_MAX; i++) {
                if (children[i] > 0) {
                        (void)kill(children[i], SIGCONT);
                        (void)kill(children[i], SIGTERM);
                }
        }
        for (size_t i = 0; i < CHILDREN_MAX; i++)
                if (children[i] > 0 && waitpid(children[i], &status, 0) > 0 && WIFSIGNALED(status) &&
                    WTERMSIG(status) != SIGTERM) {
                        tell_signal(WTERMSIG(status));
                        if (WTERMSIG(status) == SIGTRAP)
                                result = EXIT_TRAPPED;
                }
        return result;
}

static void on_signal(int number)
{
        (void)processes_end();
        _exit(128 + number);
}

void processes_init(void)
{
        struct sigaction action = { .sa_handler = on_signal };

        (void)sigaddset(&action.sa_mask, SIGINT);
        (void)sigaddset(&action.sa_mask, SIGTERM);
        (void)sigaction(SIGINT, &action, NULL);
        (void)sigaction(SIGTERM, &action, NULL);
        (void)sigaction(SIGHUP, &action, NULL);
        (void)signal(SIGPIPE, SIG_IGN);
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
        /* The references' standard output is ours; UCX reads this before their main runs. */
        (void)setenv("UCX_LOG_FILE", "stderr", 1);
}

void child_begin(pid_t parent)
{
        (void)setpgid(0, 0);
        (void)signal(SIGINT, SIG_DFL);
        (void)signal(SIGTERM, SIG_DFL);
        (void)signal(SIGHUP, SIG_DFL);
        (void)signal(SIGPIPE, SIG_DFL);
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent)
                _exit(127);
}

pid_t spawn(const char *const *arguments, int in, int out)
{
        pid_t parent = getpid(), pid;

        (void)fflush(stdout);
        pid = fork();
        if (pid == 0) {
                child_begin(parent);
                (void)dup2(in >= 0 ? in : open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
                (void)dup2(out, 1);
                (void)close_range(3, ~0U, 0);
                execvp(arguments[0], (char *const *)arguments);
                (void)fprintf(stderr, "%s: %s\n", arguments[0], strerror(errno));
                _exit(127);
        }
        if (pid < 0)
                bench_fail("fork: %s", strerror(errno));
        remember(pid);
        return pid;
}

int finish(pid_t pid)
{
        int status = 0;

        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        forget(pid);
        return status;
}

void make_pipe(int ends[2])
{
        if (pipe2(ends, O_CLOEXEC) < 0)
                bench_fail("pipe: %s", strerror(errno));
}

/* ---- workers ---- */

size_t copy_flags(const char **arguments, size_t n, const char *const *flags)
{
        for (; flags && *flags; flags++) {
                if (n + 1 >= ARGUMENTS_MAX)
                        bench_fail("too many flags");
                arguments[n++] = *flags;
        }
        arguments[n] = NULL;
        return n;
}

static void take_line(const struct worker *w, char *line, size_t size)
{
        size_t n = 0;
        uint64_t start = now_ns();

        while (n < size - 1 && (n == 0 || line[n - 1] != '\n')) {
                struct pollfd p = { .fd = w->out, .events = POLLIN };

                if (seconds_since(start) > READY_S || poll(&p, 1, READY_S * 1000) <= 0 ||
                    read(w->out, line + n, 1) != 1)
                        bench_fail("a worker does not start");
                n++;
        }
        line[n] = '\0';
}

static void take_ready_line(struct worker *w)
{
        static const char mark[] = "\"http\":[\"";
        char line[2048], *url;

        take_line(w, line, sizeof(line));
        url = strstr(line, mark);
        if (!url || sscanf(url + strlen(mark), "%255[^\"]", w->url) != 1)
                bench_fail("not a ready line: %s", line);
}

struct ferry *worker_connect(const struct worker *w)
{
        struct ferry *f;

        /* No retries: they would hide what they cost. */
        if (ferry_new(w->url, &(struct ferry_options){ .retries = -1, .timeout_ms = 60000 }, &f) != 0)
                bench_fail("libferry has no handle to give");
        return f;
}

static void start(struct worker *w, const char *const *arguments)
{
        int out[2];
        uint64_t start;

        *w = (struct worker){ 0 };
        make_pipe(out);
        start = now_ns();
        w->pid = spawn(arguments, -1, out[1]);
        (void)close(out[1]);
        w->out = out[0];
        take_ready_line(w);
        w->start_s = seconds_since(start);
        w->client = worker_connect(w);
}

void worker_start(struct worker *w, const char *const *flags)
{
        const char *ferryd = getenv("FERRYD");
        const char *arguments[ARGUMENTS_MAX] = {
                ferryd ? ferryd : "ferryd", "--listen", "127.0.0.1:0", "--log-level", "warn", "--drain-timeout", "1s"
        };

        (void)copy_flags(arguments, 7, flags);
        start(w, arguments);
}

void worker_start_owner(struct worker *w, uint64_t size, struct region *ret_region)
{
        char path[4096], text[32];
        const char *const arguments[] = { path, text, NULL };

        program_path("sim_owner", path, sizeof(path));
        (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)size);
        start(w, arguments);
        *ret_region = (struct region){ .info.size = size };
        take_line(w, text, sizeof(text));
        (void)snprintf(ret_region->info.id, sizeof(ret_region->info.id), "%.*s", (int)strcspn(text, "\n"), text);
}

void worker_stop(struct worker *w)
{
        int status;

        w->client = ferry_free(w->client);
        (void)kill(w->pid, SIGTERM);
        status = finish(w->pid);
        (void)close(w->out);
        w->pid = 0;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                bench_fail("a worker ended with status %#x", (unsigned)status);
}

void pair_start(struct pair *p, bool network, const char *const *flags)
{
        const char *all[ARGUMENTS_MAX] = { NULL };
        size_t n = 0;

        if (network)
                n = copy_flags(all, 0,
                               (const char *const[]){ "--data-listen", "127.0.0.1:0", "--local", "off", "--transports",
                                                      "tcp,self", NULL });
        (void)copy_flags(all, n, flags);
        worker_start(&p->a, all);
        worker_start(&p->b, all);
}

void pair_stop(struct pair *p)
{
        worker_stop(&p->b);
        worker_stop(&p->a);
}

/* ---- what processes cost ---- */

static uint64_t kib_of(const char *path, const char *field)
{
        FILE *f = fopen(path, "re");
        char line[256];
        uint64_t kib = 0;

        while (f && fgets(line, sizeof(line), f))
                if (strncmp(line, field, strlen(field)) == 0)
                        kib = strtoull(line + strlen(field), NULL, 10);
        if (f)
                (void)fclose(f);
        return kib * KIB;
}

void share_one_processor(void)
{
        cpu_set_t one;

        CPU_ZERO(&one);
        CPU_SET((size_t)sched_getcpu(), &one);
        if (sched_setaffinity(0, sizeof(one), &one) < 0)
                note("could not be kept on one processor");
}

uint64_t process_anonymous_bytes(pid_t pid)
{
        char path[64];

        (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
        return kib_of(path, "RssAnon:");
}

uint64_t process_resident_bytes(pid_t pid)
{
        char path[64];

        (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
        return kib_of(path, "VmRSS:");
}

uint64_t memory_available(void)
{
        return kib_of("/proc/meminfo", "MemAvailable:");
}

uint64_t process_cpu_ns(pid_t pid)
{
        clockid_t clock;
        struct timespec t;

        if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) != 0)
                bench_fail("no CPU clock for process %d", (int)pid);
        return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}
