/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Starts a thread of this name, of which the kernel keeps 15 characters. All signals are blocked in it, SIGPIPE of TLS
 * connections included: they belong to the program. 0 or -errno. Any thread.
 */
int thread_new(const char *name, void *(*run)(void *context), void *context, pthread_t *ret_thread);

/* Makes a condition for condition_wait, for pthread_cond_destroy. */
void condition_init(pthread_cond_t *condition);

/* pthread_cond_wait until a deadline of CLOCK_MONOTONIC; UINT64_MAX = none. false: it has passed. */
bool condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t deadline_us);

#endif
