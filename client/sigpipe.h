/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_SIGPIPE_H
#define CLIENT_SIGPIPE_H

#include <signal.h>
#include <stdbool.h>

/*
 * libcurl itself sends with MSG_NOSIGNAL. TLS libraries write to sockets without MSG_NOSIGNAL: a connection that broke
 * would kill the program. Changing the signal's disposition would be the program's business, so it is held back from
 * this thread and taken away.
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
