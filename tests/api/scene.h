/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SCENE_H
#define TESTS_SCENE_H

/* Between the files of the harness. */

#include "harness.h"

/* All that comes until the end, NUL-terminated, for free(). */
char *read_all(int fd);

/* The process has been reaped: no test kills it. */
void worker_forget(pid_t pid);

#endif
