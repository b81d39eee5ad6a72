/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_LOCAL_H
#define MOVE_LOCAL_H

#include "message/transport.h"

/*
 * The transport to peers on this host and of this user: other processes, and containers that share a directory.
 * Messages go over a Unix socket (SOCK_SEQPACKET); bulk is copied once, by the owner of the destination, out of memory
 * that it has mapped read-only. Its carrier is "shm".
 */

struct metrics;

enum { LOCAL_PATH_SIZE = 256 };

struct local_config {
        uint64_t epoch;        /* names this worker's socket in the directory */
        const char *directory; /* "auto" = that of ferryd.8; else the directory itself */
        unsigned copy_threads; /* that help the progress thread with large copies; 0 = none */
        uint32_t max_links;    /* that peers open; 0 = default */
        size_t max_mappings; /* memories of peers that stay mapped while they are idle; 0 = local_mappings_default() */
        struct metrics *metrics; /* may be NULL */
};

/*
 * Opens the directory (made with mode 0700 where it does not exist) and listens on a socket in it. 0 with
 * *ret_transport; -errno, logged with advice: the directory is a symbolic link, another user's, of another mode than
 * 0700, not writable, or full.
 */
int local_transport_new(const struct local_config *config, const struct transport_handlers *handlers, size_t index,
                        struct transport **ret_transport);

/*
 * How many memories of peers a process keeps mapped: a quarter of the mappings that the kernel allows it
 * (vm.max_map_count). The rest is for its own regions, for what else the program maps, and for memories in use.
 */
size_t local_mappings_default(void);

/* The directory in use. */
const char *local_transport_directory(const struct transport *transport);

/* Only unlinks the socket, for a process that ends at once. Any thread, also in a signal handler. */
void local_transport_unlink(const struct transport *transport);

#endif
