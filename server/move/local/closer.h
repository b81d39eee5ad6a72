/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_LOCAL_CLOSER_H
#define MOVE_LOCAL_CLOSER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Closes descriptors that peers have passed. The protocol passes memfds alone; closing anything else may block, and not
 * even SIGKILL ends that: a FUSE file waits for its server, an NFS file for its server, a socket for its linger time. A
 * process with a thread that is blocked so cannot end either. So a child process closes them, which shares the table of
 * descriptors and nothing else, and no thread of this process waits for it. The child does not tell the program of its
 * end (no SIGCHLD), and wait() does not find it.
 *
 * The progress thread.
 */

enum { CLOSER_CHILDREN = 8 };

struct closer {
        int *fds; /* to be closed; n of room */
        size_t n, room;
        pid_t children[CLOSER_CHILDREN]; /* n_children */
        size_t n_children;
        bool failed; /* to start a child, and that was logged */
};

/* Closes a memfd, and leaves the rest to closer_run. */
void closer_add(struct closer *closer, int fd);
/* Starts a child if any descriptor is to be closed, and fewer than CLOSER_CHILDREN are blocked. */
void closer_run(struct closer *closer);
/* All children are blocked: no new peers should be taken. */
bool closer_is_stuck(struct closer *closer);
/* Starts a child for what is left, whatever others do. No descriptor may be added afterwards. */
void closer_clear(struct closer *closer);

#endif
