/* SPDX-License-Identifier: Apache-2.0 */
#include "base/systemd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include <ferry/encoding.h>

#include "base/clock.h"
#include "base/util.h"

/*
 * The protocols of systemd, which other managers speak too: listening sockets passed to the worker (LISTEN_FDS) and
 * the state of the process (NOTIFY_SOCKET). Two environment variables and a datagram need no library. Thread: any, but
 * not while another changes the environment.
 */

/* ---- sockets ---- */

/* -1: not set, or no number. */
static long environment_number(const char *name)
{
        const char *text = getenv(name);
        uint64_t number;

        return text && ferry_uint_parse(text, INT_MAX, &number) ? (long)number : -1;
}

int passed_count(void)
{
        long n = environment_number("LISTEN_FDS");
        int open = 0;

        if (environment_number("LISTEN_PID") != (long)getpid()) /* a parent's */
                return 0;
        while (open < n && fcntl(PASSED_FIRST + open, F_SETFD, FD_CLOEXEC) == 0)
                open++;
        return open;
}

int passed_fd(const char *listener)
{
        uint64_t fd;

        return strncmp(listener, PASSED_PREFIX, strlen(PASSED_PREFIX)) == 0 &&
                               ferry_uint_parse(listener + strlen(PASSED_PREFIX), INT_MAX, &fd)
                       ? (int)fd
                       : -1;
}

int passed_address(int fd, struct sockaddr_storage *ret_address, socklen_t *ret_size)
{
        struct sockaddr_storage address;
        socklen_t size = sizeof(int);
        int type, listening;

        if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0)
                return -errno;
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) < 0)
                return -errno;
        if (type != SOCK_STREAM || !listening)
                return -EINVAL;
        size = sizeof(address);
        if (getsockname(fd, (struct sockaddr *)&address, &size) < 0)
                return -errno;
        *ret_address = address;
        *ret_size = size;
        return 0;
}

/* ---- state ---- */

enum { STATE_SIZE = 64 };

/* "/run/…", or "@…" in the abstract namespace, whose names begin with a NUL and have their length. */
static int manager_address(struct sockaddr_un *ret_address, socklen_t *ret_size)
{
        const char *path = getenv("NOTIFY_SOCKET");
        size_t length = path ? strlen(path) : 0;

        *ret_address = (struct sockaddr_un){ .sun_family = AF_UNIX };
        if (length == 0)
                return -ENOENT;
        if ((path[0] != '/' && path[0] != '@') || length >= sizeof(ret_address->sun_path))
                return -EINVAL;
        memcpy(ret_address->sun_path, path, length);
        *ret_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
        if (path[0] == '@')
                ret_address->sun_path[0] = '\0';
        else
                *ret_size += 1;
        return 0;
}

/* Sends a state. Returns 0, also where no manager asks for it, or -errno. */
static int notify(const char *state)
{
        FERRY_CLEANUP(cleanup_close) int fd = -1;
        struct sockaddr_un address;
        socklen_t size;
        int r = manager_address(&address, &size);

        if (r < 0)
                return r == -ENOENT ? 0 : r;
        fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return -errno;
        return sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&address, size) < 0 ? -errno : 0;
}

int notify_ready(void)
{
        return notify("READY=1");
}

int notify_reloading(void)
{
        char state[STATE_SIZE];

        (void)snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, clock_now_us());
        return notify(state);
}

int notify_stopping(uint64_t timeout_ms)
{
        char state[STATE_SIZE];

        (void)snprintf(state, sizeof(state), "STOPPING=1\nEXTEND_TIMEOUT_USEC=%" PRIu64, timeout_ms * 1000);
        return notify(state);
}
