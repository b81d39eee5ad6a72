/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_WORKER_FORK_H
#define SERVER_WORKER_FORK_H

#include <stdbool.h>

/*
 * A forked child has copies of the parent's workers, and none of their threads: locks may be held for ever. So each
 * thing that the library hands out remembers its generation, how many forks led to the process that made it, and public
 * functions look at that before anything else.
 */

/* Of this process. Any thread. */
unsigned fork_generation(void);

/* Calls forked in every child, before anything else runs there. Once per process is enough. 0 or -errno. */
int fork_watch(void (*forked)(void));

/* Whether what was made in that generation is of this process; if not, says so by worker_fail. */
bool fork_is_ours(unsigned generation);

#endif
