/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_WORKER_ERROR_H
#define SERVER_WORKER_ERROR_H

#include <stdbool.h>

/* The sentence of ferry_worker_error, one for each thread. Any thread. */

enum { WORKER_ERROR_SIZE = 512 };

/* Sets it and returns error. format NULL = the error's title. */
int worker_fail(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Whether this process made what has this generation (base/fork.h). A forked child has copies of the parent's workers,
 * whose locks may stay locked for ever: public functions check this first, and fail with -ECHILD.
 */
bool worker_is_ours(unsigned generation);

#endif
