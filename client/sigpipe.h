/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_SIGPIPE_H
#define CLIENT_SIGPIPE_H

#include <signal.h>
#include <stdbool.h>

/*
 * TLS libraries write to sockets without MSG_NOSIGNAL: a connection that broke would kill the program. Changing the
 * signal's disposition would be the program's business, so it is held back from this thread and taken away.
 */
struct sigpipe_guard {
        sigset_t mask;
        bool pending; /* it was there before: not ours to take away */
};

struct sigpipe_guard sigpipe_block(void);
void sigpipe_restore(const struct sigpipe_guard *guard);

#endif
