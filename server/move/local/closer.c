/* SPDX-License-Identifier: Apache-2.0 */
#include "closer.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ferry/buffer.h>

#include "base/log.h"
#include "base/util.h"

/*
 * The closer: see closer.h. The child is made by clone(CLONE_FILES): it shares the table of descriptors, so what it
 * closes is closed here, and its memory is a copy, so that it may hold locks of threads that it does not have and use
 * only prctl(), close() and _exit(). Thread: the progress thread.
 */

void closer_add(struct closer *closer, int fd)
{
        int *fds;

        if (fcntl(fd, F_GET_SEALS) >= 0) { /* asks no file system */
                (void)close(fd);
                return;
        }
        fds = ferry_reserve(closer->fds, &closer->room, closer->n + 1, sizeof(*fds));
        if (!fds)
                return; /* it stays open: to close it may block */
        closer->fds = fds;
        fds[closer->n++] = fd;
}

/* Other threads of the parent may have held any lock. */
_Noreturn static void child_run(const struct closer *closer)
{
        (void)prctl(PR_SET_NAME, "ferry-closer");
        for (size_t i = 0; i < closer->n; i++)
                (void)close(closer->fds[i]);
        _exit(0);
}

/* A fork without the program's handlers, which may do anything. Returns the child, or -errno. */
static pid_t child_new(const struct closer *closer)
{
        long pid = syscall(SYS_clone, CLONE_FILES, NULL, NULL, NULL, NULL);

        if (pid == 0)
                child_run(closer);
        return pid < 0 ? -errno : (pid_t)pid;
}

/* Forgets the children that have ended. __WALL is needed, since they send no SIGCHLD. */
static void reap(struct closer *closer)
{
        for (size_t i = 0; i < closer->n_children;)
                if (waitpid(closer->children[i], NULL, WNOHANG | __WALL) == 0)
                        i++;
                else
                        closer->children[i] = closer->children[--closer->n_children];
}

/*
 * Starts a child for all descriptors. Returns its id, or -errno: then they stay for the next time, and the log says so
 * once.
 */
static pid_t close_all(struct closer *closer)
{
        pid_t pid = child_new(closer);

        if (pid < 0 && !closer->failed)
                log_event(LOG_WARN, "descriptors of a local peer not closed", LOG_S("reason", strerror(-pid)));
        closer->failed = pid < 0;
        if (pid > 0)
                closer->n = 0;
        return pid;
}

void closer_run(struct closer *closer)
{
        pid_t pid;

        if (closer->n == 0)
                return;
        reap(closer);
        if (closer->n_children == CLOSER_CHILDREN)
                return;
        pid = close_all(closer);
        if (pid > 0)
                closer->children[closer->n_children++] = pid;
}

bool closer_is_stuck(struct closer *closer)
{
        if (closer->n_children == CLOSER_CHILDREN)
                reap(closer);
        return closer->n_children == CLOSER_CHILDREN;
}

void closer_clear(struct closer *closer)
{
        if (closer->n > 0)
                (void)close_all(closer);
        reap(closer);
        free(closer->fds);
        *closer = (struct closer){ 0 };
}
