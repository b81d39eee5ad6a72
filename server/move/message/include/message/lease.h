/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MESSAGE_LEASE_H
#define MESSAGE_LEASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * A lease lets a peer on this host (the holder) copy out of memory that it has mapped read-only. It is one word in a
 * page that only the owner of the memory can write: a sequence lock whose writer is the owner.
 *
 *   owner    stores a new number, gives it to the holder, and ends the lease by storing another one;
 *   holder   loads the word, copies a piece, loads the word again: a piece counts only when both loads found the number
 *            of its lease.
 *
 * Ending a lease is one store, so it waits for nobody. What the holder copies afterwards is discarded by the holder.
 * Numbers are never used again, so a slot can serve the next lease at once. Pure; any thread.
 *
 * On a weakly ordered processor the two fences matter. Suppose that a holder's copy has loaded a byte that was stored
 * after lease_end, by the owner's thread, by another thread that learned of the end through a lock or a system call, or
 * by the kernel. The owner's fence makes the 0 visible before that byte; the holder's fence orders the load of the word
 * after that of the byte. So the holder loads the 0, or a number granted later, and discards the piece. On arm64 the
 * fences are "dmb ish" and "dmb ishld", which also order vector and non-temporal accesses. The holder's first load only
 * saves a useless copy; its acquire pairs with the grant, so that what the owner stored before is visible. Discarding a
 * piece that was whole does no harm.
 *
 * The loads of a piece and the owner's later stores race by design, hence fences. ThreadSanitizer does not model
 * fences (gcc's -Wtsan). It need not: they order only the bytes of regions against the word. All else that the two
 * workers share is ordered by their socket, by mailboxes and by the word's own release and acquire, which it does
 * model.
 */

enum { LEASE_SLOT_SIZE = 64 }; /* bytes: a cache line for each slot */

struct lease_slot {
        _Alignas(LEASE_SLOT_SIZE) _Atomic uint64_t word; /* number of the valid lease; 0 = none */
};

/* Owner: makes the lease of that number (not 0) valid. */
static inline void lease_grant(struct lease_slot *slot, uint64_t number)
{
        atomic_store_explicit(&slot->word, number, memory_order_release);
}

/* Owner: ends the lease. The caller may store into the memory afterwards: the holder discards what it reads then. */
static inline void lease_end(struct lease_slot *slot)
{
        atomic_store_explicit(&slot->word, 0, memory_order_relaxed);
        atomic_thread_fence(memory_order_seq_cst); /* the word is stored before whatever the owner stores next */
}

/* Holder, before copying a piece. false: the lease has ended. */
static inline bool lease_is_valid(const struct lease_slot *slot, uint64_t number)
{
        return atomic_load_explicit(&slot->word, memory_order_acquire) == number;
}

/* Holder, after copying a piece. false: the lease ended meanwhile, so the piece does not count. */
static inline bool lease_was_valid(const struct lease_slot *slot, uint64_t number)
{
        atomic_thread_fence(memory_order_acquire); /* the piece is loaded before the word */
        return atomic_load_explicit(&slot->word, memory_order_relaxed) == number;
}

#endif
