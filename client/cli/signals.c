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
        struct sigaction action = { .sa_handler = signals_take, .sa_flags = (int)SA_RESETHAND };
        sigemptyset(&action.sa_mask);
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
        sigaction(SIGHUP, &action, NULL);
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
