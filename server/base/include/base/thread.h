/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

/*
 * Starts a thread of this name, of which the kernel keeps 15 characters. All signals are blocked in it, SIGPIPE of TLS
 * connections included: they belong to the program. 0 or -errno. Any thread.
 */
int thread_new(const char *name, void *(*run)(void *context), void *context, pthread_t *ret_thread);

#endif
