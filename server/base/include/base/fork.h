/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FORK_H
#define BASE_FORK_H

/*
 * A program that forks without exec gives its child copies of our descriptors, and none of our threads. Any thread.
 */

/* How many forks led to this process, as far as anything here was looked at: tells what was made by a parent. */
unsigned fork_generation(void);

/*
 * A socket whose end tells peers of our death: a forked child closes it at once. From then on only
 * fork_private_close may close it.
 */
void fork_private(int fd);
/* Closes it. fd -1 = none. */
void fork_private_close(int fd);

#endif
