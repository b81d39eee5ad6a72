/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

int thread_new(const char *name, void *(*run)(void *context), void *context, pthread_t *ret_thread)
{
        char text[16]; /* the kernel refuses a longer name */
        sigset_t all, before;
        pthread_t thread;
        int r;

        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        r = -pthread_create(&thread, NULL, run, context);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (r < 0)
                return r;
        (void)snprintf(text, sizeof(text), "%s", name);
        (void)pthread_setname_np(thread, text);
        *ret_thread = thread;
        return 0;
}

void condition_init(pthread_cond_t *condition)
{
        pthread_condattr_t attributes;

        (void)pthread_condattr_init(&attributes);
        (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        (void)pthread_cond_init(condition, &attributes);
        (void)pthread_condattr_destroy(&attributes);
}

bool condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t deadline_us)
{
        const struct timespec until = { .tv_sec = (time_t)(deadline_us / 1000000),
                                        .tv_nsec = (long)(deadline_us % 1000000) * 1000 };

        if (deadline_us == UINT64_MAX)
                return pthread_cond_wait(condition, lock) == 0;
        return pthread_cond_timedwait(condition, lock, &until) != ETIMEDOUT;
}
