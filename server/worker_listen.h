/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_WORKER_LISTEN_H
#define SERVER_WORKER_LISTEN_H

#include <stdbool.h>

/* Whether only this machine can reach "HOST:PORT" (127.0.0.0/8, ::1, localhost), "unix:PATH" or "systemd:FD". */
bool worker_listen_is_loopback(const char *address);

#endif
