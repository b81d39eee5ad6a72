/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_RIGHTS_H
#define TESTS_RIGHTS_H

#include <string.h>
#include <sys/socket.h>

enum { RIGHTS_MAX = 253 }; /* Linux takes no more */

/* sendmsg() of a datagram that carries n descriptors, RIGHTS_MAX at most. */
static inline ssize_t rights_send(int socket, const void *bytes, size_t size, const int *fds, size_t n, int flags)
{
        union {
                struct cmsghdr header;
                char bytes[CMSG_SPACE(RIGHTS_MAX * sizeof(int))];
        } control = { 0 };
        struct iovec piece = { (void *)(uintptr_t)bytes, size };
        struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };

        if (n > 0) {
                message.msg_control = &control;
                message.msg_controllen = CMSG_SPACE(n * sizeof(int));
                control.header.cmsg_level = SOL_SOCKET;
                control.header.cmsg_type = SCM_RIGHTS;
                control.header.cmsg_len = CMSG_LEN(n * sizeof(int));
                memcpy(CMSG_DATA(&control.header), fds, n * sizeof(int));
        }
        return sendmsg(socket, &message, flags);
}

#endif
