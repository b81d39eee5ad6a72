/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOCAL_MEMFD_H
#define LOCAL_MEMFD_H

#include <stddef.h>
#include <stdint.h>

/* Files in memory: those sent to peers, and those that peers sent. */

/* A descriptor to send. Counted, since datagrams that wait hold it as well. */
struct memfd {
        int fd;
        unsigned users;
};

struct memfd *memfd_hold(struct memfd *memfd);
/* Takes NULL; returns NULL. */
struct memfd *memfd_drop(struct memfd *memfd);

/* A new one of that size, mapped here; others can map it read-only, and nobody can shrink it. 0 or -errno. */
int memfd_new(const char *name, size_t size, void **ret_address, struct memfd **ret_memfd);

/*
 * Opens another program's memfd anew, for reading alone. 0 or -errno; -EPERM when it is not sealed against shrinking,
 * -ENOENT without /proc.
 */
int memfd_open(int fd, struct memfd **ret_memfd);

/*
 * Maps a descriptor that a peer sent, whole and read-only. It must be a file of this user of at least size bytes that
 * cannot shrink: what is not mapped cannot raise SIGBUS. 0; -EBADMSG when it is no such file; -errno.
 */
int memfd_map(int fd, uint64_t size, void **ret_address, size_t *ret_mapped);

#endif
