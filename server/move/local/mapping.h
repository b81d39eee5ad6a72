/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_LOCAL_MAPPING_H
#define MOVE_LOCAL_MAPPING_H

#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"
#include "memory/gpu.h"

#include <uthash.h>

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

/*
 * The memory of peers that is mapped or opened here, of all links. A process may have some 65,000 mappings, so where
 * there are many, the owners are asked to take back those that were not used for longest: only they can tell whether a
 * message that names one is under way, so a mapping stays until they do. The progress thread.
 */

struct channel;

struct mapping_pool {
        size_t n, max;         /* max: more are kept only while they are in use */
        size_t n_asked;        /* of n, those in the list asked */
        struct mapping *idle;  /* utlist; not in use, the least recently used first */
        struct mapping *asked; /* utlist; whose owners were asked to take them back, the first one first */
        struct metric *metric; /* n */
};

enum mapping_state {
        MAPPING_USED,
        MAPPING_IDLE,  /* in the pool's list of that name, as the next one */
        MAPPING_ASKED, /* also while it is used again */
        MAPPING_GONE,  /* the owner has unmapped it: it ends after its last use */
};

struct mapping {
        uint64_t id;
        const uint8_t *address;    /* NULL = GPU memory that is not open, or host memory that is read by fd */
        int fd;                    /* of host memory for which this process has no address space; -1 = mapped */
        const struct space *space; /* of the address; NULL = host memory */
        uint64_t size;             /* as the peer says */
        struct gpu_pin range;      /* size 0 = GPU memory, the base of a struct gpu_mapping */
        unsigned users;
        enum mapping_state state;
        uint64_t asked_us;
        struct channel *channel;     /* of the owner */
        struct mapping *prev, *next; /* idle or asked */
        UT_hash_handle hh;
};

struct gpu_mapping {
        struct mapping base;
        struct pool_task task; /* opens the memory, later closes it */
        struct gpu_share share;
        /* Of the opening; the progress thread's once that is collected. */
        unsigned gpu; /* its number here */
        int result;
        const struct space *space;
        const void *address;
};

/* The mappings of one link. */
struct mappings {
        struct mapping *by_id;
        size_t n;       /* including removed ones still in use, or being closed */
        uint64_t bytes; /* of these */
};

/* Asks for idle ones back while there are more than the pool's maximum. May fail links. */
void mapping_pool_trim(struct mapping_pool *pool);

/*
 * Maps a memory of the peer, or keeps a duplicate of fd where the process has no room for it (RLIMIT_AS,
 * vm.max_map_count), asks for idle ones back, and maps it at a later use; fd stays the caller's. 0; -EBADMSG: the id is
 * known, or fd is not a sealed memfd; -ENOSPC: beyond the limits of a link; other -errno: this process is short of
 * something.
 */
int mapping_add(struct channel *channel, uint64_t id, uint64_t size, int fd);

/* Adds GPU memory, which the caller opens; the caller gets a use of it. */
int mapping_add_gpu(struct channel *channel, uint64_t id, uint64_t size, struct gpu_mapping **ret_mapping);

/* Unmaps a memory after its last use; FRAME_UNMAPPED tells of GPU memory. 0; -EBADMSG: unknown. */
int mapping_remove(struct channel *channel, uint64_t id);

/* Finds the memory that has the bytes [offset, offset + size), and takes a use of it. NULL: not known here. */
struct mapping *mapping_get(struct channel *channel, uint64_t id, uint64_t offset, uint64_t size);
void mapping_put(struct mapping *mapping);

/* Removes all of a link. Its mappings.n is 0 once none is in use or being closed. */
void mappings_clear(struct channel *channel);

/* Unmaps a range; one that is pinned or large on a thread of the pool. Copies *range. */
void unmap_range(struct gpu_pin *range, struct pool_user *tasks);

#endif
