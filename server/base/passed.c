/* SPDX-License-Identifier: Apache-2.0 */
#include "base/passed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* -1: not set, or no number. */
static long environment_number(const char *name)
{
        const char *text = getenv(name);
        char *end;

        if (!text || *text < '0' || *text > '9')
                return -1;
        errno = 0;
        long number = strtol(text, &end, 10);
        return errno || *end ? -1 : number;
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
