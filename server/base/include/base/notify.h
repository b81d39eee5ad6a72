/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_NOTIFY_H
#define BASE_NOTIFY_H

#include <stdint.h>

/*
 * Tells the service manager that started this process of its state: one datagram to $NOTIFY_SOCKET, as sd_notify(3)
 * sends it, without libsystemd. Without that variable each call does nothing. 0 or -errno. Any thread; waits while the
 * manager's queue is full.
 */

/* Requests are served. Also ends notify_reloading. */
int notify_ready(void);
/* The files named by options are being read anew; notify_ready follows, whatever comes of it. */
int notify_reloading(void);
/* No new work is taken, and the process may need so long to end. */
int notify_stopping(uint64_t timeout_ms);

#endif
