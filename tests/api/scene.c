/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scene.h"

enum { WORKERS_MAX = 64 };

/* The workers that run, in the order of their starts. After a failure the struct may be gone, but not its process. */
static struct {
        struct worker *worker;
        pid_t pid;
        char log[sizeof(((struct worker *)0)->log)];
} running[WORKERS_MAX];
static size_t n_running;

void worker_adopt(struct worker *w)
{
        assert_true(n_running < WORKERS_MAX);
        running[n_running].worker = w;
        running[n_running].pid = w->pid;
        memcpy(running[n_running].log, w->log, sizeof(w->log));
        n_running++;
}

void worker_forget(pid_t pid)
{
        size_t kept = 0;

        for (size_t i = 0; i < n_running; i++)
                if (running[i].pid != pid)
                        running[kept++] = running[i];
        n_running = kept;
}

void *scene_new(size_t size)
{
        return test_keep(calloc(1, size), free);
}

void scene_end(const void *scene, size_t size)
{
        for (size_t i = n_running; i-- > 0;) {
                const char *at = (const char *)running[i].worker, *from = scene;

                if (at >= from && at < from + size)
                        worker_stop(running[i].worker);
        }
}

int scene_teardown(void **state)
{
        (void)state;
        for (; n_running > 0; n_running--) {
                (void)kill(running[n_running - 1].pid, SIGKILL);
                (void)waitpid(running[n_running - 1].pid, NULL, 0);
                (void)unlink(running[n_running - 1].log);
        }
        return 0;
}

static void directory_remove(void *path)
{
        (void)command_run(STRINGS("rm", "-rf", path), NULL, NULL, NULL);
}

void directory_make(char *path, size_t size)
{
        (void)snprintf(path, size, "/tmp/ferry-scene-XXXXXX");
        assert_non_null(mkdtemp(path));
        test_keep(path, directory_remove);
}
