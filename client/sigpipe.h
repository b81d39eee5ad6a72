/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_SIGPIPE_H
#define CLIENT_SIGPIPE_H

#include <signal.h>
#include <stdbool.h>

/*
 * Keeps SIGPIPE from the program. TLS libraries send without MSG_NOSIGNAL: a broken connection would kill the program.
 * The signal's disposition belongs to the program, so the guard blocks the signal in this thread and discards it before
 * unblocking.
 */
struct sigpipe_guard {
        bool held; /* else there was no need */
        sigset_t mask;
        bool pending; /* it was there before: not ours to take away */
};

/* needed: whether TLS is in use; where it is not, four system calls are saved. */
struct sigpipe_guard sigpipe_block(bool needed);
void sigpipe_restore(const struct sigpipe_guard *guard);

#endif
