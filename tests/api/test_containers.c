/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "steps.h"

/*
 * Two workers in containers of their own (user, pid, ipc, mount, net) that share nothing but one directory, for the
 * local sockets and for HTTP: bytes go by shared memory, as between any two of one user on one host.
 */

enum { MIB = 1 << 20, SIZE = 64 * MIB };

/* Everything else of /tmp and /dev/shm is gone in there. */
#define MOUNTS                                                                                                         \
        "mount -t tmpfs -o size=64k none /dev/shm && mount --bind \"$0\" /mnt && "                                     \
        "mount -t tmpfs -o size=64k none /tmp && mkdir -p \"$0\" && mount --move /mnt \"$0\" && "

/* The program need not lie where the container sees it, such as below /tmp: descriptor 9 is it. */
static const char script[] =
        MOUNTS "exec /proc/self/fd/9 --name \"$1\" --listen \"unix:$0/$1.sock\" --local \"$0/local\"";

static const char *const *unshare_arguments(const char *directory, const char *name)
{
        static const char *arguments[16];
        size_t n = 0;

        arguments[n++] = "unshare";
        if (geteuid() != 0) {
                arguments[n++] = "--user";
                arguments[n++] = "--map-root-user";
        }
        arguments[n++] = "--pid";
        arguments[n++] = "--fork";
        arguments[n++] = "--kill-child";
        arguments[n++] = "--ipc";
        arguments[n++] = "--mount-proc";
        arguments[n++] = "--net";
        arguments[n++] = "/bin/sh";
        arguments[n++] = "-c";
        arguments[n++] = name ? script : MOUNTS "true";
        arguments[n++] = directory;
        arguments[n++] = name;
        arguments[n] = NULL;
        return arguments;
}

/* The namespaces, and the mounts in them: some systems refuse either to ordinary users. */
static bool containers_are_allowed(const struct shared_scene *s)
{
        return command_run(unshare_arguments(s->path, NULL), NULL, NULL, NULL) == 0;
}

/* The only child of unshare: the worker. */
static pid_t child_of(pid_t parent)
{
        int child = 0;
        FILE *f;

        f = fopen(text_format("/proc/%d/task/%d/children", (int)parent, (int)parent), "re");
        assert_non_null(f);
        assert_int_equal(fscanf(f, "%d", &child), 1);
        (void)fclose(f);
        return child;
}

static void container_start(struct shared_scene *s, struct worker *w, const char *name)
{
        const char *const *arguments = unshare_arguments(s->path, name);
        pid_t parent = getpid();
        char line[512] = "";
        int out[2], errors;
        FILE *f;

        *w = (struct worker){ .out = -1 };
        (void)snprintf(w->name, sizeof(w->name), "%s", name);
        (void)snprintf(w->log, sizeof(w->log), "/tmp/ferry-test-XXXXXX");
        errors = mkstemp(w->log);
        assert_true(errors >= 0);
        assert_int_equal(pipe2(out, O_CLOEXEC), 0);
        w->pid = fork();
        if (w->pid == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (getppid() != parent)
                        _exit(127);
                (void)dup2(out[1], 1);
                (void)dup2(errors, 2);
                (void)dup2(open(getenv("FERRYD"), O_RDONLY), 9);
                (void)execvp(arguments[0], (char *const *)arguments);
                _exit(127);
        }
        worker_adopt(w);
        (void)close(out[1]);
        (void)close(errors);
        w->out = dup(out[0]);
        f = fdopen(out[0], "re");
        assert_non_null(f);
        if (!fgets(line, sizeof(line), f)) {
                const char *log = worker_log(w);

                print_error("%s\n", log);
        }
        (void)fclose(f);
        assert_non_null(strstr(line, "\"event\":\"ready\""));
        (void)snprintf(w->url, sizeof(w->url), "unix:%s/%s.sock", s->path, name);
        worker_connect(w, NULL, NULL);
}

/* Ends it as an engine of containers does: SIGTERM to its first process. */
static void container_stop(struct worker *w)
{
        const char *log = worker_log(w);

        assert_int_equal(kill(child_of(w->pid), SIGTERM), 0);
        assert_int_equal(worker_reap(w), 0);
        assert_null(strstr(log, "level=warn"));
        assert_null(strstr(log, "level=error"));
        worker_clean(w);
}

static void move_all(struct worker *a, struct worker *b)
{
        for (int way = 0; way < 4; way++)
                bytes_move(a, b, way & 1 ? FERRY_READABLE : FERRY_WRITABLE, SIZE, way >> 1, "shm");
        pair_assert_serving(&(struct pair){ .a = *b, .b = *a });
}

WITH_SHARED(two_containers_with_one_directory_use_shared_memory)
{
        if (!containers_are_allowed(s)) {
                print_message("Skipped: this system does not let us unshare namespaces\n");
                skip();
        }
        container_start(s, &s->pair.a, "a");
        container_start(s, &s->pair.b, "b");
        move_all(&s->pair.a, &s->pair.b);
        container_stop(&s->pair.b);
        container_stop(&s->pair.a);
}

WITH_SHARED(a_container_and_its_host_use_shared_memory)
{
        const char *local = text_format("%s/local", s->path);

        if (!containers_are_allowed(s)) {
                skip();
        }
        container_start(s, &s->pair.a, "a");
        worker_start(&s->pair.b, "b", STRINGS("--local", local));
        move_all(&s->pair.a, &s->pair.b);
        move_all(&s->pair.b, &s->pair.a);
        worker_stop(&s->pair.b);
        container_stop(&s->pair.a);
}
