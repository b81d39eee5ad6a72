/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRANSFER_ENGINE_LIMITS_H
#define TRANSFER_ENGINE_LIMITS_H

/* Sizes and times of the engine. Chosen by measurement where tests/bench/NOTES.md says so. */

enum {
        ENGINE_CLOSE_MS = 5000, /* for a local peer to close GPU memory */
        ENGINE_READS_MAX = 64,  /* unanswered READs of one transfer; a requester never sends more */
        ENGINE_GRACE_MS = 2000,
        ENGINE_CONNECT_MS = 5000,
        ENGINE_CROWDED_US = 20,   /* if another thread had the core for so long, sleep rather than spin */
        ENGINE_BLOCKED_US = 1000, /* after so long without progress, a thread that cannot sleep … */
        ENGINE_BLOCKED_MS = 1,    /* … polls at this interval, ms */
        ENGINE_TICK_MS = 1000,
        ENGINE_IDLE_US = 60 * 1000 * 1000,      /* an unused link of UCX is closed after this */
        ENGINE_HTTP_PEER_US = 60 * 1000 * 1000, /* how long a peer counts as connected after a transfer by HTTP */
        ENGINE_CONTACTS_UNLINKED = 256,         /* workers without a link kept for GET /v1/peers … */
        ENGINE_CONTACT_US = 600 * 1000 * 1000,  /* … and for how long */
        /* Tombstones: lists by transfer id, and the length of each. */
        ENGINE_TOMBSTONE_LISTS = 128,
        ENGINE_TOMBSTONE_LIST = 8,
};

#endif
