/* SPDX-License-Identifier: Apache-2.0 */
#include "base/notify.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/util.h"

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
