/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_SYSTEMD_H
#define BASE_SYSTEMD_H

#include <stdint.h>
#include <sys/socket.h>

/* Listening sockets that systemd, or another service manager, has passed to this process: see sd_listen_fds(3). */

/* How a list of listeners names one: "systemd:3". */
#define PASSED_PREFIX "systemd:"

enum { PASSED_FIRST = 3 /* descriptor of the first socket; the others follow */ };

/* How many sockets were passed; 0 = none. Other programs that this process starts do not inherit them from now on. */
int passed_count(void);

/* The descriptor of a listener that is named so; -1 = it is named otherwise. */
int passed_fd(const char *listener);

/* The address of a listening stream socket. 0, -ENOTSOCK, -EINVAL (not a stream, or not listening). Any thread. */
int passed_address(int fd, struct sockaddr_storage *ret_address, socklen_t *ret_size);

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
