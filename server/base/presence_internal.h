/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRESENCE_INTERNAL_H
#define PRESENCE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#define PRESENCE_DIRECTORY "/dev/shm"
#define PRESENCE_PREFIX "ferry-"

/*
 * Opens the presence file of an epoch for reading. The fd, or -ENOENT; -EACCES when it is not a regular file of mode
 * 0600 owned by this user; -errno.
 */
int presence_open(uint64_t epoch);

/*
 * Whether the owner lives, asked through an fd of presence_open. The owner alone ever holds an exclusive lock, and it
 * held that before the file had a name; whoever asks tries for a shared one, which does not mislead others who ask.
 * The shared lock, if had, goes with the fd. 1 alive, 0 dead, -errno.
 */
int presence_is_alive(int fd);

#endif
