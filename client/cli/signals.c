/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdatomic.h>

#include "cli.h"

enum { SIGNALS_HANDLES = 1024 }; /* ferry spread has one for each worker */

static _Atomic(struct ferry *) signals_handles[SIGNALS_HANDLES];
static volatile sig_atomic_t signals_signal;
static volatile sig_atomic_t signals_deferred;

static void signals_abort(void)
{
        for (size_t i = 0; i < SIGNALS_HANDLES; i++) {
                struct ferry *f = atomic_load(&signals_handles[i]);
                if (f)
                        ferry_abort(f);
        }
}

static void signals_take(int number)
{
        signals_signal = number;
        if (!signals_deferred)
                signals_abort();
}

void signals_install(void)
{
        static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE };
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(numbers); i++) {
                bool again = numbers[i] == SIGPIPE; /* what is said at the end may go into the same pipe */
                struct sigaction action = { .sa_handler = signals_take, .sa_flags = again ? 0 : (int)SA_RESETHAND },
                                 old;
                sigemptyset(&action.sa_mask);
                sigaction(numbers[i], NULL, &old);
                /* nohup ignores SIGHUP. A script's shell ignores SIGINT for what it starts in the background. */
                if (old.sa_handler != SIG_IGN || numbers[i] == SIGINT)
                        sigaction(numbers[i], &action, NULL);
        }
}

void signals_watch(struct ferry *f)
{
        for (size_t i = 0; i < SIGNALS_HANDLES; i++) {
                struct ferry *none = NULL;
                if (atomic_compare_exchange_strong(&signals_handles[i], &none, f))
                        break;
        }
        if (signals_signal && !signals_deferred)
                ferry_abort(f);
}

void signals_unwatch(struct ferry *f)
{
        for (size_t i = 0; i < SIGNALS_HANDLES; i++) {
                struct ferry *expected = f;
                atomic_compare_exchange_strong(&signals_handles[i], &expected, NULL);
        }
}

int signals_caught(void)
{
        return signals_signal;
}

void signals_defer(void)
{
        signals_deferred = 1;
}

void signals_resume(void)
{
        signals_deferred = 0;
        if (signals_signal)
                signals_abort();
}
