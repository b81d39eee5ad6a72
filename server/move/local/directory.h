/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_LOCAL_DIRECTORY_H
#define MOVE_LOCAL_DIRECTORY_H

#include <stdint.h>

#include "move/local.h"

/* The directory of the sockets of this user's workers, named <epoch, 16 hex digits>.sock. */

enum { DIRECTORY_NAME_SIZE = 32 };

struct directory {
        char path[LOCAL_PATH_SIZE];
        int refused; /* the error that was logged last; 0 = none since a socket was made */
        /* Under the lock where they change, and in directory_abandon: */
        int fd;
        char name[DIRECTORY_NAME_SIZE]; /* of this worker's socket; "" = none */
        bool abandoned;
};

/* Opens the directory, and makes it where it does not exist. directory: zeroed, fd -1. 0 or -errno, logged with
 * advice. */
int directory_open(struct directory *directory, const char *path);
/*
 * Opens the directory once more, and makes it where it was removed meanwhile. The same error as before is not logged
 * again. Returns 0 or -errno.
 */
int directory_reopen(struct directory *directory);
void directory_close(struct directory *directory);

/* Makes this worker's socket, which is visible only once it listens. Returns its descriptor, or -errno, logged. */
int directory_listen(struct directory *directory, uint64_t epoch);
/* Whether somebody else has removed this worker's socket. */
bool directory_lost_socket(const struct directory *directory);
/* Returns an inotify descriptor that becomes readable when this worker's socket may have been removed, or -errno. */
int directory_watch_socket(const struct directory *directory);
/* Removes this worker's socket. */
void directory_unlink(struct directory *directory);
/* Removes this worker's socket for good: none is made again. Any thread. */
void directory_abandon(struct directory *directory);

/*
 * Connects to the worker of an epoch. Returns the socket; -ENOENT: no such worker (a dead one's socket is removed);
 * -EACCES: another user's; -EAGAIN: it does not accept; other -errno.
 */
int directory_connect(const struct directory *directory, uint64_t epoch);

/* Removes the sockets of dead workers. */
void directory_sweep(const struct directory *directory);

/* Whether the process at the other end of a socket is this user's. */
bool socket_is_ours(int fd);

#endif
