/* SPDX-License-Identifier: Apache-2.0 */
#include "sigpipe.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

struct sigpipe_guard sigpipe_block(bool needed)
{
        struct sigpipe_guard guard = { .held = needed };
        sigset_t pending, pipe;
        if (!needed)
                return guard;
        sigemptyset(&pipe);
        sigaddset(&pipe, SIGPIPE);
        sigemptyset(&pending);
        sigpending(&pending);
        guard.pending = sigismember(&pending, SIGPIPE) == 1;
        pthread_sigmask(SIG_BLOCK, &pipe, &guard.mask);
        return guard;
}

void sigpipe_restore(const struct sigpipe_guard *guard)
{
        static const struct timespec at_once;
        sigset_t pipe;
        if (!guard->held)
                return;
        sigemptyset(&pipe);
        sigaddset(&pipe, SIGPIPE);
        if (!guard->pending) {
                while (sigtimedwait(&pipe, NULL, &at_once) < 0 && errno == EINTR)
                        ;
        }
        pthread_sigmask(SIG_SETMASK, &guard->mask, NULL);
}
