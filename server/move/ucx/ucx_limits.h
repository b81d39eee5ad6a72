/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MOVE_UCX_LIMITS_H
#define MOVE_UCX_LIMITS_H

/* Sizes and times of the UCX transport. Chosen by measurement where tests/bench/NOTES.md says so. */

enum {
        UCX_AM_ID = 17, /* of every active message; its type is in the header */
        UCX_CHUNK_DEFAULT = 4 << 20,
        UCX_RENDEZVOUS_US = 1400000,  /* longest planned rendezvous; the engine's grace time is 2 s */
        UCX_GATHER_BELOW = 256 << 10, /* shorter runs of memory share a request … */
        UCX_GATHER_SIZE = 2 << 20,    /* … of at most so many bytes */
        /* Over TCP these travel in fragments, inside messages. A fragment fits into UCX's buffers with all headers. */
        UCX_FRAGMENT_SIZE = 60 << 10,
        UCX_FRAGMENTS_BELOW = 512 << 10, /* payloads up to this size also travel in fragments */
        UCX_LONG_RTT_US = 20000,         /* from this round trip on all payloads travel in fragments … */
        UCX_LONG_RATE = 3200,            /* … and the window holds so many bytes for each us of it: 25 Gbit/s */
        UCX_FRAGMENT_PIECES = 15,        /* a message of more pieces is packed first */
        UCX_FRAGMENTS_BYTES = 4 << 20,   /* bytes of fragments handed to UCX for one link */
        /*
         * TCP receives into a buffer of this size (TCP_RX_SEG_SIZE). A PUT must be longer, so that it never lies in the
         * buffer whole.
         */
        UCX_PUT_ABOVE = 64 << 10,
        UCX_DRAIN_ROUNDS = 64,     /* rounds of progress after a forced close */
        UCX_CLOSE_MS = 1000,       /* time for forced closes when the engine stops */
        UCX_LANES_MAX = 32,        /* names of transports in the facts */
        UCX_PROBE_US = 1000000,    /* a round trip longer than this is not measured */
        UCX_MEMLOCK_MIN = 1 << 20, /* an RDMA device does not start with less locked memory */
        UCX_PROBE_IDLE_S = 1,      /* silence before the kernel sends a probe */
        UCX_SILENT_MS = 4400,      /* a host that owes an answer for so long is down */
        UCX_WATCH_MS = 250,        /* interval of checks of the sockets … */
        UCX_WATCH_REST = 100,      /* … but at least so many times the duration of a check */
        UCX_WATCH_QUIET = 4,       /* checks after the last message */
        UCX_LOG_BURST = 20,        /* lines of UCX's log a second */
};

#endif
