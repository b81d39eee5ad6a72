/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FABRIC_LEASE_H
#define FABRIC_LEASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A lease lets a peer on this host copy into or out of our memory, which it has mapped, until we take the lease back.
 * It is one word of shared memory in a file of the passive worker, so that it works whatever becomes of the messages
 * between the two:
 *
 *   the holder sets BUSY before it touches the memory, which fails once the lease is revoked, and clears it afterwards;
 *   the owner sets REVOKED; when BUSY is clear, the holder will not touch the memory any more.
 *
 * A word carries the number of its lease, so that one that was revoked is not mistaken for the next in its place. A
 * holder that dies while it is BUSY leaves the bit set: its process tells (a pidfd).
 */

#define LEASE_FILE "leases" /* presence_path's suffix */

enum {
        LEASE_TABLE = 1024,   /* leases of one worker at a time */
        LEASE_SLOT_SIZE = 64, /* a cache line for each: no two holders meet in one */
};

struct lease_slot {
        _Alignas(LEASE_SLOT_SIZE) _Atomic uint64_t word; /* number of the lease << 2 | flags */
};

/* ---- the holder ---- */

/* false: the lease was taken back. Else the memory may be touched until lease_leave. */
bool lease_enter(struct lease_slot *slot, uint64_t number);
/* false: the lease was taken back meanwhile. */
bool lease_leave(struct lease_slot *slot);

/* ---- the owner; who has the turn (turn.c) ---- */

struct leases;

/* Makes the file, which needs the epoch's presence file to be there (else it is reaped). 0 or -errno. */
int leases_new(uint64_t epoch, struct leases **ret_leases);
/* Unlinks it. Takes NULL; returns NULL. */
struct leases *leases_free(struct leases *leases);

struct lease {
        struct leases *leases; /* NULL = none was given */
        uint32_t slot;
        uint64_t number;
};

/* Gives a lease out. false when there is none left. */
bool lease_give(struct leases *leases, struct lease *ret_lease);
/* Where it is, in the owner's memory. */
struct lease_slot *lease_slot(const struct lease *lease);
/* Lets the holder begin nothing more. */
void lease_revoke(const struct lease *lease);
/* Whether the holder is at work right now. Once false after lease_revoke, it stays so. */
bool lease_is_busy(const struct lease *lease);
/* Frees the place: the holder is not at work, or dead. */
void lease_drop(struct lease *lease);

#endif
