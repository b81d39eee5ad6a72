/* SPDX-License-Identifier: Apache-2.0 */
#include "base/passed.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ferry/encoding.h>

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
