/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_LOCAL_MEMFD_H
#define MOVE_LOCAL_MEMFD_H

#include <stddef.h>
#include <stdint.h>

/* Memfds sent to peers and received from peers. */

/* A descriptor to send. Reference counted, since queued datagrams refer to it. */
struct memfd {
        int fd;
        unsigned users;
};

struct memfd *memfd_hold(struct memfd *memfd);
/* Takes NULL; returns NULL. */
struct memfd *memfd_drop(struct memfd *memfd);

/* Makes a memfd and maps it; others can map it read-only, and it cannot shrink. 0 or -errno. */
int memfd_new(const char *name, size_t size, void **ret_address, struct memfd **ret_memfd);

/* Reopens a memfd read-only. 0; -ENOENT: no /proc; other -errno. */
int memfd_open(int fd, struct memfd **ret_memfd);

/*
 * Maps the first size bytes of a descriptor that a peer sent, read-only. The file must be this user's, have as many
 * bytes, be sealed against shrinking, and have ordinary pages: of huge ones the system can run short. So no access
 * raises SIGBUS. 0; -EBADMSG: it is not such a file; other -errno.
 */
int memfd_map(int fd, uint64_t size, void **ret_address);

#endif
