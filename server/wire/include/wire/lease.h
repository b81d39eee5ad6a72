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
 * On a weakly ordered processor the pair of fences is what counts. Let a holder's copy have loaded a byte that the
 * owner stored after lease_end. The owner's fence has the 0 visible before that byte to everybody (also when another
 * thread stores it, that has heard of the end by a lock or a system call, or the kernel does on a thread's behalf); the
 * holder's fence has the word loaded after the byte. So the holder loads the 0, or a number that was granted later, and
 * the piece does not count. On arm64 these are "dmb ish" and "dmb ishld"; both order vector and non-temporal loads and
 * stores, too. The holder's first load only spares a copy, and has the acquire that pairs with the grant: what the
 * owner stored before lending is there. The converse needs nothing: a piece may be discarded although it is whole.
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
