/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FABRIC_LIMITS_H
#define FABRIC_LIMITS_H

/* Sizes and times of the data plane. Chosen by measurement where tests/bench/NOTES.md says so. */

enum {
        FABRIC_CHUNK_LOCAL = 1 << 20,
        FABRIC_CHUNK_NETWORK = 4 << 20,
        FABRIC_CHUNK_MIN = 64 << 10,
        /* Shorter runs of memory travel together in one chunk, as a list of pieces, which TCP moves without PUT. */
        FABRIC_GATHER_BELOW = 256 << 10,
        FABRIC_GATHER_SIZE = 2 << 20, /* bytes of such a chunk at most */
        /* … and of each part it travels in, where that is TCP: what fits into UCX's buffers with the headers. */
        FABRIC_PART_SIZE = 60 << 10,
        FABRIC_PART_PIECES = 15,      /* a message with more is packed first */
        FABRIC_PARTS_BYTES = 4 << 20, /* of one peer that UCX has at once */
        FABRIC_WINDOW_DEFAULT = 4,
        FABRIC_WINDOW_MAX = 64, /* chunks of one transfer in flight, whatever their size; a power of two */
        FABRIC_GRACE_MS = 2000,
        FABRIC_CONNECT_MS = 5000,
        FABRIC_CROWDED_US = 20,   /* another thread had the core for so long: sleep rather than look again */
        FABRIC_BLOCKED_US = 1000, /* a thread that may not sleep and moves nothing for so long … */
        FABRIC_BLOCKED_MS = 1,    /* … looks only this often */
        FABRIC_TICK_MS = 1000,
        FABRIC_IDLE_US = 60 * 1000 * 1000, /* an unused network endpoint is closed after this */
        /*
         * UCX cannot close an endpoint while the peer's queue of messages is full: it waits for room, also when the
         * peer is dead. So what goes to one local peer fits: its rendezvous wait for each other beyond so many bytes,
         * of which 8 KiB go into each of the queue's 1024 elements. The rest is for other senders and small messages.
         */
        FABRIC_LOCAL_BYTES = 3 << 20,
        FABRIC_LEND_MIN = 512,      /* shorter READs are answered by a message with the bytes */
        FABRIC_LEND_SEGMENTS = 4,   /* and those of more pieces of memory */
        FABRIC_PING_US = 100000,    /* our own queue carries a message to ourselves in so long, or is broken */
        FABRIC_RETRY_US = 1000000,  /* between attempts to open the local side anew, and to say where it is */
        FABRIC_ACCEPTED_MAX = 4096, /* endpoints that peers opened */
        /*
         * TCP receives into a buffer of so many bytes (UCX_TCP_RX_SEG_SIZE). What a PUT brings must be more, so that it
         * never lies in it whole.
         */
        FABRIC_PUT_ABOVE = 64 << 10,
        FABRIC_SETTLE_ROUNDS = 64, /* of progress after a forced close */
        FABRIC_EPITAPHS = 256,
        FABRIC_SOON_US = 1000, /* how often a peer is looked at that has to finish a piece */
};

#endif
