/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_WORKER_ERROR_H
#define SERVER_WORKER_ERROR_H

/* The sentence of ferry_worker_error. Any thread; each has its own. */

enum { WORKER_ERROR_SIZE = 512 };

/* Sets it and returns error. format NULL = what the number says. */
int worker_fail(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
