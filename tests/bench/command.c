/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "bench_internal.h"

/* ---- references ---- */

void program_path(const char *name, char *path, size_t size)
{
        ssize_t n = readlink("/proc/self/exe", path, size - 64);

        if (n < 0)
                bench_fail("/proc is not there");
        path[n] = '\0';
        (void)strcpy(strrchr(path, '/') + 1, name);
}

void reference_start(struct reference *r, const char *name, const char *const *arguments)
{
        char path[4096];
        const char *all[ARGUMENTS_MAX] = { path };
        int in[2], out[2];

        program_path(name, path, sizeof(path));
        (void)copy_flags(all, 1, arguments);
        make_pipe(in);
        make_pipe(out);
        r->pid = spawn(all, in[0], out[1]);
        (void)close(in[0]);
        (void)close(out[1]);
        r->in = fdopen(in[1], "w");
        r->out = fdopen(out[0], "r");
}

const char *reference_line(struct reference *r)
{
        static char line[256];

        if (!fgets(line, sizeof(line), r->out))
                bench_fail("a reference program ended early");
        line[strcspn(line, "\n")] = '\0';
        return line;
}

static void ask(struct reference *r, uint64_t size)
{
        (void)fprintf(r->in, "%llu\n", (unsigned long long)size);
        (void)fflush(r->in);
}

double reference_run(struct reference *r, uint64_t size)
{
        ask(r, size);
        return strtod(reference_line(r), NULL);
}

void reference_begin(struct reference *r, uint64_t size)
{
        ask(r, size);
        if (strcmp(reference_line(r), "ready") != 0)
                bench_fail("a reference program is not ready");
}

void reference_stop(struct reference *r)
{
        int status;

        (void)fclose(r->in);
        (void)fclose(r->out);
        status = finish(r->pid);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                bench_fail("a reference program ended with status %#x", (unsigned)status);
}

/* ---- programs of others ---- */

bool command_exists(const char *name)
{
        const char *path = getenv("PATH");
        char *copy = strdup(path ? path : "/usr/bin"), *save = NULL;
        bool found = false;

        for (char *folder = strtok_r(copy, ":", &save); folder && !found; folder = strtok_r(NULL, ":", &save)) {
                char file[4096];

                (void)snprintf(file, sizeof(file), "%s/%s", folder, name);
                found = access(file, X_OK) == 0;
        }
        free(copy);
        return found;
}

static bool enter_loopback(void)
{
        struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
        int fd;
        bool up;

        if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
                return false;
        fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        up = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &request) == 0;
        if (fd >= 0)
                (void)close(fd);
        return up;
}

/* In a child of ours: server and client as its children, in one network. The client's exit status. */
static int run_both(const char *const *server, const char *const *client)
{
        int null = open("/dev/null", O_RDWR | O_CLOEXEC), status = 0;
        pid_t self = getpid(), serving, calling;

        if (!enter_loopback())
                return 126;
        serving = fork();
        if (serving == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                (void)dup2(null, 1);
                (void)dup2(null, 2);
                if (getppid() == self)
                        execvp(server[0], (char *const *)server);
                _exit(127);
        }
        /* Foreign servers do not say when they are ready: try again until the client gets through. */
        for (int attempt = 0; attempt < 50; attempt++) {
                (void)poll(NULL, 0, 20);
                calling = fork();
                if (calling == 0) {
                        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                        (void)dup2(null, 2);
                        if (getppid() == self)
                                execvp(client[0], (char *const *)client);
                        _exit(127);
                }
                (void)waitpid(calling, &status, 0);
                if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                        break;
        }
        (void)kill(serving, SIGKILL);
        (void)waitpid(serving, NULL, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

char *command_run(const char *const *server, const char *const *client)
{
        int out[2], status;
        pid_t parent = getpid(), pid;
        char *text = NULL;
        size_t size = 0;
        FILE *from;

        make_pipe(out);
        if (!server) {
                pid = spawn(client, -1, out[1]);
        } else {
                (void)fflush(stdout);
                pid = fork();
                if (pid == 0) {
                        child_begin(parent);
                        (void)dup2(out[1], 1);
                        (void)dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
                        _exit(run_both(server, client));
                }
                if (pid < 0)
                        bench_fail("fork: %s", strerror(errno));
                remember(pid);
        }
        (void)close(out[1]);
        from = fdopen(out[0], "r");
        if (getdelim(&text, &size, '\0', from) < 0) {
                free(text);
                text = NULL;
        }
        (void)fclose(from);
        status = finish(pid);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                return text;
        free(text);
        return NULL;
}
