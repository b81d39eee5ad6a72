/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_WORKER_ERROR_H
#define SERVER_WORKER_ERROR_H

#include <stdbool.h>

/* The sentence of ferry_worker_error. Any thread; each has its own. */

enum { WORKER_ERROR_SIZE = 512 };

/* Sets it and returns error. format NULL = what the number says. */
int worker_fail(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Whether what was made in that generation of base/fork.h is of this process. A forked child has copies of the parent's
 * workers, whose locks may be held for ever: public functions ask this before anything else, and fail with -ECHILD.
 */
bool worker_is_ours(unsigned generation);

#endif
