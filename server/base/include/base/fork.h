/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FORK_H
#define BASE_FORK_H

/* For programs that fork without exec: the child has copies of our descriptors, but none of our threads. Any thread. */

/* The number of forks that led to this process: tells what a parent process has made. */
unsigned fork_generation(void);

/*
 * Registers a descriptor that must end with this process, such as a socket whose end tells peers that it has died: a
 * forked child closes it at once. After this only fork_private_close may close it.
 */
void fork_private(int fd);
/* Closes a descriptor, registered or not; as close(). fd -1 = none. */
int fork_private_close(int fd);

#endif
