/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ANSWERING_PEER_H
#define ANSWERING_PEER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* A server that gives every request the same answer, right or wrong: one thread, one connection at a time. */

struct answering_peer {
        const char *answer; /* NULL = read on until the client leaves */
        const char *later;  /* the answer to every request but the first; NULL = the same */
        size_t fill;        /* bytes of 'x' after the answer */
        bool keep_alive;    /* serve further requests on the connection */
        unsigned port;
        atomic_uint accepted, requests;
        char request[8192]; /* the last; valid once an answer was seen */

        int fd;
        bool runs;
        pthread_t thread;
};

/* Until the end of the test. Made before those that ask it, so that they are gone by then. */
struct answering_peer *answering_peer_new(const char *answer);
struct answering_peer *answering_peer_go(struct answering_peer *peer);
struct answering_peer *answering_peer_start(const char *answer);

#endif
