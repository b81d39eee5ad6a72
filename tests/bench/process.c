/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

/* Workers, references and other programs: started, asked, looked at, and ended with us. */

enum { CHILDREN_MAX = 16, ARGUMENTS_MAX = 32, READY_S = 20 };

const char *const transport_names[2] = { "local", "network" };

/* Also read by the signal handler; 0 = free. Workers unlink their sockets when they end by SIGTERM. */
static volatile pid_t children[CHILDREN_MAX];

static void replace_child(pid_t old, pid_t new)
{
        for (size_t i = 0; i < CHILDREN_MAX; i++) {
                if (children[i] == old) {
                        children[i] = new;
                        return;
                }
        }
        bench_fail("too many processes");
}

void processes_end(void)
{
        for (size_t i = 0; i < CHILDREN_MAX; i++)
                if (children[i] > 0)
                        (void)kill(children[i], SIGTERM);
        for (size_t i = 0; i < CHILDREN_MAX; i++)
                if (children[i] > 0)
                        (void)waitpid(children[i], NULL, 0);
}

static void on_signal(int number)
{
        processes_end();
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

/* In its own process group, so that Ctrl-C comes to us alone and we end it once. in: -1 = nothing. */
static pid_t spawn(const char *const *arguments, int in, int out)
{
        pid_t parent = getpid(), pid;

        (void)fflush(stdout);
        pid = fork();
        if (pid == 0) {
                (void)setpgid(0, 0);
                (void)signal(SIGINT, SIG_DFL);
                (void)signal(SIGTERM, SIG_DFL);
                (void)signal(SIGHUP, SIG_DFL);
                (void)signal(SIGPIPE, SIG_DFL);
                (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
                if (getppid() != parent)
                        _exit(127);
                (void)dup2(in >= 0 ? in : open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
                (void)dup2(out, 1);
                (void)close_range(3, ~0U, 0);
                execvp(arguments[0], (char *const *)arguments);
                (void)fprintf(stderr, "%s: %s\n", arguments[0], strerror(errno));
                _exit(127);
        }
        if (pid < 0)
                bench_fail("fork: %s", strerror(errno));
        replace_child(0, pid);
        return pid;
}

/* Waits for the end of a process, which must be a good one. */
static void finish(pid_t pid, const char *what)
{
        int status = 0;

        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        replace_child(pid, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                bench_fail("%s ended with status %#x", what, (unsigned)status);
}

static void make_pipe(int ends[2])
{
        if (pipe2(ends, O_CLOEXEC) < 0)
                bench_fail("pipe: %s", strerror(errno));
}

/* Adds flags (ended by NULL; NULL = none) behind the n arguments that are already there. Returns their number then. */
static size_t copy_flags(const char **arguments, size_t n, const char *const *flags)
{
        for (; flags && *flags; flags++) {
                if (n + 1 >= ARGUMENTS_MAX)
                        bench_fail("too many flags");
                arguments[n++] = *flags;
        }
        arguments[n] = NULL;
        return n;
}

char *program_path(const char *name)
{
        char path[4096];
        ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

        if (n < 0)
                bench_fail("/proc is not there");
        path[n] = '\0';
        return bench_text("%.*s/%s", (int)(strrchr(path, '/') - path), path, name);
}

double program_run(const char *const *arguments)
{
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        uint64_t start = now_ns();

        finish(spawn(arguments, -1, null), arguments[0]);
        (void)close(null);
        return seconds_since(start);
}

/* ---- workers ---- */

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

/* Starts a program with a worker inside, whose first line is the ready line. */
static void start(struct worker *w, const char *const *arguments)
{
        static const char mark[] = "\"http\":[\"";
        char line[2048], *url;
        int out[2];

        *w = (struct worker){ 0 };
        make_pipe(out);
        w->pid = spawn(arguments, -1, out[1]);
        (void)close(out[1]);
        w->out = out[0];
        take_line(w, line, sizeof(line));
        url = strstr(line, mark);
        if (!url || sscanf(url + strlen(mark), "%255[^\"]", w->url) != 1)
                bench_fail("not a ready line: %s", line);
        /* No retries: they would hide what they cost. */
        if (ferry_new(w->url, &(struct ferry_options){ .retries = -1, .timeout_ms = 60000 }, &w->client) != 0)
                bench_fail("libferry has no handle to give");
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

void worker_stop(struct worker *w)
{
        w->client = ferry_free(w->client);
        (void)kill(w->pid, SIGTERM);
        finish(w->pid, "a worker");
        (void)close(w->out);
        w->pid = 0;
}

void pair_start(struct pair *p, bool network, const char *const *flags, uint64_t size)
{
        static const char *const network_flags[] = { "--data-listen", "127.0.0.1:0", "--local", "off",
                                                     "--transports",  "tcp,self",    NULL };
        const char *all[ARGUMENTS_MAX] = { NULL };

        (void)copy_flags(all, network ? copy_flags(all, 0, network_flags) : 0, flags);
        worker_start(&p->a, all);
        worker_start(&p->b, all);
        region_create(&p->a, size, &p->at_a);
        region_create(&p->b, size, &p->at_b);
}

void pair_start_owner(struct pair *p, uint64_t size)
{
        char *program = program_path("sim_owner"), text[64];

        (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)size);
        start(&p->a, (const char *const[]){ program, text, NULL });
        free(program);
        take_line(&p->a, text, sizeof(text));
        p->at_a = (struct ferry_region){ .size = size };
        (void)sscanf(text, "%39s", p->at_a.id);
        worker_start(&p->b, NULL);
        region_create(&p->b, size, &p->at_b);
}

void pair_stop(struct pair *p)
{
        worker_stop(&p->b);
        worker_stop(&p->a);
}

void region_create(struct worker *w, uint64_t size, struct ferry_region *ret_region)
{
        bench_check(w->client, ferry_create_region(w->client, &(struct ferry_region_spec){ .size = size }, ret_region),
                    "create region");
}

void region_fill(const struct ferry_region *region, int value)
{
        int fd = open(region->path, O_RDWR | O_CLOEXEC);
        void *memory = fd < 0 ? MAP_FAILED : mmap(NULL, region->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        if (memory == MAP_FAILED)
                bench_fail("cannot map a region: %s", strerror(errno));
        (void)close(fd);
        memset(memory, value, region->size);
        (void)munmap(memory, region->size);
}

/* ---- references ---- */

void reference_start(struct reference *r, const char *name, const char *const *arguments)
{
        char *path = program_path(name);
        const char *all[ARGUMENTS_MAX] = { path };
        int in[2], out[2];

        (void)copy_flags(all, 1, arguments);
        make_pipe(in);
        make_pipe(out);
        r->pid = spawn(all, in[0], out[1]);
        (void)close(in[0]);
        (void)close(out[1]);
        r->in = fdopen(in[1], "w");
        r->out = fdopen(out[0], "r");
        free(path);
}

const char *reference_line(struct reference *r)
{
        static char line[256];

        if (!fgets(line, sizeof(line), r->out))
                bench_fail("a reference program ended early");
        line[strcspn(line, "\n")] = '\0';
        return line;
}

double reference_run(struct reference *r, uint64_t size)
{
        (void)fprintf(r->in, "%llu\n", (unsigned long long)size);
        (void)fflush(r->in);
        return strtod(reference_line(r), NULL);
}

void reference_stop(struct reference *r)
{
        (void)fclose(r->in);
        (void)fclose(r->out);
        finish(r->pid, "a reference program");
}

/* ---- what processes cost ---- */

void share_one_processor(void)
{
        cpu_set_t one;

        CPU_ZERO(&one);
        CPU_SET((size_t)sched_getcpu(), &one);
        if (sched_setaffinity(0, sizeof(one), &one) < 0)
                note("could not be kept on one processor");
}

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

static uint64_t status_bytes(pid_t pid, const char *field)
{
        char path[64];

        (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
        return kib_of(path, field);
}

uint64_t process_anonymous_bytes(pid_t pid)
{
        return status_bytes(pid, "RssAnon:");
}

uint64_t process_resident_bytes(pid_t pid)
{
        return status_bytes(pid, "VmRSS:");
}

uint64_t process_cpu_ns(pid_t pid)
{
        clockid_t clock;
        struct timespec t;

        if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) != 0)
                bench_fail("no CPU clock for process %d", (int)pid);
        return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t size_that_fits(uint64_t size, double times)
{
        uint64_t wanted = size, available = kib_of("/proc/meminfo", "MemAvailable:");

        while (size > MIB && (double)size * times > (double)available)
                size /= 2;
        if (size != wanted)
                note("of %llu MiB instead of %llu, for lack of memory", (unsigned long long)(size / MIB),
                     (unsigned long long)(wanted / MIB));
        return size;
}
