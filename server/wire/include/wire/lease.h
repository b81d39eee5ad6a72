/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_LEASE_H
#define WIRE_LEASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * A lease lets a peer on this host copy out of memory that it has mapped read-only. It is one word in a page that the
 * owner alone can write and the holder can read: a sequence lock whose writer is the owner.
 *
 *   owner    draws a new number, lends it out, and ends the lease by storing another one;
 *   holder   loads the word, copies a piece, loads the word again: a piece counts only when both loads found the number
 *            of its lease.
 *
 * Ending a lease is one store, so it waits for nobody. What the holder copies afterwards is discarded by the holder.
 * Numbers are never used again, so a slot can serve the next lease at once. Pure; any thread.
 *
 * The loads of a piece and the owner's later stores race by design, hence fences. ThreadSanitizer does not follow
 * fences (gcc's -Wtsan), and need not: they order nothing but the bytes of regions against the word. Whatever else the
 * two sides share is ordered by their socket and by the word's own release and acquire, which it does follow.
 */

enum { LEASE_SLOT_SIZE = 64 }; /* bytes: a cache line for each slot */

struct lease_slot {
        _Alignas(LEASE_SLOT_SIZE) _Atomic uint64_t word; /* number of the lease that holds; 0 = none */
};

/* Owner: the lease of that number, not 0, holds from now on. */
static inline void lease_grant(struct lease_slot *slot, uint64_t number)
{
        atomic_store_explicit(&slot->word, number, memory_order_release);
}

/* Owner: no lease holds. The caller may store into the memory afterwards: no holder will count what it reads then. */
static inline void lease_end(struct lease_slot *slot)
{
        atomic_store_explicit(&slot->word, 0, memory_order_relaxed);
        atomic_thread_fence(memory_order_seq_cst); /* the word is stored before whatever the owner stores next */
}

/* Holder, before a piece is copied. false: the lease has ended. */
static inline bool lease_holds(const struct lease_slot *slot, uint64_t number)
{
        return atomic_load_explicit(&slot->word, memory_order_acquire) == number;
}

/* Holder, after a piece was copied. false: the lease ended meanwhile, and the piece does not count. */
static inline bool lease_held(const struct lease_slot *slot, uint64_t number)
{
        atomic_thread_fence(memory_order_acquire); /* the piece is loaded before the word */
        return atomic_load_explicit(&slot->word, memory_order_relaxed) == number;
}

#endif
