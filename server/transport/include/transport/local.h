/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSPORT_LOCAL_H
#define TRANSPORT_LOCAL_H

#include "transport/transport.h"

/*
 * Peers on this host and of this user: other processes, and other containers that share a directory. Messages go over a
 * Unix socket (SOCK_SEQPACKET), bulk is copied once by the owner of the destination, out of memory that it has mapped
 * read-only. carrier is "shm".
 */

enum { LOCAL_PATH_SIZE = 256 };

struct local_config {
        uint64_t epoch;        /* names this worker's socket in the directory */
        const char *directory; /* "auto" = $XDG_RUNTIME_DIR/ferry, else /tmp/ferry-UID; else the directory itself */
        unsigned copy_threads; /* that share large copies with the progress thread; 0 = that one alone */
        uint32_t chunk_size;   /* bytes that one request asks for at most; 0 = default */
        uint32_t max_links;    /* that peers open; 0 = default */
        uint32_t window;       /* requests of chunk_size in flight over one link; 0 = default */
};

/*
 * Opens the directory (made with mode 0700 where it does not exist), the socket in it and listens. 0 with
 * *ret_transport; -errno, with one log line that says what is wrong with the directory and what to do: a symbolic
 * link, another user's, other modes than 0700, not writable, no room.
 */
int local_transport_new(const struct local_config *config, const struct transport_handlers *handlers, size_t index,
                        struct transport **ret_transport);

/* The directory in use. */
const char *local_transport_directory(const struct transport *transport);

/* Unlinks the socket, nothing else. Any thread, also in a signal handler. For a process that ends at once. */
void local_transport_unlink(const struct transport *transport);

#endif
