/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>

#include <ferry/clock.h>

#include "cli.h"

/*
 * Signals: the first one is remembered and aborts the calls of all handles, so that the command ends by its ordinary
 * way and removes what it has made; main dies of it then. A later one kills. Between signals_defer() and
 * signals_resume() no call is aborted.
 *
 * The handlers use atomics, sig_atomic_t, and functions that are safe there.
 */

enum {
        SIGNALS_HANDLES = 1024, /* ferry spread has one for each worker */
        SIGNALS_AGAIN_MS = 500, /* timeout(1) signals its command twice: to itself, and to its group */
        SIGNALS_REPEAT_MS = 100,
};

static _Atomic(struct ferry *) signals_handles[SIGNALS_HANDLES];
static volatile sig_atomic_t signals_signal;
static volatile sig_atomic_t signals_deferred;

static void (*volatile signals_restore)(void);

void signals_abort(void)
{
        for (size_t i = 0; i < SIGNALS_HANDLES; i++) {
                struct ferry *f = atomic_load(&signals_handles[i]);
                if (f)
                        ferry_abort(f);
        }
}

static void signals_take(int number);

/*
 * SIGALRM after so long, and then again and again: a signal that comes just before a call that it is to end, or when a
 * part is written, does not end it. Also for handlers: for the C library it is safe there.
 */
static void signals_alarm(uint64_t first_ms)
{
        struct sigaction action = { .sa_handler = signals_take };
        struct itimerval times = { .it_interval = { .tv_usec = SIGNALS_REPEAT_MS * 1000 } };
        times.it_value.tv_sec = (time_t)(first_ms / 1000);
        times.it_value.tv_usec = (suseconds_t)(first_ms % 1000 * 1000 + 1); /* 0 would be never */
        sigfillset(&action.sa_mask);
        sigaction(SIGALRM, &action, NULL);
        setitimer(ITIMER_REAL, &times, NULL);
}

static void signals_take(int number)
{
        static uint64_t first_ms; /* which only handlers use, and they exclude each other */
        uint64_t now_ms = ferry_clock_ms();
        int error = errno;
        if (!signals_signal) {
                first_ms = now_ms;
                signals_alarm(SIGNALS_REPEAT_MS);
        } else if (number != SIGPIPE && number != SIGALRM && now_ms - first_ms >= SIGNALS_AGAIN_MS) {
                if (signals_restore)
                        signals_restore();
                signal(number, SIG_DFL);
                raise(number);
        }
        signals_signal = signals_signal ? signals_signal : number;
        errno = error;
        if (!signals_deferred)
                signals_abort();
}

void signals_install(void)
{
        static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE };
        signal(SIGXFSZ, SIG_IGN); /* a file that may not be so large fails as on a full disk */
        for (size_t i = 0; i < FERRY_ARRAY_SIZE(numbers); i++) {
                struct sigaction action = { .sa_handler = signals_take }, old;
                sigfillset(&action.sa_mask);
                sigaction(numbers[i], NULL, &old);
                /* nohup ignores SIGHUP. A script's shell ignores SIGINT for what it starts in the background. */
                if (old.sa_handler != SIG_IGN || numbers[i] == SIGINT)
                        sigaction(numbers[i], &action, NULL);
        }
}

void signals_limit(const struct cli *cli)
{
        if (ferry_option_given(&cli->base, &cli->timeout_ms))
                signals_alarm(cli->timeout_ms);
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

void signals_before_death(void (*restore)(void))
{
        signals_restore = restore;
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
