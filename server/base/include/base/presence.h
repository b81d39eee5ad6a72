/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PRESENCE_H
#define BASE_PRESENCE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * A worker's presence on its host: the file /dev/shm/ferry-<epoch, 16 hex digits> of mode 0600. Its owner holds an
 * exclusive flock on it while it lives; the kernel drops the lock however the owner dies. The file holds the worker's
 * UCX address for peers on this host: only the same user can open it, so an address in it may be trusted, which an
 * address out of JSON may not (garbage in it can crash ucp_ep_create). Any thread.
 */

enum { PRESENCE_PATH_SIZE = 64 };

struct presence;

/*
 * Makes this worker's file with the given address (size 0 = no local side). The file appears complete and locked
 * (O_TMPFILE, flock, linkat), so that a reaper never takes a starting worker for a dead one. 0 or -errno.
 */
int presence_new(uint64_t epoch, const void *address, size_t size, struct presence **ret_presence);

/* Replaces the file by one with another address, at once and without a gap. 0 or -errno; then the old one stays. */
int presence_move(struct presence *presence, uint64_t epoch, const void *address, size_t size);

/* Unlinks the file and drops the lock. Takes NULL; returns NULL. */
struct presence *presence_free(struct presence *presence);

/* Another worker on this host, run by this user, alive, in the same pid and network namespaces. */
struct presence_peer {
        pid_t pid;
        int pidfd; /* readable when the peer is dead; the caller closes it */
        void *address;
        size_t size;
};

/*
 * Looks up a peer. 0 with *ret_peer (presence_peer_clear when done); -ENOENT no such file or no local side; -EACCES not
 * a regular file of mode 0600 owned by this user; -ESRCH its owner is dead; -EXDEV other namespaces; -EBADMSG
 * malformed.
 */
int presence_lookup(uint64_t epoch, struct presence_peer *ret_peer);

/* Closes and frees what the lookup stored. */
void presence_peer_clear(struct presence_peer *peer);

/*
 * Unlinks the files of this user's dead workers: those of every epoch whose lock can be had, named ferry-<epoch> and
 * ferry-<epoch>-*. Returns how many files went.
 */
size_t presence_reap(void);

/* The path of this epoch's presence file, or with suffix (not NULL) of "ferry-<epoch>-<suffix>". */
void presence_path(uint64_t epoch, const char *suffix, char path[PRESENCE_PATH_SIZE]);

/* The path of the file that holds a region of this epoch's worker. */
void presence_region_path(uint64_t epoch, uint64_t region, char path[PRESENCE_PATH_SIZE]);

/*
 * Opens a file of any epoch with O_RDONLY or O_RDWR. The fd; -ENOENT; -EACCES when it is not a regular file of mode
 * 0600 owned by this user; -errno.
 */
int presence_open_file(const char *path, int flags);

#endif
